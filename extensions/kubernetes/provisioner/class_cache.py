# SPDX-License-Identifier: Apache-2.0
"""The storage classes of a cluster, which change seldom, and are listed seldom."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kubernetes import client

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.provisioner.provisioner_pools import ClassOfStorage

_TIMEOUT_SECONDS = 10.0
_PAGE_SIZE = 500

#: Seconds after which the classes are listed again, and after which they are if a class is not among them.
_LIFETIME_SECONDS = 60.0
_LEAST_SECONDS = 5.0


class StorageClasses:
    """Lists the storage classes of ``drivers``, all if it is empty. ``clock`` returns seconds.

    A class cannot be changed. A new one is seen when an object of it comes, and a deleted one within a minute.
    """

    def __init__(
        self, api: client.ApiClient, drivers: Collection[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._storage, self._drivers, self._clock = client.StorageV1Api(api), frozenset(drivers), clock
        self._classes: dict[str, ClassOfStorage] = {}
        #: The names of all classes, those of other drivers too.
        self._names: frozenset[str] = frozenset()
        self._listed_at = -math.inf

    def read(self, names: Collection[str]) -> Mapping[str, ClassOfStorage]:
        """Return the classes of the drivers by name. If one of these ``names`` is new, they are listed again.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the cluster does not answer.
        """
        age = self._clock() - self._listed_at
        if age >= _LIFETIME_SECONDS or (age >= _LEAST_SECONDS and not self._names.issuperset(names)):
            self._list()
        return self._classes

    def _list(self) -> None:
        began, names = self._clock(), set()
        classes: dict[str, ClassOfStorage] = {}
        following: str | None = None
        while True:
            page = self._page(following)
            for item in page.items:
                names.add(item.metadata.name)
                if not self._drivers or item.provisioner in self._drivers:
                    classes[item.metadata.name] = ClassOfStorage(item.provisioner, item.parameters or {})
            following = page.metadata._continue
            if not following:
                break
        self._classes, self._names, self._listed_at = classes, frozenset(names), began

    def _page(self, following: str | None) -> Any:
        try:
            return self._storage.list_storage_class(
                limit=_PAGE_SIZE, _continue=following, _request_timeout=_TIMEOUT_SECONDS
            )
        except client.ApiException as error:
            raise errors.Unavailable(
                f"the API server of Kubernetes refused a look at storage classes: {error.status} {error.reason}"
            ) from error
        except Exception as error:  # the client does not wrap the errors of its libraries
            raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
