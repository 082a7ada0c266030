# SPDX-License-Identifier: Apache-2.0
"""A database server that freezes while transactions wait for it."""

import contextlib
import logging
import pathlib
from collections.abc import Iterator
from concurrent import futures

import psutil
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers.base import wait_for
from tests.servers.database import DatabaseServer
from tonnage.capacity import errors
from tonnage.ledger.db import connection_probes, database

SLEEP = {"postgresql": "SELECT pg_sleep(3)", "mariadb": "SELECT SLEEP(3)"}


@contextlib.contextmanager
def frozen(server: DatabaseServer) -> Iterator[None]:
    """Stop all processes of the server; its kernel goes on."""
    process = psutil.Process(server.process.pid)
    family = [process, *process.children(recursive=True)]
    try:
        for one in family:
            one.suspend()
        # A signal returns before all threads have stopped, and one of them might still answer.
        wait_for(lambda: all(map(_stopped, family)), "the server stands still")
        yield
    finally:
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.resume()


def _stopped(process: psutil.Process) -> bool:
    """Return whether no thread of the process runs."""
    states = (path.read_text() for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat"))
    return all(state.rpartition(")")[2].split()[0] == "T" for state in states)


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    """A server that can be frozen."""
    found: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def ledger(server: DatabaseServer) -> Iterator[database.Database]:
    """A database on that server, without retries, whose frozen connections are found within seconds."""
    url = sa.make_url(server.url).update_query_dict({"connect_timeout": "2"})
    patience = database.Patience(suspicion=0.5, look_interval=0.1)
    opened = database.Database(database.create_engine(url), 0, 0, 0, patience)
    yield opened
    opened.close()


def test_a_transaction_does_not_wait_for_a_frozen_server(
    server: DatabaseServer, ledger: database.Database, caplog: pytest.LogCaptureFixture
) -> None:
    def work(session: orm.Session) -> None:
        session.execute(sa.text("SELECT 1"))
        with frozen(server):
            session.execute(sa.text("SELECT 1"))

    with futures.ThreadPoolExecutor(1) as pool, pytest.raises(errors.Unavailable):
        pool.submit(ledger.run, work).result(30)
    assert [record.levelno for record in caplog.records if "frozen" in record.message] == [logging.WARNING]
    assert ledger.run(lambda session: session.scalar(sa.text("SELECT 1"))) == 1


def test_a_slow_statement_is_waited_for(server: DatabaseServer, ledger: database.Database) -> None:
    statement = sa.text(SLEEP["postgresql" if server.name == "PostgreSQL" else "mariadb"])
    ledger.run(lambda session: session.execute(statement))
    assert not ledger.away


def test_connections_know_their_server(ledger: database.Database) -> None:
    with ledger.engine.connect() as one, ledger.engine.connect() as other:
        known = one.info[connection_probes.SERVER]
        assert known is not None
        assert other.info[connection_probes.SERVER] == known
