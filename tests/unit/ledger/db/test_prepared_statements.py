# SPDX-License-Identifier: Apache-2.0
"""Prepared statements give what SQLAlchemy gives, on each database."""

import datetime
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from tests.servers import ledger_schema
from tonnage.ledger import models
from tonnage.ledger.db import database, db_errors
from tonnage.ledger.db.prepared_statements import Prepared

BACKEND, POOL = models.table(models.Backend), models.table(models.Pool)
TIME = datetime.datetime(2026, 3, 1, 12, 30, 15, 250000, tzinfo=datetime.UTC).replace(tzinfo=None)

ALL_OF_POOLS = sa.select(*POOL.c, BACKEND.c.name.label("backend"), models.utcnow().label("now") > TIME).join_from(
    POOL, BACKEND, BACKEND.c.id == POOL.c.backend_id
)
OF_IDS = ALL_OF_POOLS.where(
    POOL.c.id.in_(sa.bindparam("ids", expanding=True)), POOL.c.present.in_([True, False]), POOL.c.ratio >= 1.5
).order_by(POOL.c.id)


@pytest.fixture
def engine(ledger_url: str) -> Iterator[sa.Engine]:
    """A ledger with one backend and 30 pools."""
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(BACKEND), [{"id": 7, "name": "host@b", "availability_zone": "nova", "epoch": 1}])
        connection.execute(
            sa.insert(POOL),
            [
                {"id": id, "backend_id": 7, "name": f"host@b#{id}", "stats": {"n": id, "m": None}, "ratio": id / 2}
                for id in range(1, 31)
            ],
        )
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect() as connection, connection.begin():
        yield connection


@pytest.mark.parametrize("ids", [[], [4], [9, 2, 9, 77], list(range(40))], ids=len)
def test_rows_are_those_of_sqlalchemy_with_the_same_names(connection: sa.Connection, ids: list[int]) -> None:
    prepared = Prepared(OF_IDS)
    for _ in range(2):  # the second time, the text is kept
        rows = prepared.rows(connection, {"ids": ids})
        expected = connection.execute(OF_IDS, {"ids": ids}).all()
        assert rows == [tuple(row) for row in expected]
        assert [(row.id, row.stats, row.backend) for row in rows] == [
            (row.id, row.stats, row.backend) for row in expected
        ]


def test_a_list_may_be_any_collection(connection: sa.Connection) -> None:
    rows = Prepared(OF_IDS).rows(connection, {"ids": {3: "c", 5: "e"}})
    assert [row.id for row in rows] == [3, 5]


def test_values_are_converted_as_their_columns_demand(connection: sa.Connection) -> None:
    update = Prepared(
        sa.update(POOL)
        .where(POOL.c.id == sa.bindparam("of"))
        .values(
            stats=sa.bindparam("as_reported"),
            present=sa.bindparam("is_present"),
            figures_at=sa.bindparam("since"),
            free_capacity_gb=sa.bindparam("free"),
            in_flight_gb=POOL.c.in_flight_gb + sa.bindparam("more", type_=sa.BigInteger()),
        )
    )
    values = {"as_reported": {"ü": [1, "%s ?"]}, "is_present": False, "since": TIME, "free": 0.1, "more": 2**40}
    assert update.change(connection, [{"of": 1, **values}]) == 1
    assert update.change(connection, [{"of": id, **values} for id in (2, 3, 77)]) == 2
    columns = sa.select(
        POOL.c.stats, POOL.c.present, POOL.c.figures_at, POOL.c.free_capacity_gb, POOL.c.in_flight_gb
    ).where(POOL.c.id.in_([1, 2, 3]))
    assert connection.execute(columns).all() == [({"ü": [1, "%s ?"]}, False, TIME, 0.1, 2**40)] * 3


def test_rows_that_match_are_counted_also_if_nothing_changes(connection: sa.Connection) -> None:
    update = Prepared(sa.update(POOL).where(POOL.c.id <= sa.bindparam("last")).values(backend_id=POOL.c.backend_id))
    assert update.change(connection, [{"last": 10}]) == 10
    assert Prepared(sa.delete(POOL).where(POOL.c.name.like("%#3%"))).change(connection, [{}]) == 2


def test_an_error_is_that_of_any_other_statement(connection: sa.Connection) -> None:
    connection.execute(sa.insert(BACKEND), [{"id": 8, "name": "host@c", "availability_zone": "nova", "epoch": 1}])
    rename = Prepared(sa.update(BACKEND).where(BACKEND.c.id == sa.bindparam("of")).values(name="host@b"))
    with pytest.raises(db_exc.DBDuplicateEntry):
        rename.change(connection, [{"of": 8}])


def test_a_lost_connection_is_dropped_and_the_ledger_counts_as_away(engine: sa.Engine) -> None:
    read = Prepared(sa.select(BACKEND.c.id))
    with engine.connect() as connection:
        connection.begin()
        driver_connection: Any = connection.connection.dbapi_connection
        driver_connection.close()
        with pytest.raises((sa.exc.DBAPIError, db_exc.DBError)) as caught:
            read.rows(connection, {})
        assert db_errors.is_away(caught.value)
        assert connection.invalidated
    with engine.connect() as connection, connection.begin():
        assert read.rows(connection, {}) == [(7,)]


def test_listeners_get_the_statement(engine: sa.Engine) -> None:
    texts: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *event: texts.append(event[2]))
    with engine.connect() as connection, connection.begin():
        assert len(Prepared(OF_IDS).rows(connection, {"ids": [4, 5]})) == 2
        assert Prepared(sa.delete(POOL)).change(connection, [{}]) == 30
    assert [text.split()[0] for text in texts if "pools" in text] == ["SELECT", "DELETE"]


def test_the_log_of_statements_has_it(engine: sa.Engine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sqlalchemy.engine.Engine"), engine.begin() as connection:
        Prepared(sa.select(BACKEND.c.id)).rows(connection, {})
    assert "SELECT backends.id" in caplog.text


def test_values_that_python_computes_are_refused(connection: sa.Connection) -> None:
    table = sa.Table("things", sa.MetaData(), sa.Column("a", sa.Integer), sa.Column("b", sa.Integer, onupdate=int))
    with pytest.raises(TypeError, match="cannot be prepared"):
        Prepared(sa.update(table).values(a=1)).change(connection, [{}])
