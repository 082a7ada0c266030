# SPDX-License-Identifier: Apache-2.0
"""What the tables of clusters refuse, and the values of a new row. Sizes are bytes."""

import datetime
from typing import Any

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.extensions.kubernetes.ledger.tables import CsiClaim, CsiDriver, CsiPool, CsiStorage

NOON = datetime.datetime.fromisoformat("2026-01-02T12:00:00")


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def driver_uid(records: Records) -> str:
    """The id of a driver with the storage ``fast``."""
    driver_uid = new_id()
    records.add(CsiDriver(uid=driver_uid, name="csi.example.org"))
    records.add(CsiStorage(driver_uid=driver_uid, storage_class="fast"))
    return driver_uid


def pool(driver_uid: str, **values: Any) -> CsiPool:
    usual = {"driver_uid": driver_uid, "storage_class": "fast", "name": "p", "version": 1}
    return CsiPool(**usual | values)


def claim(driver_uid: str, **values: Any) -> CsiClaim:
    usual = {
        "holder": "default/pod",
        "volume": "data",
        "node": "n1",
        "driver_uid": driver_uid,
        "storage_class": "fast",
        "pool": "p",
        "size": 1,
        "expires_at": NOON,
    }
    return CsiClaim(**usual | values)


def test_a_driver_has_a_name_of_its_own_and_begins_with_the_first_version(records: Records, driver_uid: str) -> None:
    assert records.rows("SELECT version, layout, capacity_tracking FROM csi_drivers") == [(1, 1, None)]
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(CsiDriver(uid=new_id(), name="csi.example.org"))


@pytest.mark.parametrize("row", [CsiStorage(driver_uid="x", storage_class="fast"), pool("x"), claim("x")])
def test_each_row_belongs_to_a_driver(records: Records, row: Any) -> None:
    with pytest.raises(db_exc.DBReferenceError):
        records.add(row)


def test_a_pool_is_unique_within_its_class_and_capacities_have_64_bits(records: Records, driver_uid: str) -> None:
    records.add(pool(driver_uid, capacity=2**62, node_list=["n1"]))
    records.add(pool(driver_uid, storage_class="slow"))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(pool(driver_uid))
    columns = "capacity, node_topology IS NULL, node_list IS NULL"
    assert records.rows(f"SELECT {columns} FROM csi_pools ORDER BY storage_class") == [(2**62, 1, 0), (None, 1, 1)]


def test_a_holder_claims_each_of_its_volumes_once(records: Records, driver_uid: str) -> None:
    records.add(claim(driver_uid))
    records.add(claim(driver_uid, volume="log"))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(claim(driver_uid, node="n2"))


def test_a_claim_outlives_its_pool(records: Records, driver_uid: str) -> None:
    """It counts against the same disks, which another pool may have."""
    records.add(pool(driver_uid))
    records.add(claim(driver_uid, backing_id="disk", capacity=10))
    records.rows("DELETE FROM csi_pools")
    assert records.rows("SELECT backing_id, capacity, pod FROM csi_claims") == [("disk", 10, None)]
    with pytest.raises(db_exc.DBReferenceError):
        records.rows("DELETE FROM csi_drivers")
