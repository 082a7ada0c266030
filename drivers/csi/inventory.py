# SPDX-License-Identifier: Apache-2.0
"""The inventory of a plugin: its volumes and the capacity of each pool."""

from collections.abc import Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field, replace
from typing import Any

import tonnage
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


@dataclass(frozen=True, slots=True)
class VolumeListing:
    """The volumes in the pools of a backend, and all volumes of the plugin that have no record."""

    volumes: Sequence[PoolVolume]
    unrecorded: Sequence[PluginVolume] = ()

    def used_bytes(self) -> Mapping[str, int]:
        """Return the sum of the volume sizes in bytes of each pool with volumes, by the name of the pool."""
        used_bytes: dict[str, int] = {}
        for volume in self.volumes:
            used_bytes[volume.pool] = used_bytes.get(volume.pool, 0) + volume.size
        return used_bytes

    def ids_of_size(self, size: int) -> frozenset[str]:
        """Return the plugin's ids of the volumes without a record that may have so many bytes."""
        return frozenset(volume.id for volume in self.unrecorded if volume.size in (0, size))


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

    def volumes(self, can_list: bool, pools: Sequence[ClassPool], deadline: Deadline) -> VolumeListing:
        """Return the volumes of the plugin, or the recorded volumes where the plugin cannot list any.

        A volume without a record is assigned to the first pool from which it is accessible: its class is unknown. A
        volume that is not accessible from any pool belongs to another backend. A volume that may be one whose creation
        has an unknown outcome is left out: it counts as in flight.
        """
        if not can_list:
            settled = [record for record in self._records.all() if not record.pending]
            return VolumeListing([PoolVolume(record.id, record.pool, record.size) for record in settled])
        # A volume that is created meanwhile may be deleted again before the plugin has listed all, with its record.
        with self._records.watch() as recorded:
            plugin_volumes = self._plugin.volumes(deadline)
            records = self._records.all()
        recorded |= _by_plugin_id(records)
        pending = [record for record in records if record.pending]
        # Some plugins list inline volumes and some do not. A volume with a conflict has an unknown id in the list.
        stored = [
            PoolVolume(record.id, record.pool, record.size)
            for record in records
            if record.has_conflict or (record.inline and record.plugin_id is not None)
        ]
        unrecorded = []
        for plugin_volume in plugin_volumes:
            record = recorded.get(plugin_volume.id)
            if record is not None:
                if not record.inline:
                    stored.append(PoolVolume(record.id, record.pool, plugin_volume.size or record.size))
                continue
            unrecorded.append(plugin_volume)
            if not any(_may_be(plugin_volume, pending_record) for pending_record in pending):
                candidates = (
                    class_pool
                    for class_pool in pools
                    if class_pool.storage_class.settings is not None and class_pool.can_reach(plugin_volume.segments)
                )
                pool = next(candidates, None)
                if pool is not None:
                    stored.append(PoolVolume(plugin_volume.id, pool.name, plugin_volume.size))
        return VolumeListing(stored, unrecorded)

    def shows_absence(self, record: VolumeRecord, pool: ClassPool, deadline: Deadline) -> bool:
        """Return whether the plugin's list proves that the plugin does not have the volume of a pending record.

        The list has no names of volumes: a volume of the same size, without a record, that was not there before the
        request may be it.
        """
        plugin_volumes = self._complete_list(deadline)
        recorded = _by_plugin_id(self._records.all())
        return plugin_volumes is not None and not any(
            volume.id not in recorded and _may_be(volume, record) and pool.can_reach(volume.segments)
            for volume in plugin_volumes
        )

    def find_named(self, record: VolumeRecord, deadline: Deadline) -> PluginVolume | None:
        """Return the volume whose id contains the name of a record, which is unique; None without exactly one."""
        named = [volume for volume in self._plugin.volumes(deadline) if record.name in volume.id]
        return named[0] if len(named) == 1 else None

    def find_conflicting(self, record: VolumeRecord, deadline: Deadline) -> PluginVolume | None:
        """Return the volume that the plugin has under the name of a record, but with other properties than requested.

        Returns None if the list does not prove which it is: it is the only volume of that size that was not there
        before the request and that no other request has made. It may have been managed as another volume since.
        """
        with self._records.watch() as recorded:
            plugin_volumes = self._complete_list(deadline)
            records = self._records.all()
        made = [
            volume
            for volume in plugin_volumes or ()
            if _may_be(volume, record) and (volume.id not in recorded or not recorded[volume.id].name)
        ]
        is_only_request = not any(
            other_record.pending and other_record.size == record.size
            for other_record in records
            if other_record != record
        )
        return made[0] if len(made) == 1 and is_only_request else None

    def _complete_list(self, deadline: Deadline) -> list[PluginVolume] | None:
        """Return the plugin's volumes, or None if they change.

        A list may lack volumes if others are created or deleted between its pages.
        """
        volumes = self._plugin.volumes(deadline)
        return (
            volumes
            if {volume.id for volume in volumes} == {volume.id for volume in self._plugin.volumes(deadline)}
            else None
        )

    def present_size(self, can_list: bool, record: VolumeRecord, deadline: Deadline) -> int | None:
        """Return the size of a recorded volume in bytes, None if the plugin is known not to have it."""
        if record.plugin_id is None or record.inline or not can_list:
            return None if record.plugin_id is None else record.size
        plugin_volumes = self._plugin.volumes(deadline)
        return next(
            (
                plugin_volume.size or record.size
                for plugin_volume in plugin_volumes
                if plugin_volume.id == record.plugin_id
            ),
            None,
        )

    def find_reference(
        self, can_list: bool, pool: ClassPool, reference: str, deadline: Deadline
    ) -> VolumeRecord | None:
        """Return the record of the volume with this id, of Tonnage or of the plugin, in a pool, with its current size.

        A volume that Tonnage did not create gets a new record, of size 0 if the plugin does not report its size.
        """
        matches = [
            candidate
            for candidate in self._records.all()
            if candidate.plugin_id and reference in (candidate.id, candidate.plugin_id)
        ]
        if matches:
            record = next((candidate for candidate in matches if candidate.pool == pool.name), None)
            size = None if record is None else self.present_size(can_list, record, deadline)
            return None if record is None or size is None else replace(record, size=size)
        plugin_volumes = self._plugin.volumes(deadline) if can_list else ()
        plugin_volume = next(
            (volume for volume in plugin_volumes if volume.id == reference and pool.can_reach(volume.segments)), None
        )
        if plugin_volume is None:
            return None
        return VolumeRecord(pool=pool.name, id=reference, name="", size=plugin_volume.size, plugin_id=plugin_volume.id)

    def capacities(self, pools: Sequence[ClassPool], deadline: Deadline) -> CapacityResults:
        """Query the capacity of all these pools, several at the same time."""
        results = CapacityResults()
        with futures.ThreadPoolExecutor(min(_MAX_PARALLEL_CALLS, max(len(pools), 1))) as executor:
            calls = {pool.name: executor.submit(self.capacity, pool, deadline) for pool in pools}
        for name, call in calls.items():
            try:
                results.by_pool[name] = call.result()
            except (CallFailed, InvalidResponse) as error:
                results.failures[name] = str(error)
        return results

    def capacity(self, pool: ClassPool, deadline: Deadline) -> Capacity:
        """Query the capacity of one pool."""
        return self._plugin.capacity(pool.storage_class.settings, pool.segment, deadline)


def _by_plugin_id(records: Sequence[VolumeRecord]) -> dict[str, VolumeRecord]:
    return {record.plugin_id: record for record in records if record.plugin_id is not None}


def _may_be(plugin_volume: PluginVolume, record: VolumeRecord) -> bool:
    """Return whether a volume of the plugin without a record may be that of a pending record."""
    return plugin_volume.size in (0, record.size) and plugin_volume.id not in record.earlier_ids


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
