# SPDX-License-Identifier: Apache-2.0
"""Database errors: transactions that collide, and a database that cannot be reached or written."""

import contextlib
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc

from tonnage.capacity import errors
from tonnage.ledger.db import hosts, sqlite_file

LOG = logging.getLogger(__name__)

#: Deadlocks, serialization failures, and timeouts of locks and statements: SQLSTATEs of PostgreSQL, error numbers of
#: MariaDB.
_COLLISIONS = frozenset({"40001", "40P01", "55P03", "57014", 1213, 1205, 1020, 1317})

#: Part of SQLite's messages "database is locked" and "database table is locked", after its lock timeout.
_SQLITE_LOCKED = "is locked"

#: The server takes no more connections. While psycopg connects it gets no SQLSTATE, so its text is examined.
_FULL = frozenset({"53300", 1040, 1203})
_FULL_WORDS = ("too many clients", "too many connections", "remaining connection slots")

#: The server takes no writes: it is a standby, or has become one, or is a Galera node without a cluster.
_READ_ONLY = frozenset({"25006", 1290, 1836, 1047})

#: The server has ended a session or transaction that was idle for too long, or does not know the end of a commit.
_SESSION_ENDED = frozenset({"25P03", "57P05", "40003", 4031, 1180})

#: The server refuses new connections of this account, or to this database, as it may after a change of a password.
_REFUSED = frozenset({"28000", "28P01", "3D000", 1044, 1045, 1049, 1698})

#: The server is away, stopping or starting, or useless.
_AWAY = _READ_ONLY | _SESSION_ENDED | _REFUSED | {"57P01", "57P02", "57P03", 1053, 1927, 2002, 2003, 2006, 2013, 2055}

#: Errors of the DB-API that speak of one statement: of its values, of constraints, or of the program that sent it.
_OF_STATEMENTS = ("DataError", "IntegrityError", "InterfaceError", "NotSupportedError", "ProgrammingError")

#: Further errors of that sort, which the drivers raise as errors of the database. Of PostgreSQL: classes of SQLSTATEs
#: (transaction state, rollback, limits of a statement). Of SQLite: primary codes. Of MariaDB: limits of a message, a
#: condition or a conversion, mixed collations, a text in a wrong character set, SIGNAL of a trigger.
_POSTGRESQL_STATEMENTS = frozenset({"24", "25", "40", "54"})
_SQLITE_STATEMENTS = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_ABORT, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_SCHEMA}
)
_MARIADB_STATEMENTS = frozenset(
    {1052, 1153, 1210, 1241, 1242, 1267, 1270, 1271, 1292, 1300, 1301, 1390, 1411, 1436, 1644, 1690, 3819, 3988, 4025}
)

#: Errors of statements that say that the database is no ledger any more: it lacks a table, a column or a right. The
#: schema was right when the process started.
_NO_LEDGER = frozenset({"42501", "42P01", "42703", "3F000", 1146})
_SQLITE_NO_LEDGER = ("no such table", "no such column")

#: A table does not take a text, or cannot compare it: its character set lacks a character, or the text is too long.
_TEXTS = frozenset({"22001", "22021", "22P05", 1267, 1270, 1271, 1300, 1366, 1406})

#: The end of the name of a parameter that SQLAlchemy makes of the name of a column.
_NUMBER = re.compile(r"(_+m?\d+)+$")

#: Seconds without another refused transaction after which one that was committed ends a refusal. Small transactions
#: may succeed on a full disk.
QUIET = 10.0

#: The beginnings of messages about a database that is lost, and about one that refuses.
_SILENT = "the database does not answer"
_UNWRITABLE = "the ledger cannot be written"

#: Code of a psycopg error without a SQLSTATE: no server has answered, so there is no connection.
_NO_CONNECTION = "no connection"


class Collision(Exception):
    """A transaction collided with another. Raised in a transaction, it makes it run again from the start."""


class RolledBack(Exception):
    """The database has refused a transaction, and nothing of the transaction can have taken effect."""


class RefusedText(errors.InvalidInput):
    """A table does not take a text. All of the ledger's own tables take any text: this one has been changed."""


class Connectivity:
    """Whether the last attempt reached the database, and whether it carries out transactions. Threads may share it.

    While the database is lost, each transaction tries once and does not wait: the first transaction that failed has
    already waited for all. The same holds while the database answers and refuses the transactions of the ledger.
    """

    def __init__(self, address: str, quiet: float = QUIET, clock: Callable[[], float] = time.monotonic) -> None:
        """``address`` names the database in logs."""
        self._address, self._clock = address, clock
        #: Seconds after the last refused transaction from which on a committed one ends the refusal.
        self.quiet = quiet
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._hosts = hosts.HostOrder()
        #: Whether the last attempt failed.
        self.failing = False
        self._last_error = ""
        self.lost = False
        #: Why the database refuses transactions although it answers; None if it does not.
        self.refusal: str | None = None
        self._refused_at = 0.0
        #: Number of times that the database has answered, or has been written, again.
        self.returns = 0

    def connect(self, dialect: sa.Dialect, record: object, args: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        """Open a connection as SQLAlchemy's "do_connect" event requires; while the database is lost, one at a time."""
        with self._one_at_a_time():
            return self._hosts.connect(dialect, args, parameters)

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """While the database is lost, let one thread at a time try to reach it; raise :class:`Away` in the others.

        A host that does not even refuse takes seconds for each attempt.
        """
        if not self.lost:
            yield
            return
        if not self._turn.acquire(blocking=False):
            raise errors.DatabaseUnreachable(f"{_SILENT}: {self._last_error}")
        try:
            yield
        finally:
            self._turn.release()

    def record_answer(self) -> None:
        """Record that the database has answered."""
        if not self.failing:
            return
        with self._lock:
            was_failing, self.failing, self.lost = self.failing, False, False
            self.returns += was_failing
        if was_failing:
            LOG.info("The database can be reached again")

    def record_failure(self, error: BaseException) -> None:
        """Record that the database has not answered and is tried again."""
        with self._lock:
            was_failing, self.failing = self.failing, True
        if not was_failing:
            LOG.info("The database does not answer and is retried: %s", first_line(error))

    def record_loss(self, error: BaseException) -> None:
        """Record that the database has not answered any of the retries."""
        with self._lock:
            lost, self.lost, self.failing = self.lost, True, True
            self._last_error = first_line(error)
        if not lost:
            message = "The database cannot be reached; requests that need it fail until it answers: %s"
            LOG.error(message, first_line(error))

    def record_refusal(self, error: BaseException) -> None:
        """Record that the database answers, and does not carry out a transaction that is right in itself."""
        with self._lock:
            is_first, self.refusal, self._refused_at = self.refusal is None, first_line(error), self._clock()
        if is_first:
            message = "The ledger in %s cannot be written: %s; requests that need it fail until it can"
            LOG.error(message, self._address, first_line(error))

    def record_write(self) -> None:
        """Record that a transaction that writes was committed: it ends a refusal, if that was not renewed lately."""
        if self.refusal is not None and self._end_refusal():
            LOG.info("The ledger can be written again")

    def _end_refusal(self) -> bool:
        """End a refusal that was not renewed lately; return whether it was ended by this call."""
        with self._lock:
            if self.refusal is None or self._clock() - self._refused_at < self.quiet:
                return False
            self.refusal = None
            self.returns += 1
            return True

    def require_usable(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.DatabaseUnreachable` while the database is lost or refuses."""
        if self.lost:
            raise errors.DatabaseUnreachable(f"{_SILENT}: {self._last_error}")
        if (refusal := self.refusal) is not None:
            raise errors.LedgerRefusal(f"{_UNWRITABLE}: {refusal}")


def log_level(error: errors.TonnageError) -> int:
    """Return the log level for postponed work: DEBUG if the outage of the database has been logged, else WARNING."""
    return logging.DEBUG if isinstance(error, errors.DatabaseUnreachable) else logging.WARNING


def is_transient(error: BaseException) -> bool:
    """Return whether the error can go away when the transaction runs again."""
    return is_collision(error) or is_away(error) or _is_full(error)


def is_collision(error: BaseException) -> bool:
    """Return whether another transaction caused the error."""
    return isinstance(error, (db_exc.DBDeadlock, Collision)) or any(code in _COLLISIONS for code in _codes(error))


def is_away(error: BaseException) -> bool:
    """Return whether the connection was lost, or there was none."""
    if _is_full(error):
        return False
    return isinstance(error, db_exc.DBConnectionError) or any(
        code in _AWAY or (isinstance(code, str) and code.startswith("08")) or code == _NO_CONNECTION
        for code in _codes(error)
    )


def is_read_only(error: BaseException) -> bool:
    """Return whether the server answers but takes no writes."""
    return any(code in _READ_ONLY for code in _codes(error))


def is_refusal(error: BaseException) -> bool:
    """Return whether the database answers, and does not carry out a transaction that is right in itself.

    Its disk is full or fails, its files are damaged or gone, it lacks memory, a table, a column or a right: all errors
    but those that another transaction causes, that speak of one statement or of its values, or that tell that there is
    no connection.
    """
    if is_transient(error):
        return False
    return any(isinstance(cause, sqlite_file.LostFile) or _is_of_database(cause) for cause in _causes(error))


def is_unclear(error: BaseException) -> bool:
    """Return whether a refused commit may have taken effect: SQLite failed to read or write its files."""
    codes = (getattr(cause, "sqlite_errorcode", None) for cause in _causes(error))
    return any(code is not None and code & 0xFF == sqlite3.SQLITE_IOERR for code in codes)


def _is_of_database(error: BaseException) -> bool:
    """Return whether an error of a driver speaks of the database as a whole, and not of one statement."""
    driver = type(error).__module__.partition(".")[0]
    code: int | str | None
    if driver == "sqlite3":
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or str(error).startswith(_SQLITE_NO_LEDGER):
            return code is not None
        is_of_statement = code & 0xFF in _SQLITE_STATEMENTS
    elif driver == "pymysql":
        code = next(_codes_of(error), None)
        is_of_statement = code in _MARIADB_STATEMENTS
    elif driver == "psycopg":
        code = next(_codes_of(error), None)
        is_of_statement = str(code)[:2] in _POSTGRESQL_STATEMENTS
    else:
        return False
    if code is None:
        return False
    return code in _NO_LEDGER or not (is_of_statement or _is_derived(error, *_OF_STATEMENTS))


def _is_full(error: BaseException) -> bool:
    """Return whether the server answers but takes no more connections."""
    return any(code in _FULL for code in _codes(error))


def unavailable(error: BaseException) -> errors.Unavailable | None:
    """Return the error to raise after the retries of a transaction were in vain.

    It is None if retries cannot mend ``error``.
    """
    if isinstance(error, sa.exc.TimeoutError):
        return errors.Unavailable(
            "all connections to the database that this process may open are in use, and none was free within "
            "[database] pool_timeout; see max_pool_size and max_overflow there"
        )
    first = first_line(error)
    if is_refusal(error):
        refusal_class = errors.LedgerRefusal if isinstance(error, RolledBack) else errors.DatabaseUnreachable
        return refusal_class(f"{_UNWRITABLE}: {first}")
    if not is_transient(error):
        return None
    if _SQLITE_LOCKED in first:
        return errors.Unavailable(
            "the ledger is busy: another process has held the write lock of its SQLite file for longer than "
            "[database] sqlite_busy_timeout; try again, and look for the process that has the file open if that goes on"
        )
    if _is_full(error):
        return errors.Unavailable(
            "the database server takes no more connections; its max_connections has to be higher than [database] "
            f"max_pool_size and max_overflow of all processes together: {first}"
        )
    error_class = errors.Unavailable if is_collision(error) else errors.DatabaseUnreachable
    return error_class(f"{_SILENT}: {first}")


def refused_text(error: BaseException) -> RefusedText | None:
    """Return the error to raise for a text that a table does not take; None if ``error`` is another one."""
    if not any(code in _TEXTS for code in _codes(error)):
        return None
    texts: dict[str, str] = {}
    for cause in _causes(error):
        statement_error = getattr(cause, "inner_exception", cause)
        if isinstance(statement_error, sa.exc.StatementError):
            texts |= dict(_special_texts(statement_error.params))
    if not texts:
        return None
    described = ", ".join(f"{name} is {text[:40]!a}" for name, text in texts.items())
    return RefusedText(
        f"{described}: a table of the ledger does not take this text; 'tonnage-status upgrade check' names the table "
        "and the way out"
    )


def _special_texts(parameters: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a statement's parameters that are texts with other characters than ASCII."""
    if isinstance(parameters, Mapping):
        for name, value in parameters.items():
            if isinstance(value, str) and not value.isascii():
                yield _NUMBER.sub("", name), value
    elif isinstance(parameters, Sequence) and not isinstance(parameters, str):
        for row in parameters:
            yield from _special_texts(row)


def first_line(error: BaseException) -> str:
    """Return the first line of the error's text: SQLAlchemy appends the statement in further lines."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _codes(error: BaseException) -> Iterator[str | int]:
    """Yield the codes that the database's driver gives to an error and to the errors that caused it."""
    for cause in _causes(error):
        yield from _codes_of(cause)


def _codes_of(error: BaseException) -> Iterator[str | int]:
    """Yield the code that the database's driver gives to an error, if it gives one."""
    if isinstance(error, sqlite3.OperationalError) and _SQLITE_LOCKED in str(error):
        yield 1205
    sqlstate = getattr(error, "sqlstate", None)
    if type(error).__module__.startswith("pymysql") and error.args and isinstance(error.args[0], int):
        yield error.args[0]
    elif isinstance(sqlstate, str):
        yield sqlstate
    elif type(error).__module__.startswith("psycopg") and _is_derived(error, "OperationalError"):
        yield "53300" if any(words in str(error) for words in _FULL_WORDS) else _NO_CONNECTION


def _is_derived(error: BaseException, *names: str) -> bool:
    """Return whether the error is one of these of the DB-API, or of a derived class, as timeouts are."""
    return any(base.__name__ in names for base in type(error).__mro__)
