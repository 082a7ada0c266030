# SPDX-License-Identifier: Apache-2.0
"""The background tasks that keep the pools of provisioners in step with their ``CSIStorageCapacity`` objects."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from kubernetes import client

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.provisioner import provisioner_pools
from tonnage.extensions.kubernetes.provisioner.capacity_watch import CapacityWatch
from tonnage.extensions.kubernetes.provisioner.provisioner_import import ProvisionerImporter
from tonnage.extensions.kubernetes.provisioner.provisioner_pools import ClassOfStorage
from tonnage.extensions.kubernetes.provisioner.provisioner_state import ProvisionerStates
from tonnage.ledger.db.database import Database
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds between two rounds without a notification, and after a failed round.
_INTERVAL_SECONDS = 10.0
_RETRY_SECONDS = 5.0
#: Seconds for which notifications are collected before a round.
_DEBOUNCE_SECONDS = 0.2
_TIMEOUT_SECONDS = 10.0
_PAGE_SIZE = 500


class ImportTasks:
    """Runs the watch on ``CSIStorageCapacity`` objects, and imports their figures.

    ``lifetime`` is the number of seconds for which figures may be used without a renewal. ``drivers`` names the drivers
    whose objects are read, all if it is empty. ``disks`` names the disks of some storage classes.
    """

    def __init__(
        self,
        ledger: Database,
        api: client.ApiClient,
        lifetime: float,
        drivers: Collection[str] = (),
        disks: Mapping[str, str] | None = None,
    ) -> None:
        self._storage, self._drivers, self._disks = client.StorageV1Api(api), frozenset(drivers), dict(disks or {})
        self._importer, self._states = ProvisionerImporter(ledger, lifetime), ProvisionerStates(api)
        self._watch = CapacityWatch(api, lambda: self._worker.wake())
        self._worker = Worker("capacity-import", self._run_once, retry_pause=_RETRY_SECONDS)
        self._last_failure = ""

    def start(self) -> None:
        """Start the threads."""
        self._watch.start()
        self._worker.start()
        self._worker.wake()

    def stop(self) -> None:
        """Stop the threads. The figures remain until they expire."""
        if self._worker.alive:
            self._watch.stop()
            self._worker.stop()

    def run_once(self) -> int:
        """Import the objects that the watch has seen, and return the number of changed pools.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the cluster or the database does not answer.
        """
        seen = self._watch.objects()
        if seen is None:
            return 0
        version, capacity_objects = seen
        classes = self._classes()
        with_drivers = [
            (capacity_object, classes[capacity_object.storage_class_name].driver)
            for capacity_object in capacity_objects
            if capacity_object.storage_class_name in classes
        ]
        states = self._states.read(with_drivers)
        pools = provisioner_pools.pools_by_driver(capacity_objects, classes, states, self._disks)
        return self._importer.import_pools(pools, version)

    def _classes(self) -> dict[str, ClassOfStorage]:
        """Return the storage classes of the drivers by name."""
        classes: dict[str, ClassOfStorage] = {}
        following: str | None = None
        while True:
            try:
                page: Any = self._storage.list_storage_class(
                    limit=_PAGE_SIZE, _continue=following, _request_timeout=_TIMEOUT_SECONDS
                )
            except client.ApiException as error:
                raise errors.Unavailable(
                    f"the API server of Kubernetes refused a look at storage classes: {error.status} {error.reason}"
                ) from error
            except Exception as error:  # the client does not wrap the errors of its libraries
                raise errors.Unavailable(f"the API server of Kubernetes does not answer: {error}") from error
            classes |= {
                item.metadata.name: ClassOfStorage(item.provisioner, item.parameters or {})
                for item in page.items
                if not self._drivers or item.provisioner in self._drivers
            }
            following = page.metadata._continue
            if not following:
                return classes

    def _run_once(self) -> float | None:
        """Run one round, and return the seconds to wait for the next one without a notification."""
        if not self._worker.pause(_DEBOUNCE_SECONDS):
            return None
        try:
            if changed := self.run_once():
                LOG.info("Took over %d pool(s) of provisioners", changed)
        except errors.TonnageError as error:
            if self._last_failure != error.message:
                LOG.warning("Figures of provisioners cannot be taken over now, and expire: %s", error.message)
            self._last_failure = error.message
            return _RETRY_SECONDS
        self._last_failure = ""
        return _INTERVAL_SECONDS
