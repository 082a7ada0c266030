# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest

from tonnage.drivers.lvm import volume_group
from tonnage.drivers.lvm.volume_group import Category, LogicalVolume, VolumeGroup

_GIB = 1 << 30

_GROUP = {
    "vg_name": "vg",
    "vg_size": "12880707584",
    "vg_free": "541065216",
    "vg_extent_size": "4194304",
    "vg_attr": "wz--n-",
    "vg_tags": "tonnage.pool=host:lvm,other",
}
_VOLUME = {
    "lv_name": "a",
    "lv_size": str(_GIB),
    "lv_layout": "linear",
    "lv_role": "public",
    "lv_attr": "-wi-a-----",
    "lv_active": "active",
    "lv_suspended": "",
    "lv_inactive_table": "",
    "lv_device_open": "",
    "lv_health_status": "",
    "lv_tags": "",
    "pool_lv": "",
    "origin": "",
    "data_percent": "",
    "metadata_percent": "",
    "lv_metadata_size": "",
}


def _volume(**fields: str) -> dict[str, str]:
    return _VOLUME | fields


def _thin(name: str, pool: str = "pool", **fields: str) -> dict[str, str]:
    return _volume(lv_name=name, lv_layout="thin,sparse", pool_lv=pool, **fields)


def _pool(name: str = "pool", **fields: str) -> dict[str, str]:
    fields_of_pool = {"lv_layout": "thin,pool", "lv_role": "private", "lv_attr": "twi-aotz--"}
    return _volume(lv_name=name, **({"data_percent": "0.00", "metadata_percent": "10.68"} | fields_of_pool | fields))


def _group(*volumes: dict[str, str], **fields: str) -> VolumeGroup:
    return volume_group.parse_group(_GROUP | fields, volumes)


@pytest.mark.parametrize(
    ("layout", "role", "kind"),
    [
        ("linear", "public", Category.THICK),
        ("striped", "public,origin,thickorigin", Category.THICK),
        ("raid,raid1", "public", Category.THICK),
        ("linear", "public,snapshot,thicksnapshot", Category.SNAPSHOT),
        ("thin,sparse", "public", Category.THIN),
        ("thin,sparse", "public,origin,thinorigin,multithinorigin", Category.THIN),
        ("thin,sparse", "public,snapshot,thinsnapshot", Category.SNAPSHOT),
        ("thin,pool", "private", Category.THIN_POOL),
        ("cache,pool", "private", Category.OTHER),
        ("linear", "private,pool,spare", Category.OTHER),
    ],
)
def test_kinds_of_logical_volumes(layout: str, role: str, kind: Category) -> None:
    assert _group(_volume(lv_layout=layout, lv_role=role)).volumes["a"].category is kind


def test_volumes_and_their_sizes_inside_and_outside_of_a_pool() -> None:
    """Volumes of all origins count; snapshots and thin pools are not volumes."""
    group = _group(
        _pool(lv_size=str(20 * _GIB)),
        _pool("pool2"),
        _thin("one"),
        _thin("two", lv_size=str(5 * _GIB)),
        _thin("else", pool="pool2"),
        _thin("snap", lv_role="public,snapshot,thinsnapshot", origin="one"),
        _volume(lv_name="thick", lv_size=str(3 * _GIB)),
        _volume(lv_name="cow", lv_role="public,snapshot,thicksnapshot", origin="thick"),
    )
    assert [volume.name for volume in group.volumes_in("pool")] == ["one", "two"]
    assert [volume.name for volume in group.volumes_in("")] == ["thick"]
    assert group.provisioned("pool") == 6 * _GIB
    assert group.provisioned("") == 3 * _GIB


def test_copies_are_volumes_once_they_are_complete() -> None:
    thin = {"lv_role": "public,snapshot,thinsnapshot", "origin": "one"}
    both = "tonnage.unfinished,tonnage.volume"
    group = _group(
        _pool(),
        _thin("one"),
        _thin("copy", **thin, lv_tags="theirs,tonnage.volume"),
        _thin("half", **thin, lv_tags=both),
        _thin("snap", **thin, lv_tags="theirs"),
        _volume(lv_name="thick"),
        _volume(lv_name="half-thick", lv_tags="tonnage.unfinished"),
    )
    for pool, volumes, unfinished in (("pool", ["one", "copy"], ["half"]), ("", ["thick"], ["half-thick"])):
        assert [volume.name for volume in group.volumes_in(pool)] == volumes
        assert [volume.name for volume in group.unfinished_in(pool)] == unfinished
        assert group.provisioned(pool) == len(volumes) * _GIB
    assert group.dependents("one") == []


def test_dependents_of_a_volume() -> None:
    """A thin snapshot outlives its origin only in the same pool."""
    snapshot = {"lv_role": "public,snapshot,thinsnapshot"}
    group = _group(
        _pool(),
        _thin("one"),
        _thin("snap", origin="one", **snapshot),
        _volume(lv_name="thick"),
        _thin("external", origin="thick", **snapshot),
        _volume(lv_name="cow", lv_role="public,snapshot,thicksnapshot", origin="thick"),
    )
    assert group.dependents("one") == []
    assert group.dependents("thick") == ["external", "cow"]


@pytest.mark.parametrize(
    ("percent", "used"),
    [("0.00", 0), ("0.01", 0.015), ("50.00", 50.005), ("99.99", 99.995), ("100.00", 100), ("", 100)],
)
def test_the_usage_of_a_thin_pool_is_rounded_up(percent: str, used: float) -> None:
    """LVM rounds to two decimals, and prints 0 and 100 only for exact values.

    A pool of unknown usage has nothing free.
    """
    size = 1000 * _GIB
    pool = _group(_pool(lv_size=str(size), data_percent=percent)).volumes["pool"]
    assert pool.used == pytest.approx(size * used / 100, abs=1)
    assert pool.used >= size * used // 100


@pytest.mark.parametrize("health", ["failed", "metadata_read_only"])
def test_a_thin_pool_that_does_not_work_has_nothing_free(health: str) -> None:
    pool = _group(_pool(lv_health_status=health)).volumes["pool"]
    assert pool.used == pool.size


@pytest.mark.parametrize(
    ("mib", "percent", "metadata_full"),
    [(4, "74.99", False), (4, "75.00", True), (32, "87.49", False), (32, "87.50", True), (1024, "99.60", False)],
)
def test_a_thin_pool_with_too_little_metadata_has_nothing_free(mib: int, percent: str, metadata_full: bool) -> None:
    """LVM requires 4 MiB of free metadata, or a quarter."""
    row = _pool(data_percent="50.00", metadata_percent=percent, lv_metadata_size=str(mib << 20))
    pool = _group(row).volumes["pool"]
    assert (pool.used == pool.size) == metadata_full


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ("wz--n-", ""),
        ("rz--n-", "it is read-only"),
        ("wz-pn-", "a physical volume of it is missing"),
    ],
)
def test_problems_of_a_group(attributes: str, problem: str) -> None:
    assert _group(vg_attr=attributes).problem == problem


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"lv_active": ""}, {"active": False}),
        ({"lv_suspended": "suspended"}, {"change_interrupted": True}),
        ({"lv_inactive_table": "inactive table present"}, {"change_interrupted": True}),
        ({"lv_device_open": "open"}, {"in_use": True}),
        ({"lv_tags": "b,a"}, {"tags": frozenset("ab")}),
        # Without device-mapper.
        (dict.fromkeys(["lv_active", "lv_suspended", "lv_inactive_table", "lv_device_open"], "unknown"), {}),
    ],
)
def test_states_of_logical_volumes(fields: dict[str, str], expected: dict[str, Any]) -> None:
    plain = LogicalVolume(name="a", size=_GIB, category=Category.THICK)
    found = _group(_volume(**fields)).volumes["a"]
    assert {name: getattr(found, name) for name in LogicalVolume.__slots__} == {
        name: expected.get(name, getattr(plain, name)) for name in LogicalVolume.__slots__
    }


@pytest.mark.parametrize(
    "answer", ["", "no JSON", "[]", '{"report": []}', '{"report": [{"vg": []}]}', '{"report": [{"lv": []}, {}]}']
)
def test_output_that_is_not_a_report_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="no report"):
        volume_group.parse_rows(answer, "lv")


def test_a_report_without_a_field_is_refused() -> None:
    (row,) = volume_group.parse_rows(json.dumps({"report": [{"lv": [{"lv_name": "a"}]}]}), "lv")
    with pytest.raises(ValueError, match="printed no field 'lv_"):
        volume_group.parse_group(_GROUP, [row])
