# SPDX-License-Identifier: Apache-2.0
"""The ``csi`` driver: it creates volumes with any plugin of the Container Storage Interface, and reports its capacity.

A pool is a storage class in a segment of the cluster. The plugin chooses the ids of volumes; a state file maps them to
the ids of Tonnage, see :mod:`tonnage.drivers.csi.volume_records`.
"""

import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_log import log as logging

from tonnage import installation
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, StoredVolume, Volume
from tonnage.drivers.csi import ephemeral_volumes, plugin_settings
from tonnage.drivers.csi.class_pools import ClassPool, ClassPools
from tonnage.drivers.csi.volume_records import VolumeRecord, VolumeRecords
from tonnage.drivers.filesystem import ownership
from tonnage.drivers.options import Section

try:
    from tonnage.drivers.csi import error_context, inventory, startup_checks
    from tonnage.drivers.csi.connection import CallFailed, Connection, Deadline
    from tonnage.drivers.csi.inventory import VolumeListing
    from tonnage.drivers.csi.plugin import Capacity, InvalidResponse, Plugin, PluginCapabilities
    from tonnage.drivers.csi.provisioner import VolumeProvisioner
except Exception as error:  # a library is missing, or older than the compiled messages need
    # The sample configuration names the options of all drivers, installed or not.
    _MISSING = str(error)
else:
    _MISSING = ""

LOG = logging.getLogger(__name__)


class CSIDriver(Driver):
    """Volumes of a plugin of the Container Storage Interface.

    The plugin reports the available capacity, so any over-subscription is the plugin's. All volumes are thick to
    Tonnage: the capacity that a volume may use is not available to another.
    """

    supports_thick = True
    supports_extend = True
    supports_manage = True

    options = plugin_settings.OPTIONS

    def __init__(self, backend: str, conf: Section) -> None:
        super().__init__(backend, conf)
        if _MISSING:
            raise errors.ConfigurationError(
                f"[{conf.section_name}] volume_driver = csi: gRPC cannot be used: {_MISSING}; install it with: "
                f"{installation.install_command('csi')}"
            )
        self._endpoint, self._state_file = plugin_settings.endpoint(conf), plugin_settings.state_file(conf)
        self._pools = ClassPools(plugin_settings.storage_classes(conf, backend), conf, backend.partition("@")[0])
        self._records = VolumeRecords(self._state_file)
        self._plugin = Plugin(Connection(self._endpoint))
        self._inventory = inventory.Inventory(self._plugin, self._records)
        self._provisioner = VolumeProvisioner(
            self._plugin, self._inventory, self._records, ephemeral_volumes.inline_folder(conf)
        )
        self._capabilities: PluginCapabilities | None = None
        self._reported_nodes_version: tuple[int, ...] = ()
        #: Lock from the search for a volume without a record to its management or deletion.
        self._foreign_lock = threading.Lock()
        #: Locks from the query of the capacity to its allocation, by storage id or pool name.
        self._storage_locks: dict[str, threading.Lock] = {}
        #: The last logged failure of each pool, so that each failure is logged once.
        self._logged_failures: dict[str, str] = {}
        #: The pools of which the log says that they are overfull.
        self._logged_overfull: frozenset[str] = frozenset()

    def check(self) -> None:
        """Query the plugin's capabilities, and verify that the state file can be used.

        Commands of the schedulers finish interrupted creates: a scheduler knows the volumes that are still wanted.
        """
        section = self.conf.section_name
        self._records.required_mark = None
        self._capabilities = startup_checks.check_plugin(
            self._plugin, self._pools, section, self._endpoint, self._query_deadline()
        )
        startup_checks.check_state_file(self._records, self._state_file, self.backend, section)
        self._provisioner.can_list = self._capabilities.can_list
        if pending := [f"{record.id} in pool {record.pool}" for record in self._records.all() if record.pending]:
            LOG.warning(
                "Backend %s: it is not known whether the plugin has made these volumes: %s",
                *(self.backend, ", ".join(pending)),
            )

    def ledger_marks(self) -> Mapping[str, str | None]:
        """Return the mark of the state file, which has the volumes of all pools."""
        return dict.fromkeys((pool.name for pool in self._pools.current()), ownership.ledger_mark(self._state_file))

    def mark_ledger(self, mark: str) -> None:
        """Mark the state file, and use it only with its mark from now on."""
        self._records.required_mark = ownership.mark_file(self._state_file, mark)

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Return the figures of each pool.

        A pool of unknown capacity is left out, so that no old figures stay in use.
        """
        deadline = self._query_deadline()
        capabilities = self._require_capabilities()
        self._reported_nodes_version = self._pools.nodes_file_version()
        pools = self._pools.current()
        try:
            used_bytes = self._inventory.volumes(capabilities.can_list, pools, deadline).used_bytes()
        except (CallFailed, InvalidResponse, sqlite3.Error) as error:
            self._log_failures({pool.name: f"its volumes are not known: {error}" for pool in pools})
            return []
        capacities = self._inventory.capacities(pools, deadline)
        self._log_failures(capacities.failures)
        self._log_overfull(capacities.overfull())
        return [
            inventory.figures(pool, capacities.by_pool[pool.name], used_bytes.get(pool.name, 0), capabilities)
            for pool in pools
            if pool.name in capacities.by_pool
        ]

    def has_news(self) -> bool:
        """Return whether the nodes have changed."""
        return self._pools.nodes_file_version() != self._reported_nodes_version

    def create(self, volume: Volume) -> None:
        """Create the volume with the plugin, or find the one that it has created by that name."""
        context = self._operation_context(volume, "create")
        with error_context.for_state_file(context, self._state_file):
            record = self._records.find(volume.pool, volume.id)
            if record is not None and record.plugin_id is None:
                self._repeat_create(record, volume, context, Deadline(self.conf.csi_timeout))
                return
            pool = self._class_pool(volume, context, inline_allowed=True)
            with self._storage_lock(pool):
                # The wait for a call for another volume does not count.
                self._create(record, volume, pool, context, Deadline(self.conf.csi_timeout))

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        """Extend the volume with the plugin."""
        context = self._operation_context(volume, f"extend to {new_size_gb} GiB")
        pool = self._class_pool(volume, context)
        with self._storage_lock(pool), error_context.for_state_file(context, self._state_file):
            deadline = Deadline(self.conf.csi_timeout)
            record = self._records.find(volume.pool, volume.id)
            if record is None or record.plugin_id is None:
                raise errors.NotFound(f"{context}: there is no such volume")
            has_begun = self._records.has_begun_extend(record, volume.operation_id)
            changes = error_context.EarlierChanges.PENDING if has_begun else error_context.EarlierChanges.NONE
            present = self._present_size(record, context, deadline, changes)
            if present is None:
                raise errors.NotFound(f"{context}: there is no such volume")
            if new_size_gb * GIB > present:
                # The plugin may be working on an earlier call, for which it has already taken the capacity.
                if not has_begun:
                    self._admit(pool, volume, new_size_gb - present / GIB, context, deadline)
                with self._records.extending(record, volume.operation_id):
                    present = self._extend(record.plugin_id, new_size_gb, pool, context, deadline)
            self._records.save(replace(record, size=present))

    def delete(self, volume: Volume) -> None:
        """Delete the volume with the plugin.

        If the plugin has not reported its id yet, the request is repeated first. A volume without a record is one that
        others have created, whose id is the plugin's.
        """
        context = self._operation_context(volume, "delete")
        self._require_class(volume, context)
        with error_context.for_state_file(context, self._state_file):
            record = self._records.find(volume.pool, volume.id)
            if record is None:
                self._delete_foreign(volume, context)
                return
            if record.plugin_id is None and not record.inline:
                record = self._find_requested(record, context, Deadline(self.conf.csi_timeout))
            if record is not None:
                self._provisioner.delete(record, context, Deadline(self.conf.csi_timeout))

    def list_volumes(self) -> Sequence[StoredVolume]:
        """Return the plugin's volumes, including those that others have created."""
        context = f"volumes of backend {self.backend} cannot be listed"
        with error_context.for_state_file(context, self._state_file), error_context.for_plugin_call(context):
            listing = self._inventory.volumes(
                self._require_capabilities().can_list, self._pools.current(), self._query_deadline()
            )
        return [StoredVolume(id=volume.id, pool=volume.pool, size_gb=volume.size / GIB) for volume in listing.volumes]

    def manage(self, volume: Volume, reference: str) -> float:
        """Record the plugin's volume ``reference``, an id of the plugin or of Tonnage, as the volume."""
        context = self._operation_context(volume, f"manage of {reference!r}")
        pool = self._class_pool(volume, context)
        with self._storage_lock(pool), self._foreign_lock, error_context.for_state_file(context, self._state_file):
            record = self._records.find(volume.pool, volume.id)
            with error_context.for_plugin_call(context):
                managed = self._inventory.find_reference(
                    self._require_capabilities().can_list, pool, reference, self._query_deadline()
                )
            if record is not None and (managed is None or managed.plugin_id == record.plugin_id):
                managed = record
            elif record is not None:
                raise errors.DriverError(f"{context}: there is a volume {volume.id} already")
            if managed is None or managed.plugin_id is None:
                raise errors.DriverError(f"{context}: there is no such volume in that pool", clean=True)
            if not managed.size:
                raise errors.DriverError(f"{context}: the plugin does not say how large it is", clean=True)
            size_gb = -(-managed.size // GIB)
            if size_gb * GIB != managed.size:
                deadline = Deadline(self.conf.csi_timeout)
                self._admit(pool, volume, size_gb - managed.size / GIB, context, deadline)
                self._extend(managed.plugin_id, size_gb, pool, context, deadline)
            self._records.save(replace(managed, id=volume.id, size=size_gb * GIB), replaced=managed)
            return float(size_gb)

    def _require_capabilities(self) -> "PluginCapabilities":
        if self._capabilities is None:
            raise errors.DriverError(f"backend {self.backend} has not been checked", clean=True)
        return self._capabilities

    def _operation_context(self, volume: Volume, operation: str) -> str:
        """Return the words that errors of an operation begin with."""
        return f"volume {volume.id} in pool {self.backend}#{volume.pool}: {operation} failed"

    def _require_class(self, volume: Volume, context: str) -> None:
        """Raise DriverError if the volume's pool cannot exist."""
        if not self._pools.has_class_of(volume.pool):
            raise errors.DriverError(f"{context}: there is no such pool", clean=True)

    def _class_pool(self, volume: Volume, context: str, inline_allowed: bool = False) -> ClassPool:
        """Return the volume's pool. Raises DriverError if the pool does not take such a volume now."""
        self._require_class(volume, context)
        pool = self._find_pool(volume.pool)
        if pool is None:
            raise errors.DriverError(f"{context}: no node is in that segment any more", clean=True)
        if pool.storage_class.settings is None:
            self._provisioner.inline_folder(context)
            if not inline_allowed:
                raise errors.DriverError(f"{context}: inline ephemeral volumes stay as they were made", clean=True)
        if volume.provisioning is not Provisioning.THICK:
            raise errors.DriverError(f"{context}: the pool makes no {volume.provisioning} volumes", clean=True)
        return pool

    def _find_pool(self, name: str) -> ClassPool | None:
        return next((pool for pool in self._pools.current() if pool.name == name), None)

    def _plugin_name(self, pool: str, volume_id: str) -> str:
        """Return the name of a volume in requests to the plugin.

        It differs between pools and backends for the same id.
        """
        where = hashlib.sha256(f"{self.backend}#{pool}".encode()).hexdigest()
        return f"{volume_id}-{where[:8]}"

    # Queries

    def _query_deadline(self) -> "Deadline":
        return Deadline(self.conf.csi_look_timeout)

    def _present_size(
        self, record: VolumeRecord, context: str, deadline: "Deadline", changes: "error_context.EarlierChanges"
    ) -> int | None:
        """Return the size of a recorded volume in bytes, None if the plugin does not have it."""
        with error_context.for_plugin_call(context, changes):
            return self._inventory.present_size(self._require_capabilities().can_list, record, deadline)

    def _admit(
        self, pool: ClassPool, volume: Volume, size_gb: float, context: str, deadline: "Deadline"
    ) -> "tuple[Capacity, VolumeListing]":
        """Check that ``size_gb`` more GiB fit into the plugin's current capacity; return that, and the volumes."""
        capabilities = self._require_capabilities()
        with error_context.for_plugin_call(context, error_context.EarlierChanges.NONE):
            listing = self._inventory.volumes(capabilities.can_list, self._pools.current(), deadline)
            capacity = self._inventory.capacity(pool, deadline)
        used_bytes = listing.used_bytes().get(pool.name, 0)
        self.admit(inventory.figures(pool, capacity, used_bytes, capabilities), volume, size_gb)
        return capacity, listing

    def _refuse_too_large(self, capacity: "Capacity", volume: Volume) -> None:
        if capacity.maximum is not None and volume.size_gb * GIB > capacity.maximum:
            raise errors.CapacityExceeded(
                f"pool {self.backend}#{volume.pool} cannot take {volume.size_gb} GiB at once: the largest volume the "
                f"plugin makes now has {capacity.maximum / GIB:.2f} GiB, of {capacity.available / GIB:.2f} available"
            )

    def _log_failures(self, failures: Mapping[str, str]) -> None:
        """Log the pools that cannot be reported, once for each change of the reason."""
        for pool, failure in failures.items():
            if self._logged_failures.get(pool) != failure:
                LOG.warning("Pool %s#%s is not reported: %s", self.backend, pool, failure)
        for pool in self._logged_failures.keys() - failures.keys():
            LOG.info("Pool %s#%s is reported again", self.backend, pool)
        self._logged_failures = dict(failures)

    def _log_overfull(self, overfull: Mapping[str, str]) -> None:
        """Log pools that have less than nothing available, once until they have something."""
        for pool, available in overfull.items():
            if pool not in self._logged_overfull:
                LOG.warning(
                    "Pool %s#%s: the plugin reports an available capacity of %s, which counts as 0",
                    *(self.backend, pool, available),
                )
        self._logged_overfull = frozenset(overfull)

    # Changes

    def _find_requested(self, record: VolumeRecord, context: str, deadline: "Deadline") -> VolumeRecord | None:
        """Return the record of a volume that was requested before, with its plugin id, None if the plugin has none."""
        pool = self._find_pool(record.pool)
        if pool is None:
            raise errors.DriverError(f"{context}: no node is in that segment any more")
        return self._provisioner.find(record, pool, context, deadline)

    def _delete_foreign(self, volume: Volume, context: str) -> None:
        """Delete the volume that others have created, by the plugin's id, if the plugin lists it."""
        if not self._require_capabilities().can_list:
            return
        with self._foreign_lock:
            try:
                listing = self._inventory.volumes(True, self._pools.current(), self._query_deadline())
            except (CallFailed, InvalidResponse) as error:
                raise errors.OutcomeUnknown(f"{context}: {error}") from error
            if not any(plugin_volume.id == volume.id for plugin_volume in listing.unrecorded):
                return
            if not any(pool_volume.id == volume.id for pool_volume in listing.volumes):
                raise errors.DriverError(
                    f"{context}: it may be the volume of a create without a known outcome, or of another backend"
                )
            foreign = VolumeRecord(pool=volume.pool, id=volume.id, name="", size=0, plugin_id=volume.id)
            self._provisioner.delete(foreign, context, Deadline(self.conf.csi_timeout))

    def _create(
        self, record: VolumeRecord | None, volume: Volume, pool: ClassPool, context: str, deadline: "Deadline"
    ) -> None:
        """Create a volume that was not requested before, or whose record has the id of a volume that may be gone."""
        is_inline = pool.storage_class.settings is None
        if not is_inline and not self._require_capabilities().can_create:
            raise errors.DriverError(f"{context}: the plugin makes no volumes (CREATE_DELETE_VOLUME)", clean=True)
        size = volume.size_gb * GIB
        finished = error_context.EarlierChanges.FINISHED
        present = None if record is None else self._present_size(record, context, deadline, finished)
        if present not in (None, size):
            raise errors.DriverError(f"{context}: there is one of {present / GIB:g} GiB already")
        if present is not None:
            return
        capacity, listing = self._admit(pool, volume, volume.size_gb, context, deadline)
        self._refuse_too_large(capacity, volume)
        name = self._plugin_name(volume.pool, volume.id)
        # The name of an inline volume is the name of a file as well.
        name = f"csi-{hashlib.sha256(name.encode()).hexdigest()}" if is_inline else name
        new = VolumeRecord(
            pool=volume.pool,
            id=volume.id,
            name=name,
            size=size,
            plugin_id=None,
            earlier_ids=listing.ids_of_size(size),
        )
        self._provisioner.create(new, pool, context, may_exist=False, deadline=deadline)

    def _repeat_create(self, record: VolumeRecord, volume: Volume, context: str, deadline: "Deadline") -> None:
        """Repeat a request without an answer. It was admitted before, so other creates need not wait for it."""
        if record.size != volume.size_gb * GIB:
            raise errors.DriverError(f"{context}: {record.size / GIB:g} GiB were asked for before, and may be there")
        try:
            pool = self._class_pool(volume, context, inline_allowed=True)
        except errors.DriverError as error:
            # What this call cannot do does not undo the earlier one.
            raise errors.OutcomeUnknown(f"{error.message}, and an earlier call may have made it") from error
        self._provisioner.create(record, pool, context, may_exist=True, deadline=deadline)

    def _extend(self, plugin_id: str, size_gb: int, pool: ClassPool, context: str, deadline: "Deadline") -> int:
        if not self._require_capabilities().can_expand:
            raise errors.DriverError(f"{context}: the plugin grows no volumes (EXPAND_VOLUME)", clean=True)
        return self._provisioner.extend(plugin_id, size_gb * GIB, pool, context, deadline)

    @contextlib.contextmanager
    def _storage_lock(self, pool: ClassPool) -> Iterator[None]:
        """Lock the pool's storage against other allocations."""
        with self._storage_locks.setdefault(pool.storage_id or pool.name, threading.Lock()):
            yield
