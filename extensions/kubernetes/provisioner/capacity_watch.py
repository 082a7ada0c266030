# SPDX-License-Identifier: Apache-2.0
"""A watch on the ``CSIStorageCapacity`` objects of all namespaces, except those of Tonnage's own publisher."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity.capacity_objects import MANAGER_LABEL, OWN_MANAGER
from tonnage.extensions.kubernetes.cluster.object_watch import (
    READ_TIMEOUT_SECONDS,
    TIMEOUT_SECONDS,
    WATCH_SECONDS,
    WatchThread,
)
from tonnage.extensions.kubernetes.cluster.objects import CAPACITY_VERSIONS
from tonnage.extensions.kubernetes.provisioner import provisioner_objects
from tonnage.extensions.kubernetes.provisioner.provisioner_objects import CapacityObject

LOG = logging.getLogger(__name__)

_GROUP, _PLURAL = "storage.k8s.io", "csistoragecapacities"
_PAGE_SIZE = 500

_NOT_FOUND, _GONE = 404, 410


class CapacityWatch(WatchThread):
    """Keeps the objects, and calls ``notify`` after each change. ``clock`` returns seconds."""

    thread_name = "capacity-watch"
    failure = "CSIStorageCapacity objects cannot be watched, so their figures expire"

    def __init__(
        self, api: client.ApiClient, notify: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._custom, self._notify = client.CustomObjectsApi(api), notify
        self._lock = threading.Lock()
        self._api_version = CAPACITY_VERSIONS[0]
        self._objects: dict[str, CapacityObject] = {}
        self._resource_version: str | None = None

    def objects(self) -> tuple[int, list[CapacityObject]] | None:
        """Return the objects and the resource version at which they were read; None while they are not known.

        They are not known before the first list, and after a silence of the API server.
        """
        with self._lock:
            if self.is_silent or self._resource_version is None:
                return None
            return int(self._resource_version), list(self._objects.values())

    def _watch_once(self) -> None:
        if self._resource_version is None:
            self._list()
            self._notify()
        try:
            for event in self._watch.stream(  # type: ignore[no-untyped-call]
                self._custom.list_cluster_custom_object,
                **self._selection,
                resource_version=self._resource_version,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_SECONDS,
                _request_timeout=(TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS),
            ):
                self._handle(event)
        except client.ApiException as error:
            # Mostly 410: the server has no events since this resource version any more.
            with self._lock:
                self._resource_version = None
            if error.status != _GONE:
                raise
        else:
            with self._lock:
                self._heard()

    @property
    def _selection(self) -> dict[str, Any]:
        selector = f"{MANAGER_LABEL}!={OWN_MANAGER}"
        return {"group": _GROUP, "version": self._api_version, "plural": _PLURAL, "label_selector": selector}

    def _handle(self, event: Any) -> None:
        raw = event["object"]
        with self._lock:
            self._resource_version = raw["metadata"]["resourceVersion"]
            self._heard()
            if event["type"] == "BOOKMARK":
                return
            name = f"{raw['metadata'].get('namespace', '')}/{raw['metadata']['name']}"
            self._objects.pop(name, None)
            if event["type"] != "DELETED":
                self._add(self._objects, raw)
        self._notify()

    def _list(self) -> None:
        """Read all objects, in the newest API version that the cluster has."""
        for version in CAPACITY_VERSIONS:
            self._api_version = version
            try:
                page: Any = self._page(None)
                break
            except client.ApiException as error:
                if error.status != _NOT_FOUND:
                    raise
        else:
            raise errors.Unavailable("the cluster has no CSIStorageCapacity objects, which Kubernetes has from 1.19 on")
        capacity_objects: dict[str, CapacityObject] = {}
        while True:
            for raw in page["items"]:
                self._add(capacity_objects, raw)
            resource_version, following = page["metadata"]["resourceVersion"], page["metadata"].get("continue")
            if not following:
                break
            page = self._page(following)
        with self._lock:
            self._objects, self._resource_version = capacity_objects, resource_version
            self._heard()

    def _page(self, following: str | None) -> Any:
        return self._custom.list_cluster_custom_object(
            **self._selection, limit=_PAGE_SIZE, _continue=following, _request_timeout=TIMEOUT_SECONDS
        )

    @staticmethod
    def _add(capacity_objects: dict[str, CapacityObject], raw: Any) -> None:
        try:
            capacity_object = provisioner_objects.capacity_object(raw)
        except errors.InvalidInput as error:
            LOG.warning("A CSIStorageCapacity object is left out: %s", error.message)
            return
        if (capacity_object.metadata.labels or {}).get(MANAGER_LABEL) != OWN_MANAGER:
            capacity_objects[capacity_object.full_name] = capacity_object
