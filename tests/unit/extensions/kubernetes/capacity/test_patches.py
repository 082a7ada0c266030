# SPDX-License-Identifier: Apache-2.0
"""Patches of a driver's storage."""

import datetime
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.capacity import patches
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch, PoolPatch


def change(raw: Any) -> DriverPatch:
    return type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))


def pools(*listed: dict[str, Any], of: str = "fast") -> dict[str, Any]:
    return {"storage": [{"storageClassName": of, "pools": list(listed)}]}


@pytest.mark.parametrize(
    "raw",
    [
        pools({"name": ""}),
        # MariaDB treats this as the name without the space.
        pools({"name": "a "}),
        pools({"name": "a"}, of="fast "),
        pools({"capacity": 1}),
        pools({"name": "a", "maximumvolumesize": 1}),
        pools({"name": "a", "capacity": "1K"}),
        pools({"name": "a", "capacity": -1}),
        pools({"name": "a", "expiryTime": "2026-11-21T12:00:00"}),
        pools({"name": "a", "$patch": "replace"}),
        # Null removes values of a pool. A part of a value cannot be null.
        pools({"name": "a", "nodeTopology": {"nodeSelectorTerms": None}}),
        pools({"name": "a", "nodeTopology": {"nodeSelectorTerms": [{"matchExpressions": None}]}}),
        pools({"name": "a", "nodeList": [None]}),
        {"storage": [None]},
        {"storage": [{"storageClassName": "fast", "pools": [None]}]},
        pools({"name": "a"}, of="x" * 254),
    ],
)
def test_a_malformed_patch_is_refused(raw: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        change({"status": raw})


def pool_patch(**raw: Any) -> PoolPatch:
    storage = change({"status": pools({"name": "a", **raw})}).storage()
    assert storage is not None
    [pool] = storage[0].pools if isinstance(storage[0].pools, tuple) else ()
    return pool


OLD = Pool(name="a", node_list=("n1",), capacity=5, maximum_volume_size=3, backing_id="disks")


def test_absent_keys_stay_and_null_removes_a_value() -> None:
    assert patches.apply(OLD, pool_patch()) == OLD
    assert patches.apply(OLD, pool_patch(capacity="1Ki", nodeList=None)) == replace(OLD, capacity=1024, node_list=None)
    assert patches.apply(OLD, pool_patch(capacity=None, maximumVolumeSize=None, backingId=None)) == Pool(
        name="a", node_list=("n1",)
    )


def test_an_expiry_is_stored_in_utc() -> None:
    expired = patches.apply(OLD, pool_patch(expiryTime="2026-11-21T13:00:00+01:00"))
    assert expired.expires_at == datetime.datetime(2026, 11, 21, 12, 0)  # noqa: DTZ001  -- as the ledger has times
    assert patches.apply(expired, pool_patch(expiryTime=None)).expires_at is None
    assert patches.apply(expired, pool_patch()).expires_at == expired.expires_at


def test_an_expiry_that_databases_cannot_store_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="expiryTime of pool 'a' is in 1969: expected 1970 to 9999"):
        patches.apply(OLD, pool_patch(expiryTime="1969-12-31T23:59:59Z"))


@pytest.mark.parametrize(
    ("time", "stored"),
    [
        ("9999-12-31T00:00:01Z", "9999-12-31T00:00:01"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59"),
        ("9999-12-31T23:59:59-11:00", "9999-12-31T23:59:59"),
        ("9999-12-31T23:59:59+11:00", "9999-12-31T12:59:59"),
    ],
)
def test_an_expiry_may_be_at_the_end_of_all_times(time: str, stored: str) -> None:
    expires_at = patches.apply(OLD, pool_patch(expiryTime=time)).expires_at
    assert expires_at is not None
    assert expires_at.isoformat() == stored


@pytest.mark.parametrize(
    ("raw", "storage"),
    [({}, ()), ({"status": {}}, ()), ({"status": None}, None), ({"status": {"storage": None}}, None)],
)
def test_a_patch_removes_all_storage_only_by_null(raw: Any, storage: tuple[()] | None) -> None:
    assert change(raw).storage() == storage


def test_an_element_with_the_directive_delete_is_removed() -> None:
    storage = change({"status": {"storage": [{"storageClassName": "x", "$patch": "delete"}]}}).storage()
    assert storage is not None
    assert storage[0].deletes
    assert pool_patch(**{"$patch": "delete"}).deletes
    assert not pool_patch().deletes
