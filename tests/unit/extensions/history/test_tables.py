# SPDX-License-Identifier: Apache-2.0
"""The keys of the history, which outlives its pools."""

import datetime
from typing import Any

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.extensions.history import tables

SLOT = datetime.datetime.fromisoformat("2026-01-02T12:00:00")
POOL_COUNTERS = (
    "in_flight_max_gb",
    "allocated_gb",
    "created_gb",
    "deleted_gb",
    "moved_gb",
    "deleted_sum_gb",
    "moved_sum_gb",
)


@pytest.fixture
def records() -> Records:
    return Records()


def pool_slot(**values: Any) -> tables.PoolHistory:
    key = {"grain": "hour", "slot": SLOT, "pool_id": 7, "samples": 1}
    return tables.PoolHistory(**key | dict.fromkeys(POOL_COUNTERS, 0) | values)


def test_a_pool_has_one_row_for_each_slot_of_each_grain(records: Records) -> None:
    """Two schedulers that write the same sample cannot both count it."""
    records.add(pool_slot())
    for other in ({"grain": "day"}, {"pool_id": 8}, {"slot": SLOT + datetime.timedelta(hours=1)}):
        records.add(pool_slot(**other))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(pool_slot(used_gb=5.0))


def test_the_history_of_a_pool_stays_when_the_pool_is_deleted(records: Records) -> None:
    pool_id = records.pool()
    records.add(pool_slot(pool_id=pool_id, used_gb=2.5))
    records.rows("DELETE FROM pools")
    assert records.rows("SELECT pool_id, used_gb, physical_limit_gb FROM pool_history") == [(pool_id, 2.5, None)]


def test_counters_hold_more_than_32_bits(records: Records) -> None:
    records.add(pool_slot(created_gb=2**40, moved_gb=-(2**40)))
    assert records.rows("SELECT created_gb, moved_gb FROM pool_history") == [(2**40, -(2**40))]


def test_volumes_without_a_type_have_a_history_of_their_own(records: Records) -> None:
    counters = dict.fromkeys(("volumes", "allocated_gb", "creates", "created_gb", "deleted_gb", "retyped_gb"), 0)
    for type_id in ("", new_id()):
        records.add(tables.TypeHistory(grain="day", slot=SLOT, type_id=type_id, samples=1, **counters))
    assert records.rows("SELECT COUNT(*) FROM type_history") == [(2,)]


def test_a_bound_of_a_pool_has_one_forecast_a_day(records: Records) -> None:
    for bound in ("physical", "promised"):
        records.add(tables.PoolForecast(made_on=SLOT, pool_id=7, bound=bound, known_days=3))
    assert records.rows("SELECT DISTINCT p50_days, low_gb, hit FROM pool_forecasts") == [(None, None, None)]
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(tables.PoolForecast(made_on=SLOT, pool_id=7, bound="physical", known_days=4))


def test_a_type_without_refusals_to_come_has_no_requests(records: Records) -> None:
    """Null is not the text ``null``."""
    usual = {"made_at": SLOT, "known_days": 3, "runs": 10}
    records.add(tables.ComingRefusals(type_id="", refused=0, **usual))
    records.add(tables.ComingRefusals(type_id=new_id(), refused=2, requests=[["t", 5]], message="a\0", **usual))
    columns = "requests IS NULL, message"
    assert records.rows(f"SELECT {columns} FROM coming_refusals ORDER BY refused") == [(1, None), (0, "a?")]


def test_there_is_one_turn_for_all_schedulers(records: Records) -> None:
    records.add(tables.HistoryTurn(id=1, number=1, sampled_at=SLOT))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(tables.HistoryTurn(id=1, number=2, sampled_at=SLOT))
