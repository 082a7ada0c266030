# SPDX-License-Identifier: Apache-2.0
"""What may come between a transaction and its end: others that got into its way, and a database that is away."""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc

from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

#: Deadlocks, serialization failures and locks waited for in vain: PostgreSQL's by SQLSTATE, MariaDB's by number.
_COLLISIONS = frozenset({"40001", "40P01", "55P03", 1213, 1205, 1020})

#: What SQLite says where others have had the lock for too long: "database is locked", "database table is locked".
_SQLITE_LOCKED = "is locked"

#: The server takes no more connections; psycopg is not told its number when it connects.
_FULL = frozenset({"53300", 1040, 1203})
_FULL_WORDS = ("too many clients", "too many connections", "remaining connection slots")

#: The server is away, stops or starts.
_AWAY = frozenset({"57P01", "57P02", "57P03", 1053, 1927, 2002, 2003, 2006, 2013, 2055})

#: Stands for an error of psycopg without a SQLSTATE: no server has answered, so there is no connection.
_NO_CONNECTION = "no connection"


class Collision(Exception):
    """A transaction got into the way of another. Raised in it, it is run again from the start."""


class Away(errors.Unavailable):
    """The database cannot be reached. :class:`Reach` has said so in the log, once."""


class Reach:
    """Whether the database can be reached, by the last who tried. Threads may share it.

    Whoever comes while it cannot tries once and does not wait: the first has, for all of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._missed = False
        self._said = ""
        self.lost = False
        #: How often it has come back.
        self.returns = 0

    def connect(self, dialect: sa.Dialect, record: object, args: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """Open a connection in one's turn: what SQLAlchemy does on "do_connect"."""
        with self._turn_of_one():
            return dialect.connect(*args, **parameters)

    @contextlib.contextmanager
    def _turn_of_one(self) -> Iterator[None]:
        """While the database is lost, let one at a time try to reach it; raise :class:`Away` for the others.

        A host that does not even refuse takes seconds for each try.
        """
        if not self.lost:
            yield
            return
        if not self._turn.acquire(blocking=False):
            raise Away(f"the database does not answer: {self._said}")
        try:
            yield
        finally:
            self._turn.release()

    def regained(self) -> None:
        """Note that the database has answered."""
        if not self._missed:
            return
        with self._lock:
            missed, self._missed, self.lost = self._missed, False, False
            self.returns += missed
        if missed:
            LOG.info("The database can be reached again")

    def miss(self, error: BaseException) -> None:
        """Note that the database has not answered and is tried again."""
        with self._lock:
            missed, self._missed = self._missed, True
        if not missed:
            LOG.info("The database does not answer, and is tried again: %s", first_line(error))

    def lose(self, error: BaseException) -> None:
        """Note that the database has not answered, however often it was tried."""
        with self._lock:
            lost, self.lost, self._missed = self.lost, True, True
            self._said = first_line(error)
        if not lost:
            LOG.error(
                "The database cannot be reached, and what needs it is refused until it can be: %s", first_line(error)
            )


def loudness(error: errors.TonnageError) -> int:
    """Return the level to log at that something has to wait: of a database that is away all has been said."""
    return logging.DEBUG if isinstance(error, Away) else logging.WARNING


def passes(error: BaseException) -> bool:
    """Tell whether a database error is one that goes away when the transaction is run again."""
    return is_collision(error) or is_away(error) or _is_full(error)


def is_collision(error: BaseException) -> bool:
    """Tell whether others got into the transaction's way."""
    return isinstance(error, (db_exc.DBDeadlock, Collision)) or any(code in _COLLISIONS for code in _codes(error))


def is_away(error: BaseException) -> bool:
    """Tell whether the connection was lost, or there was none."""
    if _is_full(error):
        return False
    return isinstance(error, db_exc.DBConnectionError) or any(
        code in _AWAY or (isinstance(code, str) and code.startswith("08")) or code == _NO_CONNECTION
        for code in _codes(error)
    )


def _is_full(error: BaseException) -> bool:
    """Tell whether the server is there, and takes no more connections."""
    return any(code in _FULL for code in _codes(error))


def unavailable(error: BaseException) -> errors.Unavailable | None:
    """Say what the matter is with a database that a transaction was run on in vain; None if it is something else."""
    if isinstance(error, sa.exc.TimeoutError):
        return errors.Unavailable(
            "all connections to the database that this process may open are in use, and none was free within "
            "[database] pool_timeout; see max_pool_size and max_overflow there"
        )
    if not passes(error):
        return None
    said = first_line(error)
    if _SQLITE_LOCKED in said:
        return errors.Unavailable(
            "the ledger is busy: another process has held the write lock of its SQLite file for longer than "
            "[database] sqlite_busy_timeout; try again, and see who has the file open if that goes on"
        )
    if _is_full(error):
        return errors.Unavailable(
            "the database server takes no more connections; its max_connections has to be higher than [database] "
            f"max_pool_size and max_overflow of all processes together: {said}"
        )
    kind = errors.Unavailable if is_collision(error) else Away
    return kind(f"the database does not answer: {said}")


def first_line(error: BaseException) -> str:
    """Return what an error says, without the statement and whatever else SQLAlchemy puts behind it."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _codes(error: BaseException) -> Iterator[str | int]:
    """Return what the database's driver calls an error, and those that it was raised from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.OperationalError) and _SQLITE_LOCKED in str(cause):
            yield 1205
        sqlstate = getattr(cause, "sqlstate", None)
        if isinstance(sqlstate, str):
            yield sqlstate
        elif type(cause).__module__.startswith("psycopg") and _is_operational(cause):
            yield "53300" if any(words in str(cause) for words in _FULL_WORDS) else _NO_CONNECTION
        elif type(cause).__module__.startswith("pymysql") and cause.args and isinstance(cause.args[0], int):
            yield cause.args[0]
        cause = cause.__cause__


def _is_operational(error: BaseException) -> bool:
    """Tell whether an error is of the class of the DB-API, or of one derived from it, as when time is up."""
    return any(base.__name__ == "OperationalError" for base in type(error).__mro__)
