# SPDX-License-Identifier: Apache-2.0
"""Daily figures of pools, as a forecast reads them."""

import datetime
from collections.abc import Iterator

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.extensions.history import history_reader, tables
from tonnage.extensions.history.forecast.time_to_full import PHYSICAL, PROMISED
from tonnage.ledger import models
from tonnage.ledger.db import database

LAST = datetime.datetime.fromisoformat("2026-03-10 00:00:00")


@pytest.fixture
def session() -> Iterator[orm.Session]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        yield session
    engine.dispose()


def add(session: orm.Session, days_ago: int, **values: object) -> None:
    numbers = ("in_flight_max_gb", "allocated_gb", "created_gb", "deleted_gb", "moved_gb", "deleted_sum_gb")
    row = {"grain": "day", "slot": LAST - datetime.timedelta(days=days_ago), "pool_id": 1, "samples": 1}
    figures = {"total_gb": 100.0, "physical_limit_gb": 90.0, "virtual_limit_gb": None, "moved_sum_gb": 0}
    session.execute(sa.insert(tables.PoolHistory), [{**row, **dict.fromkeys(numbers, 0), **figures, **values}])


def test_holes_stay_holes_and_migrations_are_no_growth(session: orm.Session) -> None:
    add(session, 4, used_gb=10.0, provisioned_gb=20.0)
    add(session, 2, used_gb=12.0, provisioned_gb=24.0)
    add(session, 1, used_gb=23.0, provisioned_gb=46.0, moved_sum_gb=20)
    add(session, 0, used_gb=24.0, provisioned_gb=47.0, moved_sum_gb=20)
    [(pool_id, figures)] = history_reader.daily_figures(session, [1], LAST, days=6)
    assert pool_id == 1
    assert np.isnan(figures.used).tolist() == [True, False, True, False, False, False]
    assert figures.growth(PROMISED)[1:].tolist() == [2, 2, 2, 1]
    assert figures.growth(PHYSICAL)[1:].tolist() == [1, 1, 1, 1]
    assert figures.room(PHYSICAL) == 66.0
    assert figures.room(PROMISED) is None


def test_the_last_day_is_the_last_complete_one(session: orm.Session) -> None:
    assert history_reader.last_day(session, LAST) is None
    add(session, 0, used_gb=1.0)
    add(session, 3, used_gb=1.0)
    add(session, 3, used_gb=1.0, pool_id=2)
    session.add(models.Backend(id=1, name="host@b"))
    session.add_all(models.Pool(id=number, backend_id=1, name=f"host@b#{number}") for number in (1, 2))
    noon = LAST + datetime.timedelta(hours=12)
    day = history_reader.last_day(session, noon)
    assert day == LAST - datetime.timedelta(days=3)
    assert history_reader.pools_of(session, day) == [1, 2]
    assert history_reader.last_day(session, noon + datetime.timedelta(days=1)) == LAST


def test_days_of_volume_types_have_holes_and_leave_out_deleted_types(session: orm.Session) -> None:
    def add_type(days_ago: int, type_id: str, created: int, deleted: int, retyped: int) -> None:
        row = {"grain": "day", "slot": LAST - datetime.timedelta(days=days_ago), "type_id": type_id, "samples": 1}
        flows = {"creates": 2, "created_gb": created, "deleted_gb": deleted, "retyped_gb": retyped}
        session.execute(sa.insert(tables.TypeHistory), [{**row, **flows, "volumes": 3, "allocated_gb": 9}])

    session.execute(sa.insert(models.VolumeType), [{"id": "t1", "name": "gold", "is_public": True}])
    add_type(2, "t1", 10, 3, 1)
    add_type(0, "", 5, 0, 0)
    add_type(0, "gone", 5, 0, 0)
    assert history_reader.type_days(session, LAST, 4) == [
        None,
        {"t1": history_reader.TypeDay(2, 10, 8)},
        None,
        {"": history_reader.TypeDay(2, 5, 5)},
    ]
