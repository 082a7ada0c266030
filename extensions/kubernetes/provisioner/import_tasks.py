# SPDX-License-Identifier: Apache-2.0
"""The background tasks that keep the pools of provisioners in step with their ``CSIStorageCapacity`` objects."""

import logging
from collections.abc import Collection, Mapping

from kubernetes import client

from tonnage.extensions.kubernetes.cluster.watch_tasks import WatchedRounds
from tonnage.extensions.kubernetes.provisioner import provisioner_pools
from tonnage.extensions.kubernetes.provisioner.capacity_watch import CapacityWatch
from tonnage.extensions.kubernetes.provisioner.class_cache import StorageClasses
from tonnage.extensions.kubernetes.provisioner.provisioner_import import ProvisionerImporter
from tonnage.extensions.kubernetes.provisioner.provisioner_state import ProvisionerStates
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)


class ImportTasks(WatchedRounds):
    """Runs the watch on ``CSIStorageCapacity`` objects, and imports their figures.

    ``lifetime`` is the number of seconds for which figures may be used without a renewal. ``drivers`` names the drivers
    whose objects are read, all if it is empty. ``disks`` names the disks of some storage classes. When the tasks stop
    the figures remain until they expire.
    """

    thread_name = "capacity-import"
    failure = "Figures of provisioners cannot be taken over now, and expire"
    interval, debounce = 10.0, 0.2

    def __init__(
        self,
        ledger: Database,
        api: client.ApiClient,
        lifetime: float,
        drivers: Collection[str] = (),
        disks: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._classes, self._disks = StorageClasses(api, drivers), dict(disks or {})
        self._importer, self._states = ProvisionerImporter(ledger, lifetime), ProvisionerStates(api)
        self._watch = self._capacities = CapacityWatch(api, self._wake)

    def run_once(self) -> int:
        """Import the objects that the watch has seen, and return the number of changed pools.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the cluster or the database does not answer.
        """
        seen = self._capacities.objects()
        if seen is None:
            return 0
        version, capacity_objects = seen
        classes = self._classes.read({capacity_object.storage_class_name for capacity_object in capacity_objects})
        with_drivers = [
            (capacity_object, classes[capacity_object.storage_class_name].driver)
            for capacity_object in capacity_objects
            if capacity_object.storage_class_name in classes
        ]
        states = self._states.read(with_drivers)
        pools = provisioner_pools.pools_by_driver(capacity_objects, classes, states, self._disks)
        return self._importer.import_pools(pools, version)

    def _round(self) -> None:
        if changed := self.run_once():
            LOG.info("Took over %d pool(s) of provisioners", changed)
