# SPDX-License-Identifier: Apache-2.0
"""What the ledger asks of each database and its driver: parameters of connections, and how statements travel."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

#: An option of an execution that only reads.
READ_ONLY = "tonnage_read_only"

#: Seconds that a connection may take unless the URL says otherwise: a host that is down does not even refuse.
CONNECT_TIMEOUT = 5

#: Most characters, of up to four bytes, of statements that travel together: MariaDB takes 16 MiB unless told otherwise.
_MESSAGE = 2**20

#: What the drivers are told unless the URL does. A host that has lost its power does not end its connections: libpq
#: gives them up where nothing is acknowledged (milliseconds), or nothing comes and nobody answers (seconds).
_LIBPQ = {"tcp_user_timeout": 10_000, "keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3}
_PARAMETERS: Mapping[str, Mapping[str, int]] = {"psycopg": _LIBPQ, "psycopg2": _LIBPQ, "pymysql": {}, "mysqldb": {}}


def parameters(url: sa.URL) -> dict[str, int]:
    """Return what a driver is told besides what its URL says."""
    usual = _PARAMETERS.get(url.get_driver_name())
    if usual is None:
        return {}
    told = {"connect_timeout": CONNECT_TIMEOUT, **usual}
    return {name: value for name, value in told.items() if name not in url.query}


def prepare_sqlite(connection: sqlite3.Connection, busy_timeout: int) -> None:
    """Set up a connection; ``busy_timeout`` is in seconds."""
    # SQLAlchemy's begin event starts transactions; the module's own idea of when to do so is turned off.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout) * 1000}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def begin_sqlite(connection: sa.Connection) -> None:
    """Begin a transaction, with the lock of writers unless it only reads."""
    read_only = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def let_travel_together(url: sa.URL) -> sa.URL:
    """Return the address of a server that takes several statements in one message."""
    from pymysql.constants import CLIENT  # who uses another database need not have it

    asked = url.query.get("client_flag", "0")
    if not isinstance(asked, str) or not asked.isdecimal():
        raise sa.exc.ArgumentError(f"client_flag is {asked!r}: it takes a whole number")
    return url.update_query_dict({"client_flag": str(int(asked) | CLIENT.MULTI_STATEMENTS)})


def execute_together(cursor: Any, statement: str, rows: Sequence[Any], context: Any) -> bool | None:
    """Send what changes many rows in few messages: PyMySQL sends one for each and waits for its answer."""
    from pymysql import cursors

    if len(rows) < 2 or cursors.RE_INSERT_VALUES.match(statement):
        return None  # plain rows to insert it sends together by itself
    count = 0
    for message in _messages(cursor.mogrify(statement, row) for row in rows):
        cursor.execute(message)
        count += cursor.rowcount
        while cursor.nextset():
            count += cursor.rowcount
    cursor.rowcount = count
    return True


def _messages(statements: Iterable[str]) -> Iterator[str]:
    together: list[str] = []
    length = 0
    for statement in statements:
        if together and length + len(statement) > _MESSAGE:
            yield ";".join(together)
            together, length = [], 0
        together.append(statement)
        length += len(statement)
    if together:
        yield ";".join(together)
