# SPDX-License-Identifier: Apache-2.0
"""Drivers in the ledger, and patches of their storage."""

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from sqlalchemy import orm

from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db import database

NAME = "disk.example.com"
GI = 2**30
Patch: TypeAlias = Callable[..., Driver]


def change(raw: Any) -> DriverPatch:
    return type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))


@pytest.fixture
def patch(ledger: database.Database) -> Patch:
    def apply(**raw: Any) -> Driver:
        return ledger.run(driver_rows.patch, NAME, change(raw))

    apply(spec={"capacityTracking": True})
    return apply


def pools(*listed: dict[str, Any], of: str = "fast") -> dict[str, Any]:
    return {"storage": [{"storageClassName": of, "pools": list(listed)}]}


def found(ledger: database.Database) -> Driver:
    with ledger.reading() as session:
        return driver_rows.find(session, NAME)


def stored(ledger: database.Database) -> dict[str, dict[str, Pool]]:
    return {each.storage_class: {pool.name: pool for pool in each.pools} for each in found(ledger).storage}


def test_pools_are_merged_by_class_and_name(ledger: database.Database, patch: Patch) -> None:
    patch(status=pools({"name": "a", "capacity": "1.5Gi", "nodeList": ["n1"]}, {"name": "b", "capacity": 7}))
    patch(status=pools({"name": "a", "expiryTime": "2026-11-21T12:00:00+01:00", "backingId": "disks"}))
    patch(status=pools({"name": "a"}, of="slow"))
    noon = datetime.datetime(2026, 11, 21, 11, tzinfo=datetime.UTC).replace(tzinfo=None)
    assert stored(ledger) == {
        "fast": {
            "a": Pool(name="a", capacity=3 * GI // 2, node_list=("n1",), expires_at=noon, backing_id="disks"),
            "b": Pool(name="b", capacity=7),
        },
        "slow": {"a": Pool(name="a")},
    }
    patch(status=pools({"name": "a", "capacity": None, "expiryTime": None, "nodeList": None}, {"name": "b"}))
    assert stored(ledger)["fast"] == {"a": Pool(name="a", backing_id="disks"), "b": Pool(name="b", capacity=7)}


def test_deletions_remove_pools_and_an_empty_storage_remains(ledger: database.Database, patch: Patch) -> None:
    for name in ("fast", "slow", "old"):
        patch(status=pools({"name": "a"}, {"name": "b"}, of=name))
    gone = {"$patch": "delete"}
    patch(status=pools({"name": "a", **gone}, {"name": "unknown", **gone}))
    patch(
        status={"storage": [{"storageClassName": "slow", "pools": None}, {"storageClassName": "old", **gone}]},
    )
    assert {name: sorted(pools) for name, pools in stored(ledger).items()} == {"fast": ["b"], "slow": []}
    patch(status={"storage": None})
    assert stored(ledger) == {}
    patch(status=pools({"name": "a"}))
    patch(status=None)
    assert stored(ledger) == {}
    assert found(ledger).tracking is True
    patch(spec=None)
    assert found(ledger).tracking is None


def test_the_version_changes_with_each_change_and_detects_conflicts(ledger: database.Database, patch: Patch) -> None:
    first = patch(status=pools({"name": "a", "capacity": 1}))
    again = patch(status=pools({"name": "a", "capacity": "1"}))
    assert again.resource_version == first.resource_version == found(ledger).resource_version
    guard = {"metadata": {"resourceVersion": first.resource_version}}
    second = patch(status=pools({"name": "a", "capacity": 2}), **guard)
    assert second.resource_version != first.resource_version
    with pytest.raises(driver_rows.VersionConflict, match=f"of version {second.resource_version}, no longer of "):
        patch(status=pools({"name": "a", "capacity": 3}), **guard)
    assert stored(ledger)["fast"]["a"].capacity == 2


def test_null_metadata_is_ignored(ledger: database.Database, patch: Patch) -> None:
    for metadata in (None, {"name": None, "resourceVersion": None, "creationTimestamp": None}):
        patch(status=pools({"name": "a", "capacity": 1}), metadata=metadata)
    ledger.run(driver_rows.delete, NAME)
    assert patch(spec={"capacityTracking": True}, metadata={"resourceVersion": None}).tracking is True


def test_a_patch_without_spec_does_not_restore_a_removed_driver(ledger: database.Database, patch: Patch) -> None:
    before = patch(status=pools({"name": "a"}))
    ledger.run(driver_rows.delete, NAME)
    with ledger.reading() as session:
        assert session.query(tables.CsiPool).count() == session.query(tables.CsiStorage).count() == 0
        assert driver_rows.list_all(session) == []
    for call in (lambda: patch(status=pools({"name": "a"})), lambda: ledger.run(driver_rows.delete, NAME)):
        with pytest.raises(errors.NotFound, match="no driver"):
            call()
    after = patch(spec={})
    assert (after.tracking, stored(ledger)) == (None, {})
    assert after.resource_version != before.resource_version


TOPOLOGY = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (pools({"name": "a", "nodeList": ["n1", "n2", "n1"]}), "names a node twice in nodeList: n1"),
        (pools({"name": "a", "nodeList": []}), "empty nodeList"),
        (pools({"name": "a", "nodeList": ["n1"], "nodeTopology": TOPOLOGY}), "nodeTopology and nodeList"),
        (pools({"name": "b", "nodeTopology": TOPOLOGY}), "nodeTopology and nodeList"),
        (pools({"name": "a"}, {"name": "a"}), "has pool 'a' twice"),
        ({"storage": [{"storageClassName": "x"}, {"storageClassName": "x"}]}, "has 'x' twice"),
        (pools({"name": "a", "expiryTime": "0001-01-01T00:00:00Z"}), "expected 1970 to 9999"),
    ],
)
def test_an_invalid_patch_changes_nothing(ledger: database.Database, patch: Patch, status: Any, problem: str) -> None:
    patch(status=pools({"name": "b", "nodeList": ["n1"]}))
    before = found(ledger)
    with pytest.raises(errors.InvalidInput, match=problem):
        patch(status=status)
    assert found(ledger) == before


def test_a_topology_can_replace_a_node_list(ledger: database.Database, patch: Patch) -> None:
    patch(status=pools({"name": "a", "nodeList": ["n1"]}))
    patch(status=pools({"name": "a", "nodeList": None, "nodeTopology": TOPOLOGY}))
    kept = stored(ledger)["fast"]["a"]
    assert kept.node_list is None
    assert kept.node_topology is not None
    assert kept.node_topology.matches("n1", {"zone": "a"})


def test_whole_pools_are_written_and_others_are_removed(ledger: database.Database) -> None:
    def write(session: orm.Session, pools: list[tuple[str, Pool]], removed: list[tuple[str, str]]) -> tuple[int, int]:
        row = driver_rows.lock_or_create(session, NAME)
        driver_rows.write_pools(session, row, pools, removed)
        assert row.capacity_tracking is True
        return row.version, row.layout

    a, b = (Pool(name=name, capacity=5, object_name=f"storage/{name}", object_version=7) for name in "ab")
    assert ledger.run(write, [("fast", a), ("slow", b)], []) == (1, 1)
    assert stored(ledger) == {"fast": {"a": a}, "slow": {"b": b}}
    with ledger.reading() as session:
        assert driver_rows.drivers_with_objects(session) == {NAME}
    assert ledger.run(write, [("fast", a)], [("fast", "nothing")]) == (1, 1), "nothing has changed"
    changed = replace(a, capacity=4, object_version=8)
    assert ledger.run(write, [("fast", changed)], []) == (2, 1)
    assert ledger.run(write, [], [("slow", "b")]) == (3, 2)
    assert stored(ledger) == {"fast": {"a": changed}, "slow": {}}
    with pytest.raises(errors.InvalidInput, match="empty nodeList"):
        ledger.run(write, [("fast", replace(a, node_list=()))], [])
