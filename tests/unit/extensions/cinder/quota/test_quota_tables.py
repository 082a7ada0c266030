# SPDX-License-Identifier: Apache-2.0
"""The clock by which reservations end: that of the database of Cinder, in UTC."""

import datetime

import pytest
import sqlalchemy as sa

from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.ledger.db import database


@pytest.fixture
def engine(database_url: str) -> sa.Engine:
    return database.create_engine(database_url)


@pytest.mark.parametrize("seconds_ago", [0.0, 90.0, 3600.0])
def test_the_clock_is_in_utc_on_each_database(engine: sa.Engine, seconds_ago: float) -> None:
    with engine.connect() as connection:
        moment = connection.execute(sa.select(tables.clock(engine.dialect.name, seconds_ago))).scalar_one()
    expected = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(seconds=seconds_ago)
    assert moment.tzinfo is None
    assert abs(moment - expected) < datetime.timedelta(seconds=60)
    engine.dispose()


def test_rows_are_compared_with_the_clock_in_the_database(engine: sa.Engine) -> None:
    reservations = tables.RESERVATIONS
    reservations.create(engine)
    with engine.begin() as connection:
        now = connection.execute(sa.select(tables.clock(engine.dialect.name))).scalar_one()
        for number, age in ((1, 120), (2, 0)):
            created_at = now - datetime.timedelta(seconds=age)
            connection.execute(sa.insert(reservations).values(id=number, created_at=created_at, deleted=False))
        old = reservations.c.created_at < tables.clock(engine.dialect.name, 60.0)
        assert connection.scalars(sa.select(reservations.c.id).where(old)).all() == [1]
    engine.dispose()
