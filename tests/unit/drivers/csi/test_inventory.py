# SPDX-License-Identifier: Apache-2.0
"""The inventory of a plugin whose list is in memory; the records are in a real SQLite file."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity.units import GIB
from tonnage.drivers.csi import inventory
from tonnage.drivers.csi.class_pools import ClassPool
from tonnage.drivers.csi.cluster_segments import Segment
from tonnage.drivers.csi.connection import CallFailed, Connection, Deadline
from tonnage.drivers.csi.inventory import Inventory, PoolVolume
from tonnage.drivers.csi.plugin import Capacity, Plugin, PluginCapabilities, PluginVolume
from tonnage.drivers.csi.storage_class_config import EPHEMERAL, StorageClass, VolumeSettings
from tonnage.drivers.csi.volume_records import VolumeRecord, VolumeRecords

Z1, Z2 = (Segment.from_labels({"example.com/zone": zone}) for zone in ("z1", "z2"))
CAPABILITIES = PluginCapabilities(
    name="disk.example.com",
    version="1.2",
    supports_topology=True,
    can_create=True,
    can_list=True,
    reports_capacity=True,
    can_expand=True,
)
PENDING = VolumeRecord(pool="gold/z1", id="v", name="tonnage-1", size=GIB, plugin_id=None)
MADE = dataclasses.replace(PENDING, plugin_id="vol-1")


class ListedPlugin(Plugin):
    """A plugin that lists ``lists`` one after another, and the last of them again and again."""

    def __init__(self) -> None:
        super().__init__(Connection("unix:///csi.sock"))
        self.lists: list[list[PluginVolume]] = [[]]

    def volumes(self, deadline: Deadline) -> list[PluginVolume]:
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]

    def capacity(self, settings: VolumeSettings | None, segment: Segment | None, deadline: Deadline) -> Capacity:
        if segment == Z2:
            raise CallFailed("unix:///csi.sock", "Controller/GetCapacity", grpc.StatusCode.INTERNAL, "", True, False)
        return Capacity(7 * GIB, None, None)


def class_pool(segment: Segment | None, name: str = "gold", storage_id: str | None = None) -> ClassPool:
    """Return a pool of a class in a segment."""
    settings = None if name == EPHEMERAL else VolumeSettings()
    storage_class = StorageClass(name=name, settings=settings, storage_id=storage_id, capabilities={})
    label = "" if segment is None else segment.short_labels()["zone"]
    return ClassPool(f"{name}/{label}".rstrip("/"), storage_class, label, segment)


POOLS = [class_pool(Z1, EPHEMERAL), class_pool(Z1), class_pool(Z2)]


def listed(name: str, size: int = GIB, segments: Sequence[Segment] = (Z1,)) -> PluginVolume:
    return PluginVolume(name, size, segments)


@pytest.fixture
def plugin() -> ListedPlugin:
    return ListedPlugin()


@pytest.fixture
def records(tmp_path: Path) -> VolumeRecords:
    records = VolumeRecords(tmp_path / "state")
    records.check()
    return records


@pytest.fixture
def stock(plugin: ListedPlugin, records: VolumeRecords) -> Inventory:
    return Inventory(plugin, records)


@pytest.fixture
def deadline() -> Deadline:
    return Deadline(60)


# Listings


def test_a_recorded_volume_has_its_own_id_and_the_size_in_the_list(
    plugin: ListedPlugin, records: VolumeRecords, stock: Inventory, deadline: Deadline
) -> None:
    records.save(MADE)
    plugin.lists = [[listed("vol-1", 3 * GIB)]]
    assert stock.volumes(True, POOLS, deadline).volumes == [PoolVolume("v", "gold/z1", 3 * GIB)]
    plugin.lists = [[listed("vol-1", 0)]]
    assert stock.volumes(True, POOLS, deadline).volumes == [PoolVolume("v", "gold/z1", GIB)]
    plugin.lists = [[]]
    assert stock.volumes(True, POOLS, deadline).volumes == []


def test_an_unrecorded_volume_counts_in_the_first_pool_that_reaches_it(
    plugin: ListedPlugin, stock: Inventory, deadline: Deadline
) -> None:
    volumes = [listed("vol-1"), listed("vol-2", segments=(Z2,)), listed("vol-3", segments=())]
    elsewhere = listed("vol-4", segments=(Segment.from_labels({"example.com/zone": "z3"}),))
    plugin.lists = [[*volumes, elsewhere]]
    listing = stock.volumes(True, POOLS, deadline)
    assert [(volume.id, volume.pool) for volume in listing.volumes] == [
        ("vol-1", "gold/z1"),
        ("vol-2", "gold/z2"),
        ("vol-3", "gold/z1"),
    ]
    assert listing.unrecorded == [*volumes, elsewhere]
    assert listing.used_bytes() == {"gold/z1": 2 * GIB, "gold/z2": GIB}


def test_a_volume_that_may_be_a_pending_one_counts_as_in_flight(
    plugin: ListedPlugin, records: VolumeRecords, stock: Inventory, deadline: Deadline
) -> None:
    records.save(dataclasses.replace(PENDING, earlier_ids=frozenset({"vol-8"})))
    plugin.lists = [[listed("vol-1"), listed("vol-2", 0), listed("vol-3", 2 * GIB), listed("vol-8")]]
    listing = stock.volumes(True, POOLS, deadline)
    assert [volume.id for volume in listing.volumes] == ["vol-3", "vol-8"]
    assert listing.ids_of_size(GIB) == {"vol-1", "vol-2", "vol-8"}


def test_volumes_that_the_list_need_not_have_count_by_their_records(
    records: VolumeRecords, stock: Inventory, deadline: Deadline
) -> None:
    records.save(dataclasses.replace(MADE, pool="<ephemeral>/z1", id="inline"))
    records.save(dataclasses.replace(PENDING, id="conflict", has_conflict=True))
    assert {volume.id for volume in stock.volumes(True, POOLS, deadline).volumes} == {"inline", "conflict"}


def test_an_inline_volume_in_the_list_counts_once(
    plugin: ListedPlugin, records: VolumeRecords, stock: Inventory, deadline: Deadline
) -> None:
    records.save(dataclasses.replace(MADE, pool="<ephemeral>/z1"))
    plugin.lists = [[listed("vol-1")]]
    assert stock.volumes(True, POOLS, deadline).volumes == [PoolVolume("v", "<ephemeral>/z1", GIB)]


def test_the_records_stand_for_a_plugin_that_lists_nothing(
    records: VolumeRecords, stock: Inventory, deadline: Deadline
) -> None:
    records.save(MADE)
    records.save(dataclasses.replace(PENDING, id="w"))
    assert stock.volumes(False, POOLS, deadline).volumes == [PoolVolume("v", "gold/z1", GIB)]


# Requests with an unknown outcome


@pytest.mark.parametrize(
    ("volume", "absent"),
    [
        (listed("vol-2", 2 * GIB), True),
        (listed("vol-8"), True),
        (listed("vol-3", segments=(Z2,)), True),
        (listed("vol-2"), False),
        (listed("vol-2", 0), False),
    ],
)
def test_only_a_new_volume_of_the_same_size_may_be_the_requested_one(
    plugin: ListedPlugin, stock: Inventory, deadline: Deadline, volume: PluginVolume, absent: bool
) -> None:
    record = dataclasses.replace(PENDING, earlier_ids=frozenset({"vol-8"}))
    plugin.lists = [[volume]]
    assert stock.shows_absence(record, class_pool(Z1), deadline) is absent


def test_the_volume_of_another_record_is_not_the_requested_one(
    plugin: ListedPlugin, records: VolumeRecords, stock: Inventory, deadline: Deadline
) -> None:
    records.save(dataclasses.replace(MADE, id="w"))
    plugin.lists = [[listed("vol-1")]]
    assert stock.shows_absence(PENDING, class_pool(Z1), deadline)


def test_a_list_that_changes_proves_nothing(plugin: ListedPlugin, stock: Inventory, deadline: Deadline) -> None:
    plugin.lists = [[], [listed("vol-9", 5 * GIB)]]
    assert not stock.shows_absence(PENDING, class_pool(Z1), deadline)
    plugin.lists = [[listed("vol-2")], []]
    assert stock.find_conflicting(PENDING, deadline) is None


def test_a_volume_is_found_by_its_unique_name(plugin: ListedPlugin, stock: Inventory, deadline: Deadline) -> None:
    volume = listed("pool/tonnage-1")
    plugin.lists = [[volume, listed("vol-2")]]
    assert stock.find_named(PENDING, deadline) == volume
    plugin.lists = [[volume, listed("snap/tonnage-1")]]
    assert stock.find_named(PENDING, deadline) is None


def test_a_conflicting_volume_is_the_only_new_one_of_its_size(
    plugin: ListedPlugin, records: VolumeRecords, stock: Inventory, deadline: Deadline
) -> None:
    records.save(PENDING)
    plugin.lists = [[listed("vol-2"), listed("vol-3", 2 * GIB)]]
    assert stock.find_conflicting(PENDING, deadline) == listed("vol-2")
    plugin.lists = [[listed("vol-2"), listed("vol-3")]]
    assert stock.find_conflicting(PENDING, deadline) is None
    plugin.lists = [[listed("vol-2")]]
    records.save(dataclasses.replace(PENDING, id="w"))
    assert stock.find_conflicting(PENDING, deadline) is None


# Single volumes


def test_the_present_size_is_that_in_the_list(plugin: ListedPlugin, stock: Inventory, deadline: Deadline) -> None:
    inline = dataclasses.replace(MADE, pool="<ephemeral>/z1")
    assert stock.present_size(True, MADE, deadline) is None
    assert stock.present_size(True, PENDING, deadline) is None
    assert stock.present_size(True, inline, deadline) == stock.present_size(False, MADE, deadline) == GIB
    plugin.lists = [[listed("vol-1", 3 * GIB)]]
    assert stock.present_size(True, MADE, deadline) == 3 * GIB
    plugin.lists = [[listed("vol-1", 0)]]
    assert stock.present_size(True, MADE, deadline) == GIB


@pytest.mark.parametrize("reference", ["v", "vol-1"])
def test_a_recorded_volume_is_referred_to_by_either_id_in_its_pool(
    plugin: ListedPlugin, records: VolumeRecords, stock: Inventory, deadline: Deadline, reference: str
) -> None:
    records.save(MADE)
    plugin.lists = [[listed("vol-1", 3 * GIB)]]
    assert stock.find_reference(True, class_pool(Z1), reference, deadline) == dataclasses.replace(MADE, size=3 * GIB)
    assert stock.find_reference(True, class_pool(Z2), reference, deadline) is None


def test_an_unrecorded_volume_is_referred_to_from_a_pool_that_reaches_it(
    plugin: ListedPlugin, stock: Inventory, deadline: Deadline
) -> None:
    plugin.lists = [[listed("vol-7")]]
    record = VolumeRecord(pool="gold/z1", id="vol-7", name="", size=GIB, plugin_id="vol-7")
    assert stock.find_reference(True, class_pool(Z1), "vol-7", deadline) == record
    assert stock.find_reference(True, class_pool(Z2), "vol-7", deadline) is None
    assert stock.find_reference(False, class_pool(Z1), "vol-7", deadline) is None


# Capacities


def test_a_failed_query_of_one_pool_leaves_the_others(stock: Inventory, deadline: Deadline) -> None:
    results = stock.capacities(POOLS, deadline)
    assert results.by_pool.keys() == {"<ephemeral>/z1", "gold/z1"}
    assert results.failures == {
        "gold/z2": "unix:///csi.sock answers Controller/GetCapacity with INTERNAL: it does not say why"
    }
    assert stock.capacities([], deadline) == inventory.CapacityResults()


def test_a_pool_with_less_than_nothing_is_overfull() -> None:
    results = inventory.CapacityResults(
        {"full": Capacity(0, None, None), "overfull": Capacity(-3 * GIB // 2, None, None)}
    )
    assert results.overfull() == {"overfull": "-1.5 GiB"}


@given(st.integers(-(2**60), 2**60), st.integers(0, 2**60))
def test_rounding_never_adds_capacity(reported: int, used: int) -> None:
    report = inventory.figures(class_pool(None), Capacity(reported, None, None), used, CAPABILITIES)
    assert 0 <= report["free_capacity_gb"] <= max(reported, 0) / GIB
    assert report["total_capacity_gb"] <= max(reported + used, 0) / GIB
    assert report["provisioned_capacity_gb"] >= used / GIB


def test_the_total_is_what_is_available_and_what_volumes_use() -> None:
    report = inventory.figures(class_pool(Z1, storage_id="disks"), Capacity(7 * GIB, None, None), 3 * GIB, CAPABILITIES)
    assert (report["total_capacity_gb"], report["free_capacity_gb"], report["provisioned_capacity_gb"]) == (10, 7, 3)
    assert (report["storage_id"], report["storage_free_capacity_gb"]) == ("disks/z1", 7)
    assert (report["topology"], report["topology_labels"]) == ({"zone": "z1"}, {"example.com/zone": "z1"})
    overfull = inventory.figures(class_pool(None), Capacity(-2 * GIB, None, None), 3 * GIB, CAPABILITIES)
    assert (overfull["total_capacity_gb"], overfull["free_capacity_gb"]) == (1, 0)
    assert overfull.keys().isdisjoint({"topology", "node_name", "storage_id", "filter_function"})


def test_limits_of_a_volume_are_rounded_inwards_and_joined_to_the_filter_function() -> None:
    pool = class_pool(None)
    own = dataclasses.replace(
        pool, storage_class=dataclasses.replace(pool.storage_class, capabilities={"filter_function": "a or b"})
    )
    report = inventory.figures(own, Capacity(GIB, 3 * GIB // 2 + 1, GIB + 1), 0, CAPABILITIES)
    assert (report["maximum_volume_size_gb"], report["minimum_volume_size_gb"]) == (1.5, 1.01)
    assert report["filter_function"] == (
        "(a or b)"
        " and (volume.operation == 'extend' or volume.size <= capabilities.maximum_volume_size_gb)"
        " and (volume.operation == 'extend' or volume.size >= capabilities.minimum_volume_size_gb)"
    )
