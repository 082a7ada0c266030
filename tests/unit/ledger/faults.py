# SPDX-License-Identifier: Apache-2.0
"""Faults of databases, and acts of others at a moment: between the ledger's code and the driver of a database."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import event

from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import Database

#: Gets the connection, which it may use. If it raises an exception, the database gets nothing.
Act: TypeAlias = Callable[[sa.Connection], object]

#: The beginning of the statement with which a transaction locks the backends of its pools.
LOCK = "SELECT backends.id, backends.epoch, backends.rules_generation"


@contextlib.contextmanager
def before(engine: sa.Engine, words: str, act: Act) -> Iterator[None]:
    """Act before each statement that contains these words. Its own statements cause no further calls."""
    acting = _not_within(act)

    def look(connection: sa.Connection, statement: sa.Executable, *more: object) -> None:
        if words in str(statement.compile(dialect=connection.dialect)):
            acting(connection)

    with _listening(engine, "before_execute", look):
        yield


@contextlib.contextmanager
def before_transaction(engine: sa.Engine, act: Act) -> Iterator[None]:
    """Act before each transaction that may write. The act may use other connections, also for transactions."""
    acting = _not_within(act)

    def look(connection: sa.Connection) -> None:
        if connection.engine.pool is engine.pool and not connection.get_execution_options().get(dialects.READ_ONLY):
            acting(connection)

    # Listeners of the class are called before that of an engine of SQLite, which takes the lock of the file.
    with _listening(sa.Engine, "begin", look):
        yield


def once(act: Act, skipped: int = 0) -> Act:
    """Return an act that does nothing in the first ``skipped`` calls, then acts once, and does nothing again."""
    calls = 0

    def acting(connection: sa.Connection) -> None:
        nonlocal calls
        calls += 1
        if calls == skipped + 1:
            act(connection)

    return acting


def failing(engine: sa.Engine, words: str, error: BaseException) -> contextlib.AbstractContextManager[None]:
    """Let statements that contain these words fail with an error; without words, all statements."""

    def fail(connection: sa.Connection) -> None:
        raise error

    return before(engine, words, fail)


@contextlib.contextmanager
def away(ledger: Database) -> Iterator[None]:
    """Let a database be away, for so long that transactions are tried only once."""
    lost = db_exc.DBConnectionError(OSError("no route"))

    def lose(connection: sa.Connection) -> None:
        ledger.connectivity.record_loss(lost)
        raise lost

    ledger.connectivity.record_loss(lost)
    with before(ledger.engine, "", lose):
        yield


@contextlib.contextmanager
def executions(engine: sa.Engine, words: str) -> Iterator[list[Any]]:
    """Give a list that gets the parameters of each executed statement that contains these words."""
    found: list[Any] = []

    def note(connection: object, cursor: object, statement: str, parameters: Any, *more: object) -> None:
        if words in statement:
            found.append(parameters)

    with _listening(engine, "before_cursor_execute", note):
        yield found


def _not_within(act: Act) -> Act:
    """Return the act, which does nothing while it acts."""
    is_acting = False

    def acting(connection: sa.Connection) -> None:
        nonlocal is_acting
        if not is_acting:
            is_acting = True
            try:
                act(connection)
            finally:
                is_acting = False

    return acting


@contextlib.contextmanager
def _listening(target: Any, name: str, listener: Callable[..., None]) -> Iterator[None]:
    event.listen(target, name, listener)
    try:
        yield
    finally:
        event.remove(target, name, listener)
