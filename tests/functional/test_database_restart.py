# SPDX-License-Identifier: Apache-2.0
"""Transactions of the ledger while its database restarts."""

import threading
import time

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import database as servers
from tonnage.capacity import errors
from tonnage.ledger.db import database


def add(session: orm.Session) -> None:
    session.execute(sa.text("INSERT INTO kept (id) SELECT COALESCE(MAX(id), 0) + 1 FROM kept"))


def count(ledger: database.Database) -> int:
    with ledger.reading() as session:
        return int(session.scalar(sa.text("SELECT COUNT(*) FROM kept")) or 0)


@pytest.mark.heavy
@pytest.mark.parametrize("server", ["postgresql_server", "mariadb_server"])
def test_transactions_and_reads_succeed_after_a_restart(server: str, request: pytest.FixtureRequest) -> None:
    running: servers.DatabaseServer = request.getfixturevalue(server)
    with running.database() as url:
        engine = database.create_engine(url)
        ledger = database.Database(engine, max_retries=8)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE kept (id INTEGER PRIMARY KEY)")
        ledger.run(add)
        running.restart()
        assert count(ledger) == 1, "connections from before the restart are replaced"
        running.restart()
        with ledger.reading(patient=False):
            pass  # a read without retries gets no old connection either
        running.restart()
        ledger.run(add)
        running.kill()
        back = threading.Timer(1.5, running.start)
        back.start()
        began = time.monotonic()
        ledger.run(add)
        assert time.monotonic() - began > 1, "the server was away"
        back.join()
        assert count(ledger) == 3
        ledger.close()


@pytest.mark.parametrize("server", ["postgresql_server", "mariadb_server"])
def test_a_server_that_stays_down_raises_unavailable(server: str, request: pytest.FixtureRequest) -> None:
    running: servers.DatabaseServer = request.getfixturevalue(server)
    with running.database() as url:
        ledger = database.Database(database.create_engine(url), max_retries=1, retry_interval=0)
        ledger.run(lambda session: None)
        running.kill()
        try:
            with pytest.raises(errors.Unavailable, match="the database does not answer"):
                ledger.run(add)
            with pytest.raises(errors.Unavailable, match="the database does not answer"):
                count(ledger)
        finally:
            running.start()
        # The first attempt after the start succeeds; there is no second.
        ledger.run(lambda session: None)
        ledger.close()
