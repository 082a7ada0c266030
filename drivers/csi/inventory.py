# SPDX-License-Identifier: Apache-2.0
"""The inventory of a plugin: its volumes and the capacity of each pool."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field, replace
from typing import Any

import tonnage
from tonnage.capacity import errors
from tonnage.capacity.units import GIB
from tonnage.drivers import base
from tonnage.drivers.csi.class_pools import ClassPool
from tonnage.drivers.csi.connection import CallFailed, Deadline
from tonnage.drivers.csi.plugin import Capacity, InvalidResponse, Plugin, PluginCapabilities, PluginVolume
from tonnage.drivers.csi.volume_records import VolumeRecord, VolumeRecords

#: Number of parallel capacity queries.
_MAX_PARALLEL_CALLS = 8


#: Limits of a single volume as expressions for schedulers with DriverFilter, by the capability that has the limit. A
#: plugin sets them for new volumes; they do not limit an extend.
_SIZE_LIMIT_FUNCTIONS = {
    "maximum_volume_size_gb": "volume.operation == 'extend' or volume.size <= capabilities.maximum_volume_size_gb",
    "minimum_volume_size_gb": "volume.operation == 'extend' or volume.size >= capabilities.minimum_volume_size_gb",
}


@dataclass(frozen=True, slots=True)
class PoolVolume:
    """A volume in a pool, in bytes. ``id`` is the id of Tonnage for recorded volumes, else the plugin's."""

    id: str
    pool: str
    size: int


@dataclass(slots=True)
class CapacityResults:
    """The capacities of pools by name, and the failures of the other pools."""

    by_pool: dict[str, Capacity] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def overfull(self) -> dict[str, str]:
        """Return the pools that have less than nothing available, with the amount as text."""
        return {
            name: f"{capacity.reported / GIB:g} GiB" for name, capacity in self.by_pool.items() if capacity.reported < 0
        }


class Inventory:
    """Queries of the volumes and capacities of a plugin. Thread-safe."""

    def __init__(self, plugin: Plugin, records: VolumeRecords) -> None:
        self._plugin = plugin
        self._records = records
        #: Volumes that the plugin is creating now: it may list one before it has returned the id.
        self._in_progress: set[tuple[str, str]] = set()
        self._ended_creations = 0
        #: Ids of volumes without a record.
        self._foreign_ids: frozenset[str] = frozenset()
        #: The records of volumes that the plugin may have created, without an answer.
        self._unresolved: dict[tuple[str, str], VolumeRecord] = {}

    @contextlib.contextmanager
    def track_creation(self, record: VolumeRecord) -> Iterator[None]:
        """Mark the volume of a record as being created within the context.

        The record has the plugin's id when the context ends, unless it raises
        :class:`~tonnage.capacity.errors.OutcomeUnknown`, or sqlite3.Error because the id cannot be written.
        """
        key = record.pool, record.id
        self._in_progress.add(key)
        try:
            yield
        except (errors.OutcomeUnknown, sqlite3.Error):
            self._unresolved[key] = record
            raise
        except errors.TonnageError:
            self._unresolved.pop(key, None)
            raise
        else:
            self._unresolved.pop(key, None)
        finally:
            self._ended_creations += 1
            self._in_progress.discard(key)

    def volumes(self, can_list: bool, pools: Sequence[ClassPool], deadline: Deadline) -> list[PoolVolume]:
        """Return the volumes of the plugin, or the recorded volumes where the plugin cannot list any.

        A volume without a record is assigned to the first pool from which it is accessible: its class is unknown. A
        volume that is not accessible from any pool belongs to another backend. A volume that may be one whose creation
        has an unknown outcome is left out: it counts as in flight.
        """
        ended_creations = self._ended_creations
        recorded = self._by_plugin_id(self._records.all())
        if not can_list:
            return [PoolVolume(record.id, record.pool, record.size) for record in recorded.values()]
        found = self._plugin.volumes(deadline)
        in_progress = frozenset(self._in_progress)
        records = self._records.all()
        recorded |= self._by_plugin_id(records)
        # Some plugins list inline volumes and some do not.
        inline = [record for record in records if record.inline and record.plugin_id is not None]
        # A volume that was created meanwhile may be deleted again by now, with its record.
        has_pending = self._ended_creations != ended_creations or any(
            record.plugin_id is None and (record.pool, record.id) in in_progress for record in records
        )
        stored = [PoolVolume(record.id, record.pool, record.size) for record in inline]
        foreign_ids = set()
        for plugin_volume in found:
            record = recorded.get(plugin_volume.id)
            if record is not None and record.inline:
                continue
            if record is not None:
                stored.append(PoolVolume(record.id, record.pool, plugin_volume.size or record.size))
            elif plugin_volume.id in self._foreign_ids or not (has_pending or self._may_be_unresolved(plugin_volume)):
                foreign_ids.add(plugin_volume.id)
                candidates = (
                    each
                    for each in pools
                    if each.storage_class.settings is not None and each.can_reach(plugin_volume.segments)
                )
                pool = next(candidates, None)
                if pool is not None:
                    stored.append(PoolVolume(plugin_volume.id, pool.name, plugin_volume.size))
        self._foreign_ids = frozenset(foreign_ids)
        return stored

    def shows_absence(self, record: VolumeRecord, pool: ClassPool, deadline: Deadline) -> bool:
        """Return whether the plugin's list proves that it does not have the volume of a record without its id.

        The list has no names of volumes: one of the same size that has no record may be it.
        """
        recorded = self._by_plugin_id(self._records.all())
        return not any(
            each.id not in recorded and _may_be(each, record) and pool.can_reach(each.segments)
            for each in self._plugin.volumes(deadline)
        )

    def _may_be_unresolved(self, plugin_volume: PluginVolume) -> bool:
        return any(_may_be(plugin_volume, record) for record in list(self._unresolved.values()))

    def used_bytes(self, can_list: bool, pools: Sequence[ClassPool], deadline: Deadline) -> Mapping[str, int]:
        """Return the sum of the volume sizes in bytes of each pool with volumes, by the name of the pool."""
        used_bytes: dict[str, int] = {}
        for each in self.volumes(can_list, pools, deadline):
            used_bytes[each.pool] = used_bytes.get(each.pool, 0) + each.size
        return used_bytes

    def present_size(self, can_list: bool, record: VolumeRecord, deadline: Deadline) -> int | None:
        """Return the size of a recorded volume in bytes, None if the plugin is known not to have it."""
        if record.plugin_id is None or record.inline or not can_list:
            return None if record.plugin_id is None else record.size
        found = self._plugin.volumes(deadline)
        return next(
            (plugin_volume.size or record.size for plugin_volume in found if plugin_volume.id == record.plugin_id), None
        )

    def find_reference(
        self, can_list: bool, pool: ClassPool, reference: str, deadline: Deadline
    ) -> VolumeRecord | None:
        """Return the record of the volume with this id, of Tonnage or of the plugin, in a pool, with its current size.

        A volume that Tonnage did not create gets a new record, of size 0 if the plugin does not report its size.
        """
        matches = [each for each in self._records.all() if each.plugin_id and reference in (each.id, each.plugin_id)]
        if matches:
            record = next((each for each in matches if each.pool == pool.name), None)
            size = None if record is None else self.present_size(can_list, record, deadline)
            return None if record is None or size is None else replace(record, size=size)
        plugin_volumes = self._plugin.volumes(deadline) if can_list else ()
        found = next((each for each in plugin_volumes if each.id == reference and pool.can_reach(each.segments)), None)
        if found is None:
            return None
        return VolumeRecord(pool=pool.name, id=reference, name="", size=found.size, plugin_id=found.id)

    def capacities(self, pools: Sequence[ClassPool], deadline: Deadline) -> CapacityResults:
        """Query the capacity of all these pools, several at the same time."""
        found = CapacityResults()
        with futures.ThreadPoolExecutor(min(_MAX_PARALLEL_CALLS, max(len(pools), 1))) as executor:
            calls = {pool.name: executor.submit(self.capacity, pool, deadline) for pool in pools}
        for name, call in calls.items():
            try:
                found.by_pool[name] = call.result()
            except (CallFailed, InvalidResponse) as error:
                found.failures[name] = str(error)
        return found

    def capacity(self, pool: ClassPool, deadline: Deadline) -> Capacity:
        """Query the capacity of one pool."""
        return self._plugin.capacity(pool.storage_class.settings, pool.segment, deadline)

    @staticmethod
    def _by_plugin_id(records: Sequence[VolumeRecord]) -> dict[str, VolumeRecord]:
        return {record.plugin_id: record for record in records if record.plugin_id is not None}


def _may_be(plugin_volume: PluginVolume, record: VolumeRecord) -> bool:
    """Return whether a volume of the plugin may be the volume of a record, by their sizes."""
    return plugin_volume.size in (0, record.size)


def figures(
    pool: ClassPool, capacity: Capacity, used_bytes: int, plugin_capabilities: PluginCapabilities
) -> Mapping[str, Any]:
    """Return the report of a pool whose volumes have ``used_bytes`` bytes in total.

    A plugin reports the available capacity, without the space of its volumes: the total is the sum of both.
    """
    free = base.gib_rounded_down(capacity.available)
    optional_fields = {
        # The names of extra specs have no slashes.
        "topology": None if pool.segment is None else pool.segment.short_labels(),
        "topology_labels": None if pool.segment is None else dict(pool.segment.labels),
        "node_name": pool.node,
        "node_list": list(pool.nodes) or None,
        "maximum_volume_size_gb": None if capacity.maximum is None else base.gib_rounded_down(capacity.maximum),
        "minimum_volume_size_gb": None if capacity.minimum is None else base.gib_rounded_up(capacity.minimum),
        "storage_id": pool.storage_id,
        "storage_free_capacity_gb": None if pool.storage_id is None else free,
    }
    functions = [pool.storage_class.capabilities.get("filter_function")]
    functions += [function for name, function in _SIZE_LIMIT_FUNCTIONS.items() if optional_fields[name] is not None]
    return {
        **pool.storage_class.capabilities,
        **_conjunction([function for function in functions if function]),
        "pool_name": pool.name,
        "vendor_name": plugin_capabilities.name,
        "csi_plugin": plugin_capabilities.name,
        "csi_plugin_version": plugin_capabilities.version,
        "driver_version": tonnage.__version__,
        "storage_protocol": "csi",
        "QoS_support": False,
        "multiattach": False,
        "storage_class": pool.storage_class.name,
        "thin_provisioning_support": False,
        "thick_provisioning_support": True,
        "total_capacity_gb": base.gib_rounded_down(max(capacity.reported + used_bytes, 0)),
        "free_capacity_gb": free,
        "provisioned_capacity_gb": base.gib_rounded_up(used_bytes),
        **{name: value for name, value in optional_fields.items() if value is not None},
    }


def _conjunction(functions: Sequence[str]) -> Mapping[str, str]:
    """Return a ``filter_function`` that is true where all of these are, or nothing without any."""
    return {"filter_function": " and ".join(f"({function})" for function in functions)} if functions else {}
