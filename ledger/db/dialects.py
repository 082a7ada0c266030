# SPDX-License-Identifier: Apache-2.0
"""Settings and hooks for each database and its driver: connection parameters and batches of statements."""

import datetime
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.models.base import utcnow

#: Execution option of connections that only read.
READ_ONLY = "tonnage_read_only"

#: Execution option of connections that execute a single statement: SQLite needs no transaction for it.
SINGLE_READ = "tonnage_single_read"

#: Execution option of connections whose transactions wait only for a moment for the write lock of SQLite.
IMPATIENT = "tonnage_impatient"

#: SQLAlchemy's names of the databases that may be clusters of Galera.
GALERA = ("mysql", "mariadb")

#: Default limit, in seconds, for opening a connection: a host that is down does not even refuse.
CONNECT_TIMEOUT = 5

#: Parameters of a URL that tell where the database is.
_LOCATIONS = ("host", "port", "service", "unix_socket")

#: Largest number of characters, of up to four bytes each, in one message: MariaDB's default limit is 16 MiB.
_MAX_MESSAGE = 2**20

#: Default parameters of the drivers; the URL overrides them. A host that has lost its power does not end its
#: connections: libpq ends them when data stays unacknowledged (tcp_user_timeout, milliseconds), or when a silent peer
#: does not answer probes (keepalives, seconds). It looks for a server that takes writes. Texts travel in UTF-8,
#: whatever the encoding of the database.
_LIBPQ: Mapping[str, int | str] = {
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "target_session_attrs": "read-write",
    "client_encoding": "utf8",
}

#: The same for PyMySQL's connections: TCP_USER_TIMEOUT in milliseconds, the others in seconds, but for the number of
#: probes.
_TCP_OPTIONS: Mapping[int, int] = {
    socket.TCP_USER_TIMEOUT: 10_000,
    socket.TCP_KEEPIDLE: 10,
    socket.TCP_KEEPINTVL: 3,
    socket.TCP_KEEPCNT: 3,
}

_PARAMETERS: Mapping[str, Mapping[str, int | str]] = {
    "psycopg": _LIBPQ,
    "psycopg2": _LIBPQ,
    "pymysql": {},
    "mysqldb": {},
}

#: The condition under which a MySQL or MariaDB server takes no writes.
_MYSQL_READ_ONLY = "CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF')"

#: Queries for whether the server takes no writes, and for the time, by SQLAlchemy's name of the database.
_FIRST_QUERIES = {
    name: Prepared(sa.select(sa.literal_column(condition), utcnow()))
    for name, condition in (
        ("postgresql", "current_setting('transaction_read_only') = 'on'"),
        ("mysql", _MYSQL_READ_ONLY),
        ("mariadb", _MYSQL_READ_ONLY),
        ("sqlite", "0"),
    )
}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of a session, in seconds: see the options ``lock_timeout`` and ``idle_transaction_timeout``.

    ``busy`` is the time that an SQLite transaction waits for its turn.
    """

    lock: int = 5
    idle_transaction: int = 10
    busy: int = 60


DEFAULT_TIMEOUTS = Timeouts()


class ReadOnlyServer(Exception):
    """The database server takes no writes at present."""

    sqlstate = "25006"


def require_writable(connection: sa.Connection) -> datetime.datetime:
    """Send a first query, and return the time by the database's clock.

    Raises :class:`ReadOnlyServer` if the server takes no writes.
    """
    is_read_only, now = _FIRST_QUERIES[connection.dialect.name].rows(connection, {})[0]
    if is_read_only:
        raise ReadOnlyServer("the server takes no writes (read-only)")
    assert isinstance(now, datetime.datetime)  # noqa: S101  -- SQLAlchemy declares no type for the row
    return now


def prepare_postgresql(connection: Any, timeouts: Timeouts) -> object:
    """Limit the times for which a session waits for locks, and holds them without a sign of life.

    A commit waits for the disk and for synchronous standbys, independent of the server's default. Return the identity
    of the server.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_postmaster_start_time(),"
            f" set_config('lock_timeout', '{timeouts.lock:d}s', false),"
            f" set_config('idle_in_transaction_session_timeout', '{timeouts.idle_transaction:d}s', false),"
            " CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
            " THEN set_config('synchronous_commit', 'on', false) END"
        )
        server: object = cursor.fetchone()[0]
    connection.commit()
    return server


def prepare_mysql(connection: Any, timeouts: Timeouts) -> object:
    """Do the same as :func:`prepare_postgresql`. MySQL has no limit for idle transactions, only MariaDB has.

    Raises PyMySQL's OperationalError if the server takes no writes: an account with all privileges could write to it.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT VERSION() LIKE '%MariaDB%', {_MYSQL_READ_ONLY}, @@hostname, @@port")
        is_mariadb, is_read_only, *server = cursor.fetchone()
        if is_read_only:
            raise type(connection).OperationalError(1290, "the server takes no writes (read_only)")
        _probe_silent_server(connection)
        idle = f", idle_transaction_timeout = {timeouts.idle_transaction:d}" if is_mariadb else ""
        cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {timeouts.lock:d}{idle}")
    return tuple(server)


def _probe_silent_server(connection: Any) -> None:
    """Make the operating system end a connection of PyMySQL when its host has lost its power, as libpq does.

    PyMySQL has no parameters for that.
    """
    connected = getattr(connection, "_sock", None)
    if not isinstance(connected, socket.socket) or connected.family == socket.AF_UNIX:
        return
    for name, value in _TCP_OPTIONS.items():
        connected.setsockopt(socket.IPPROTO_TCP, name, value)


def parameters(url: sa.URL) -> dict[str, int | str]:
    """Return the default connection parameters for the driver that the URL names, without those that the URL sets."""
    defaults = _PARAMETERS.get(url.get_driver_name())
    if defaults is None:
        return {}
    settings = {"connect_timeout": CONNECT_TIMEOUT, **defaults}
    if url.get_driver_name() == "pymysql":  # its connect_timeout ends before the server's first message
        settings["read_timeout"] = int(str(url.query.get("connect_timeout", CONNECT_TIMEOUT)))
    return {name: value for name, value in settings.items() if name not in url.query}


def wait_for_answers(connection: Any) -> None:
    """End the limit of PyMySQL's ``read_timeout``, which :func:`parameters` sets for the time of the connect only."""
    connection._read_timeout = None


def prepare_sqlite(connection: sqlite3.Connection, timeouts: Timeouts) -> None:
    """Set up a connection."""
    # SQLAlchemy's begin event starts transactions, so the sqlite3 module must not start them itself.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {timeouts.busy:d}000")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def for_single_reads(engine: sa.Engine) -> sa.Engine:
    """Return an engine with the same connections, each of which executes one statement that reads.

    PostgreSQL gets no BEGIN and no ROLLBACK then. On MariaDB autocommit would cost a message each time, as does the
    ROLLBACK that it would save.
    """
    options: dict[str, Any] = {READ_ONLY: True, SINGLE_READ: True}
    if engine.dialect.name == "postgresql":
        options["isolation_level"] = "AUTOCOMMIT"
    return engine.execution_options(**options)


def begin_sqlite(connection: sa.Connection) -> None:
    """Begin a transaction; take the write lock unless the transaction only reads."""
    options = connection.get_execution_options()
    if options.get(SINGLE_READ, False):
        return
    if options.get(READ_ONLY, False):
        connection.exec_driver_sql("BEGIN")
    elif options.get(IMPATIENT, False):
        timeout = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
        connection.exec_driver_sql("PRAGMA busy_timeout = 1000")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {timeout}")
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def public_address(url: sa.URL) -> str:
    """Return the address of a database to show and to store: without passwords, which parameters may contain too."""
    query = {name: value for name, value in url.query.items() if name in _LOCATIONS}
    return url.set(query=query).render_as_string(hide_password=True)


def with_multi_statements(url: sa.URL) -> sa.URL:
    """Return the URL with the client flag that permits several statements in one message."""
    from pymysql.constants import CLIENT  # not installed with other databases

    flags = url.query.get("client_flag", "0")
    if not isinstance(flags, str) or not flags.isdecimal():
        raise sa.exc.ArgumentError(f"client_flag is {flags!r}: it takes a whole number")
    return url.update_query_dict({"client_flag": str(int(flags) | CLIENT.MULTI_STATEMENTS)})


def with_any_text(url: sa.URL) -> sa.URL:
    """Return the URL of a MariaDB with the character set of connections that carry any text."""
    return url.update_query_dict({"charset": "utf8mb4"})


def insert_unless_known(table: sa.Table) -> Mapping[str, sa.Insert]:
    """Return the insert of a row that has no effect if the key exists, by SQLAlchemy's name of the database.

    The ``rowcount`` of its result tells whether it inserted the row. It waits for a transaction that inserts the same
    key. MariaDB ignores errors in the values as well.
    """
    ignore = sa.insert(table).prefix_with("IGNORE")
    inserts: Mapping[str, sa.Insert] = {
        "postgresql": postgresql.insert(table).on_conflict_do_nothing(),
        "sqlite": sqlite.insert(table).on_conflict_do_nothing(),
        "mysql": ignore,
        "mariadb": ignore,
    }
    return {name: insert.execution_options(preserve_rowcount=True) for name, insert in inserts.items()}


def execute_batched(cursor: Any, statement: str, rows: Sequence[Any], context: Any) -> bool | None:
    """Execute a statement for many rows in few messages: PyMySQL itself sends one per row and waits for each answer."""
    from pymysql import cursors

    if len(rows) < 2 or cursors.RE_INSERT_VALUES.match(statement):
        return None  # PyMySQL itself combines the rows of a plain INSERT
    count = 0
    for message in _messages(cursor.mogrify(statement, row) for row in rows):
        cursor.execute(message)
        count += cursor.rowcount
        while cursor.nextset():
            count += cursor.rowcount
    cursor.rowcount = count
    return True


def _messages(statements: Iterable[str]) -> Iterator[str]:
    batch: list[str] = []
    length = 0
    for statement in statements:
        if batch and length + len(statement) > _MAX_MESSAGE:
            yield ";".join(batch)
            batch, length = [], 0
        batch.append(statement)
        length += len(statement)
    if batch:
        yield ";".join(batch)


T = TypeVar("T")

#: Number of values in one statement. Larger statements are no faster.
CHUNK_SIZE = 1000


def in_chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the values in their order, in lists of at most :data:`CHUNK_SIZE`; yield nothing for no values."""
    remaining = iter(values)
    while chunk := list(islice(remaining, CHUNK_SIZE)):
        yield chunk
