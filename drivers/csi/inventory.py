# SPDX-License-Identifier: Apache-2.0
"""What a plugin has at one moment: volumes, and what is available in each pool."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field, replace
from typing import Any

import tonnage
from tonnage.drivers import rounding
from tonnage.drivers.csi.class_pools import Place
from tonnage.drivers.csi.connection import CallFailed, Deadline
from tonnage.drivers.csi.plugin import Abilities, BadAnswer, Capacity, Plugin
from tonnage.drivers.csi.volume_records import Record, Records

#: How many pools a plugin is asked for at the same time.
_AT_ONCE = 8


#: Limits of a single volume as an expression for schedulers with DriverFilter, by the capability that has the limit. A
#: plugin sets them for volumes that are made; what one grows to is another matter.
_LIMITS = {
    "maximum_volume_size_gb": "volume.operation == 'extend' or volume.size <= capabilities.maximum_volume_size_gb",
    "minimum_volume_size_gb": "volume.operation == 'extend' or volume.size >= capabilities.minimum_volume_size_gb",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A volume in a pool, in bytes; its id is ours where we have made it, else the plugin's."""

    id: str
    pool: str
    size: int


@dataclass(slots=True)
class Capacities:
    """What is available in pools by their names, and why that is not known of others."""

    known: dict[str, Capacity] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Stock:
    """Looks at what a plugin has. Thread-safe."""

    def __init__(self, plugin: Plugin, records: Records) -> None:
        self._plugin = plugin
        self._records = records
        #: Volumes that the plugin is making now: it may list one before it has told us that it is ours.
        self._under_way: set[tuple[str, str]] = set()
        #: Ids of volumes that others have made.
        self._others: frozenset[str] = frozenset()

    @contextlib.contextmanager
    def making(self, record: Record) -> Iterator[None]:
        """Have a volume made meanwhile, whose record is written by then."""
        self._under_way.add((record.pool, record.id))
        try:
            yield
        finally:
            self._under_way.discard((record.pool, record.id))

    def volumes(self, lists: bool, places: Sequence[Place], deadline: Deadline) -> list[Stored]:
        """Return the volumes there are. Where a plugin ``lists`` none, those are known that we have made.

        A volume that others have made is in the first of the pools from which it can be reached: of which class it is,
        nobody says. One that cannot be reached from any is somebody else's.
        """
        ours = self._ours(self._records.all())
        if not lists:
            return [Stored(record.id, record.pool, record.size) for record in ours.values()]
        found = self._plugin.volumes(deadline)
        under_way = frozenset(self._under_way)
        records = self._records.all()
        ours |= self._ours(records)
        # Plugins do not list those that are inline, or do.
        inline = [record for record in records if record.inline and record.plugin_id is not None]
        unclear = any(record.plugin_id is None and (record.pool, record.id) in under_way for record in records)
        stored = [Stored(record.id, record.pool, record.size) for record in inline]
        others = set()
        for held in found:
            record = ours.get(held.id)
            if record is not None and record.inline:
                continue
            if record is not None:
                stored.append(Stored(record.id, record.pool, held.size or record.size))
            elif not unclear or held.id in self._others:
                others.add(held.id)
                near = (each for each in places if each.storage_class.wish is not None and each.reaches(held.segments))
                place = next(near, None)
                if place is not None:
                    stored.append(Stored(held.id, place.name, held.size))
        self._others = frozenset(others)
        return stored

    def used(self, lists: bool, places: Sequence[Place], deadline: Deadline) -> Mapping[str, int]:
        """Return how many bytes volumes have, by the names of pools that have any."""
        used: dict[str, int] = {}
        for each in self.volumes(lists, places, deadline):
            used[each.pool] = used.get(each.pool, 0) + each.size
        return used

    def size(self, lists: bool, record: Record, deadline: Deadline) -> int | None:
        """Return how many bytes a recorded volume has, None if it is not there, as far as that is known."""
        if record.plugin_id is None or record.inline or not lists:
            return None if record.plugin_id is None else record.size
        found = self._plugin.volumes(deadline)
        return next((held.size or record.size for held in found if held.id == record.plugin_id), None)

    def referenced(self, lists: bool, place: Place, reference: str, deadline: Deadline) -> Record | None:
        """Return the record of what goes by an id of ours or of the plugin's in a pool, as large as it is now.

        It is a new one where nobody has made it, of size 0 if the plugin does not say how large it is.
        """
        known = [each for each in self._records.all() if each.plugin_id and reference in (each.id, each.plugin_id)]
        if known:
            record = next((each for each in known if each.pool == place.name), None)
            size = None if record is None else self.size(lists, record, deadline)
            return None if record is None or size is None else replace(record, size=size)
        held = self._plugin.volumes(deadline) if lists else ()
        found = next((each for each in held if each.id == reference and place.reaches(each.segments)), None)
        if found is None:
            return None
        return Record(pool=place.name, id=reference, name="", size=found.size, plugin_id=found.id)

    def capacities(self, places: Sequence[Place], deadline: Deadline) -> Capacities:
        """Ask for all these pools, some at the same time."""
        found = Capacities()
        with futures.ThreadPoolExecutor(min(_AT_ONCE, max(len(places), 1))) as pool:
            asked = {place.name: pool.submit(self.capacity, place, deadline) for place in places}
        for name, answer in asked.items():
            try:
                found.known[name] = answer.result()
            except (CallFailed, BadAnswer) as error:
                found.failures[name] = str(error)
        return found

    def capacity(self, place: Place, deadline: Deadline) -> Capacity:
        """Ask for one pool."""
        return self._plugin.capacity(place.storage_class.wish, place.segment, deadline)

    @staticmethod
    def _ours(records: Sequence[Record]) -> dict[str, Record]:
        return {record.plugin_id: record for record in records if record.plugin_id is not None}


def figures(place: Place, capacity: Capacity, used: int, abilities: Abilities) -> Mapping[str, Any]:
    """Return what a pool reports that has volumes of ``used`` bytes.

    A plugin tells what is available, for which its volumes are gone already: total is what would be there without them.
    """
    free = rounding.hundredths_below(capacity.available)
    shown = {
        # Extra specs of volume types have no slashes in their names.
        "topology": None if place.segment is None else place.segment.short(),
        "topology_labels": None if place.segment is None else dict(place.segment.labels),
        "node_name": place.node,
        "maximum_volume_size_gb": None if capacity.maximum is None else rounding.hundredths_below(capacity.maximum),
        "minimum_volume_size_gb": None if capacity.minimum is None else rounding.hundredths_above(capacity.minimum),
        "storage_id": place.storage_id,
        "storage_free_capacity_gb": None if place.storage_id is None else free,
    }
    functions = [place.storage_class.capabilities.get("filter_function")]
    functions += [function for name, function in _LIMITS.items() if shown[name] is not None]
    return {
        **place.storage_class.capabilities,
        **_all_of([function for function in functions if function]),
        "pool_name": place.name,
        "vendor_name": abilities.name,
        "csi_plugin": abilities.name,
        "csi_plugin_version": abilities.version,
        "driver_version": tonnage.__version__,
        "storage_protocol": "csi",
        "QoS_support": False,
        "multiattach": False,
        "storage_class": place.storage_class.name,
        "thin_provisioning_support": False,
        "thick_provisioning_support": True,
        "total_capacity_gb": rounding.hundredths_below(capacity.available + used),
        "free_capacity_gb": free,
        "provisioned_capacity_gb": rounding.hundredths_above(used),
        **{name: value for name, value in shown.items() if value is not None},
    }


def _all_of(functions: Sequence[str]) -> Mapping[str, str]:
    """Return a ``filter_function`` that holds where all of these do, if there are any."""
    return {"filter_function": " and ".join(f"({function})" for function in functions)} if functions else {}
