# SPDX-License-Identifier: Apache-2.0
"""Locks on pools: which rows are locked, in how many statements, and what is known of them then."""

import pytest
from sqlalchemy import orm

from tests.unit.ledger import faults
from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.locks import ledger_identity, pool_locks
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.ledger.locks.pool_locks import PoolPlace


@pytest.fixture
def array(records: Records) -> list[int]:
    """Two pools of two backends on one storage, whose stamp is 7, and a part of it."""
    records.add(models.Storage(name="array", stamp=7))
    return [
        records.pool("a@b#one", storage_id="array", covers_tick=4, allocated_capacity_gb=9, in_flight_gb=2),
        records.pool("a@c#two", storage_id="array", covers_stamp=6, present=False),
        records.pool("a@c#part", storage_id="array", storage_free_gb=50.0),
    ]


def test_a_lock_extends_to_the_pools_on_the_same_storage(records: Records, array: list[int]) -> None:
    other = records.pool("d@e#f")
    locked = records.run(pool_locks.lock, [array[0]])
    assert list(locked.rows) == array
    assert {name: [pool.id for pool in pools] for name, pools in locked.shared.items()} == {"array": array}
    assert locked.epochs == {locked.backends[array[0]]: 1}, "other backends are not locked"
    assert records.run(pool_locks.lock, [other]).storages == {other: None}
    assert list(records.run(pool_locks.lock, [other], ["array"]).rows) == [*array, other]


def test_the_rows_are_as_they_are_under_the_lock(records: Records, array: list[int]) -> None:
    one, two, part = records.run(pool_locks.lock, array).rows.values()
    assert (one.covers, one.stamp, one.counters) == ((1, 4), 7, Counters(allocated=9, in_flight=2))
    assert (two.coverage.covers_stamp, two.is_present, two.is_part) == (6, False, False)
    assert part.is_part
    assert part.is_present


def test_pools_of_one_storage_are_locked_in_one_statement(records: Records, array: list[int]) -> None:
    places = [PoolPlace(array[0], 1, "array")]
    with faults.executions(records.database.engine, "FROM pools") as executions:
        locked = records.run(pool_locks.lock_placed, places)
    assert (list(locked.rows), len(executions)) == (array, 1)
    with faults.executions(records.database.engine, "FROM pools") as executions:
        locked = records.run(pool_locks.lock_placed, places, with_shared=False)
    assert (list(locked.rows), len(executions)) == ([array[0]], 1)


def test_nothing_is_locked_in_a_ledger_whose_copy_is_used(records: Records, array: list[int]) -> None:
    def lock_copied(session: orm.Session) -> None:
        ledger_identity.set_copy(session, "postgresql://new")
        pool_locks.lock(session, array)

    with pytest.raises(errors.LedgerMoved, match="postgresql://new"):
        records.run(lock_copied)
