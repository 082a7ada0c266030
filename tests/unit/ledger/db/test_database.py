# SPDX-License-Identifier: Apache-2.0
"""Opening the database that the configuration names, and waiting for it."""

import contextlib
import datetime
import gc
import logging
import pathlib
import socket
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, NoReturn

import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import event, orm

from tests.servers import ledger_schema, tcp_proxy
from tests.unit.ledger import faults
from tonnage import installation
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database, dialects
from tonnage.ledger.db import options as database_options


def configured(url: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    database_options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    conf.set_override("connection", url, group="database")
    return conf


@pytest.mark.parametrize(
    ("scheme", "module", "advice", "extra"),
    [
        ("postgresql+psycopg", "psycopg", "install", "postgresql"),
        ("mysql+pymysql", "pymysql", "install", "mysql"),
        ("mariadb+pymysql", "pymysql", "install", "mysql"),
        ("mysql", "MySQLdb", "write mysql+pymysql:// and install", "mysql"),
    ],
)
def test_a_missing_library_is_named_by_the_url_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, scheme: str, module: str, advice: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.ConfigurationError) as caught:
        database.create_engine(f"{scheme}://user:secret@host/name")
    message = caught.value.message
    assert message.startswith(f"option [database] connection is a URL with {scheme}://, for which a library is missing")
    assert message.endswith(f"; {advice} it with: {installation.install_command(extra)}")
    assert "secret" not in message


def test_a_database_in_memory_is_refused() -> None:
    for url in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(
            errors.ConfigurationError, match=r"^option \[database\] connection names a database in memory"
        ):
            database.connect(configured(url), create=True)


@pytest.fixture
def locked_file(tmp_path: pathlib.Path) -> Iterator[sqlite3.Connection]:
    """The connection of another process, which holds the write lock of a ledger's file for longer than any wait."""
    file = tmp_path / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=0)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE kept (id INTEGER)")
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@pytest.fixture
def open_database(tmp_path: pathlib.Path) -> Iterator[Callable[..., database.Database]]:
    with contextlib.ExitStack() as cleanup:

        def open_database(**patience: float) -> database.Database:
            engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}", dialects.Timeouts(busy=0))
            made = database.Database(engine, max_retries=2, patience=database.Patience(**patience))
            cleanup.callback(made.close)
            return made

        yield open_database


def add(session: orm.Session) -> None:
    session.execute(sa.text("INSERT INTO kept VALUES (1)"))


def test_a_recent_time_is_read_once_a_minute_or_with_anything_else(
    open_database: Callable[..., database.Database],
) -> None:
    for seconds, reads in ((600.0, False), (0.0, True)):
        ledger, queries = open_database(recent_time=seconds), []
        event.listen(ledger.engine, "before_cursor_execute", lambda *given, queries=queries: queries.append(given[2]))
        with ledger.reading() as session:
            first = session.execute(sa.select(models.utcnow())).scalar_one()
        before = len(queries)
        assert abs(ledger.recent_time() - first) < datetime.timedelta(minutes=5)
        assert (len(queries) > before) is reads


def test_a_writer_locks_at_its_begin_and_a_reader_needs_no_lock(
    locked_file: sqlite3.Connection, open_database: Callable[..., database.Database]
) -> None:
    """A writer that took the lock only at its first write might have read rows that have changed since."""
    locked_file.rollback()
    ledger = open_database()

    def work(session: orm.Session) -> None:
        session.execute(sa.text("SELECT id FROM kept"))
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            locked_file.execute("BEGIN IMMEDIATE")

    ledger.run(work)
    with ledger.reading() as session:
        session.execute(sa.text("SELECT id FROM kept"))
        locked_file.execute("BEGIN IMMEDIATE")


def test_a_transaction_runs_again_after_a_lock_timeout_of_sqlite(
    locked_file: sqlite3.Connection, open_database: Callable[..., database.Database]
) -> None:
    ledger = open_database()
    with faults.before_transaction(ledger.engine, faults.once(lambda _: locked_file.rollback(), skipped=1)):
        ledger.run(add)
    assert locked_file.execute("SELECT COUNT(*) FROM kept").fetchall() == [(1,)]


def test_a_locked_file_is_reported_as_busy_and_can_be_read(
    locked_file: sqlite3.Connection, open_database: Callable[..., database.Database]
) -> None:
    ledger = open_database()
    with pytest.raises(errors.Unavailable, match=r"^the ledger is busy: .* than \[database\] sqlite_busy_timeout;"):
        ledger.run(add)
    with ledger.reading() as session:
        assert session.scalar(sa.text("SELECT COUNT(*) FROM kept")) == 0


def test_an_unused_database_object_is_freed(tmp_path: pathlib.Path) -> None:
    """SQLAlchemy keeps the dialect of an engine with the statements that it has compiled for it."""
    ledger = database.Database(database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    ledger_schema.create(ledger.engine)
    ledger.run(lambda session: session.add(models.Backend(name="h@b", driver="x")))
    ledger.close()
    gone = weakref.ref(ledger)
    del ledger
    gc.collect()
    assert gone() is None


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port without a listener."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def refusing_database(unused_port: int) -> Iterator[tuple[database.Database, list[object]]]:
    """A database that refuses connections at once, and the list of the connection attempts."""
    url = f"postgresql+psycopg://tonnage@127.0.0.1:{unused_port}/tonnage?connect_timeout=600"
    engine = database.create_engine(url)
    attempts: list[object] = []
    sa.event.listen(engine, "do_connect", lambda *args: attempts.append(args[3]))
    patience = database.Patience(connect=600.0, refusal=600.0)
    ledger = database.Database(engine, max_retries=3, retry_interval=0, patience=patience)
    yield ledger, attempts
    ledger.close()


def test_only_the_first_call_retries_and_an_outage_is_logged_once(
    refusing_database: tuple[database.Database, list[object]], caplog: pytest.LogCaptureFixture
) -> None:
    ledger, attempts = refusing_database
    caplog.set_level(logging.INFO)
    with pytest.raises(
        errors.DatabaseUnreachable, match=r"^the database does not answer: \(psycopg\.OperationalError\)"
    ):
        ledger.run(add)
    assert len(attempts) == 4
    for _ in range(3):
        with pytest.raises(errors.DatabaseUnreachable), ledger.reading():
            pass
    assert len(attempts) == 7, "once each"
    first, last = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert (first.levelname, last.levelname) == ("INFO", "ERROR")
    assert first.getMessage().startswith("The database does not answer and is retried: (psycopg.OperationalError)")
    assert last.getMessage().startswith("The database cannot be reached; requests that need it fail until it answers")


def test_an_impatient_reader_does_not_wait(refusing_database: tuple[database.Database, list[object]]) -> None:
    ledger, attempts = refusing_database
    with pytest.raises(errors.DatabaseUnreachable), ledger.reading(patient=False):
        pass
    assert len(attempts) == 2, "the first might have used a connection from before a restart"
    with pytest.raises(errors.DatabaseUnreachable):
        ledger.run(add)
    assert len(attempts) == 6, "its failure does not mark the database as away"
    with pytest.raises(errors.DatabaseUnreachable), ledger.reading(patient=False):
        pass
    assert len(attempts) == 7


@pytest.fixture
def silent_server() -> Iterator[database.Database]:
    """A database on a host that neither refuses connections nor answers."""
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        # The shortest time-out of libpq.
        engine = database.create_engine(f"postgresql+psycopg://tonnage@{place}/tonnage?connect_timeout=2")
        patience = database.Patience(connect=2.0)
        ledger = database.Database(engine, max_retries=8, retry_interval=0, patience=patience)
        yield ledger
        ledger.close()


def test_retries_against_a_silent_server_are_bounded(silent_server: database.Database) -> None:
    attempts: list[object] = []
    connect = silent_server.engine.dialect.connect

    def connecting(*args: Any, **given: Any) -> Any:
        attempts.append(given)
        return connect(*args, **given)

    silent_server.engine.dialect.connect = connecting  # type: ignore[method-assign]
    with pytest.raises(errors.DatabaseUnreachable):
        silent_server.run(add)
    assert len(attempts) == 2, "not the nine attempts of a server that refuses"


def test_concurrent_probes_of_a_silent_server_share_one_attempt(silent_server: database.Database) -> None:
    with pytest.raises(errors.DatabaseUnreachable), silent_server.reading(patient=False):
        pass
    assert silent_server.away
    attempts: list[object] = []
    done = threading.Semaphore(0)
    connect = silent_server.engine.dialect.connect

    def connect_last(*args: Any, **given: Any) -> Any:
        attempts.append(given)
        for _ in range(5):
            assert done.acquire(timeout=60), "the others wait for the one that tries"
        return connect(*args, **given)

    silent_server.engine.dialect.connect = connect_last  # type: ignore[method-assign]
    start = threading.Barrier(6)

    def probe(number: int) -> None:
        start.wait(60)
        words = r"^the database does not answer: \(psycopg\."
        if number % 2:
            with pytest.raises(errors.DatabaseUnreachable, match=words):
                silent_server.run(add)
        else:
            with pytest.raises(errors.DatabaseUnreachable, match=words), silent_server.reading(patient=False):
                pass
        done.release()

    with futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(probe, range(6)))
    assert len(attempts) == 1


def fail(cause: Exception) -> NoReturn:
    """Raise an error as SQLAlchemy does for a driver."""
    raise sa.exc.OperationalError("SELECT 1", None, cause) from cause


LOST = psycopg.OperationalError("server closed the connection unexpectedly")


def test_the_outage_limit_counts_from_the_first_lost_connection(
    tmp_path: pathlib.Path,
) -> None:
    engine, patience = database.create_engine(f"sqlite:///{tmp_path}/x"), database.Patience(connect=0.1)
    ledger = database.Database(engine, max_retries=5, retry_interval=0, patience=patience)
    runs: list[bool] = []

    def work(session: orm.Session) -> str:
        runs.append(True)
        if len(runs) == 1:
            time.sleep(0.3)  # the time that a row locked by others may take
            fail(LOST)
        return "done"

    assert ledger.run(work) == "done"
    ledger.close()


def test_one_lost_connection_does_not_mark_the_database_as_away(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ledger = database.Database(database.create_engine(f"sqlite:///{tmp_path}/x"), max_retries=2, retry_interval=0)
    runs: list[bool] = []

    def work(session: orm.Session) -> None:
        runs.append(True)
        if len(runs) < 3:
            raise database.StaleRead
        fail(LOST)

    with pytest.raises(errors.DatabaseUnreachable):
        ledger.run(work)
    assert not ledger.away
    assert [record.levelname for record in caplog.records] == ["INFO"]
    ledger.close()


def test_without_retries_the_first_failure_marks_the_database_as_away(
    unused_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = database.create_engine(f"postgresql+psycopg://tonnage@127.0.0.1:{unused_port}/tonnage")
    ledger = database.Database(engine, max_retries=0)
    for _ in range(2):
        with pytest.raises(errors.DatabaseUnreachable):
            ledger.run(add)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    ledger.close()


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already"),
        pymysql.OperationalError(1040, "Too many connections"),
    ],
)
def test_a_server_without_free_connections_is_not_away(
    tmp_path: pathlib.Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ledger = database.Database(database.create_engine(f"sqlite:///{tmp_path}/x"), max_retries=2, retry_interval=0)
    runs: list[bool] = []

    def work(session: orm.Session) -> None:
        runs.append(True)
        fail(error)

    with pytest.raises(errors.Unavailable, match=r"^the database server takes no more connections; ") as caught:
        ledger.run(work)
    assert not isinstance(caught.value, errors.DatabaseUnreachable)
    assert (len(runs), ledger.away, caplog.records) == (3, False, [])
    ledger.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://tonnage:hun@ter2@host/tonnage",
        "mysql+pymysql://tonnage:hun@ter2@host/tonnage",
        "postgresql+psycopg://tonnage:secret@host:hunter2/tonnage",
        "mysql+pymysql://tonnage:secret@host/tonnage?connect_timeout=hunter2",
        "sqlite:///tonnage.sqlite?timeout=hunter2",
    ],
)
def test_the_error_for_a_bad_url_shows_no_part_of_it(url: str) -> None:
    """The text taken for a host or a port may be a part of the password, as when '@' is not written as %40."""
    with pytest.raises(errors.ConfigurationError, match=r"\[database\] connection is no URL .* %40") as raised:
        database.create_engine(url)
    assert "ter2" not in raised.value.message


def test_libpq_probes_dead_hosts_unless_the_url_says_otherwise() -> None:
    engine = database.create_engine("postgresql+psycopg://tonnage@127.0.0.1:1/tonnage?keepalives_idle=99")
    given: dict[str, object] = {}
    sa.event.listen(engine, "do_connect", lambda *args: given.update(args[3]))
    with pytest.raises(Exception, match="refused"), engine.connect():  # libpq knows all of them
        pass
    assert (given["tcp_user_timeout"], given["keepalives_interval"], given["keepalives_count"]) == (10_000, 3, 3)
    assert given["keepalives_idle"] == "99"


@pytest.mark.parametrize("parameter", ["", "?connect_timeout=17"])
@pytest.mark.parametrize("driver", ["postgresql+psycopg", "mysql+pymysql"])
def test_the_url_can_set_the_connect_timeout(driver: str, parameter: str) -> None:
    engine = database.create_engine(f"{driver}://tonnage@127.0.0.1:1/tonnage{parameter}")
    given: list[object] = []

    def connect(dialect: object, record: object, args: object, parameters: dict[str, object]) -> None:
        given.append(parameters["connect_timeout"])

    sa.event.listen(engine, "do_connect", connect)
    with pytest.raises(Exception, match="refused"), engine.connect():
        pass
    assert [int(str(each)) for each in given] == [17 if parameter else 5]


def test_an_exhausted_connection_pool_is_reported(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/x", pool_size=1, max_overflow=0, pool_timeout=0.1)
    ledger = database.Database(engine, max_retries=5)
    with ledger.reading(), pytest.raises(errors.Unavailable, match=r"^all connections .* in use.* pool_timeout"):
        ledger.run(add)
    ledger.close()


def test_a_connection_of_pymysql_ends_when_its_host_is_gone(mariadb_url: str) -> None:
    url = sa.make_url(mariadb_url)
    with tcp_proxy.TcpProxy(tcp_proxy.target(url)) as proxy:
        engine = database.create_engine(tcp_proxy.url_through(proxy, url).render_as_string(hide_password=False))
        with engine.connect() as connection:
            used = connection.connection.dbapi_connection._sock  # type: ignore[union-attr]
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
            assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        engine.dispose()
