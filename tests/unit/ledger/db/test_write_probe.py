# SPDX-License-Identifier: Apache-2.0
"""Writes that show whether the ledger can be written."""

import pathlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest
import sqlalchemy as sa
from sqlalchemy import event, orm

from tests.servers import ledger_schema
from tests.unit.ledger import faults
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database, dialects

ALWAYS = database.Patience(write_interval=0.0, quiet=0.0)


@pytest.fixture
def opened(tmp_path: pathlib.Path) -> Iterator[Callable[[database.Patience], database.Database]]:
    ledgers: list[database.Database] = []

    def open_ledger(patience: database.Patience) -> database.Database:
        engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite", dialects.Timeouts(busy=60))
        ledger_schema.create(engine)
        ledgers.append(database.Database(engine, patience=patience))
        return ledgers[-1]

    yield open_ledger
    for ledger in ledgers:
        ledger.close()


Opened = Callable[[database.Patience], database.Database]


def writes_of(ledger: database.Database) -> list[str]:
    """Return a list that gets the statements that write rows."""
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *more: object) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            statements.append(statement)

    event.listen(ledger.engine, "before_cursor_execute", note)
    return statements


def limit_pages(ledger: database.Database) -> Callable[[], None]:
    """Let the file grow no more; return a function that ends that."""

    def limit(pages: int) -> None:
        with ledger.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    limit(1)  # SQLite takes the present size instead
    return lambda: limit(2**30)


def test_a_write_is_tried_once_in_an_interval_for_all_callers_and_leaves_nothing(opened: Opened) -> None:
    ledger = opened(database.Patience(write_interval=600.0))
    statements = writes_of(ledger)
    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ledger.require_writable(), range(40)))
    assert [statement.split()[0] for statement in statements] == ["INSERT", "DELETE"]
    with ledger.reading() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(models.WriteProbeRow)) == 0


def test_a_write_is_tried_again_after_the_interval(opened: Opened) -> None:
    ledger = opened(ALWAYS)
    statements = writes_of(ledger)
    for _ in range(3):
        ledger.require_writable()
    assert len(statements) == 6


def test_a_full_file_is_noticed_without_any_other_write_and_its_end_too(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ledger = opened(ALWAYS)
    grow = limit_pages(ledger)
    for _ in range(3):
        with pytest.raises(errors.DatabaseUnreachable, match=r"^the ledger cannot be written: .* full$"):
            ledger.require_writable()
    grow()
    ledger.require_writable()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith(f"The ledger in {ledger.engine.url} cannot be written: (sqlite3.OperationalError) ")
    assert lines[1] == "The ledger can be written again"
    assert ledger.returns == 1


def test_a_small_write_that_a_full_disk_takes_ends_nothing(opened: Opened) -> None:
    """Rows that are changed in place need no room: requests go on failing."""
    ledger = opened(database.Patience(write_interval=0.0, quiet=600.0))
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    with faults.failing(ledger.engine, "INSERT INTO backends", full):
        with pytest.raises(errors.DatabaseUnreachable):
            ledger.run(lambda session: session.add(models.Backend(name="h@b", driver="x")))
        with pytest.raises(errors.DatabaseUnreachable):
            ledger.require_writable()
    assert ledger.refusal is not None


def commit_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("it fails")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "error_class"),
    [(sqlite3.SQLITE_FULL, errors.LedgerRefusal), (sqlite3.SQLITE_IOERR_FSYNC, errors.DatabaseUnreachable)],
)
def test_a_refused_commit_has_no_effect_unless_the_disk_fails(
    opened: Opened, code: int, error_class: type[errors.TonnageError]
) -> None:
    ledger = opened(ALWAYS)

    def fail(connection: object) -> None:
        raise commit_error(code)

    event.listen(ledger.engine, "commit", fail)
    with pytest.raises(errors.DatabaseUnreachable) as caught:
        ledger.run(lambda session: session.add(models.Backend(name="h@b", driver="x")))
    assert type(caught.value) is error_class


def test_only_a_refused_write_has_certainly_no_effect(opened: Opened) -> None:
    """A caller that cannot read may have written before."""
    ledger = opened(ALWAYS)
    insert = sa.insert(models.Backend).values(name="h@b", driver="x")
    with faults.failing(ledger.engine, "backends", commit_error(sqlite3.SQLITE_IOERR)):
        with pytest.raises(errors.LedgerRefusal):
            ledger.run(lambda session: session.execute(insert))
        with pytest.raises(errors.DatabaseUnreachable) as caught, ledger.reading() as session:
            session.execute(sa.select(models.Backend.id))
    assert type(caught.value) is errors.DatabaseUnreachable


@pytest.mark.parametrize(
    "error", [RuntimeError("the driver breaks"), sqlite3.OperationalError("near INSERT: syntax error")]
)
def test_any_error_of_such_a_write_is_a_refusal(opened: Opened, error: Exception) -> None:
    ledger = opened(ALWAYS)
    with (
        faults.failing(ledger.engine, "INSERT INTO write_probes", error),
        pytest.raises(errors.DatabaseUnreachable, match=r"^the ledger cannot be written: "),
    ):
        ledger.require_writable()


def test_a_lock_of_another_process_is_none_and_is_not_waited_for(opened: Opened, tmp_path: pathlib.Path) -> None:
    ledger = opened(ALWAYS)
    other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Event()

    def probe() -> None:
        ledger.require_writable()
        done.set()

    thread = threading.Thread(target=probe)
    thread.start()
    assert done.wait(30), "the probe waits for the lock"
    thread.join()
    assert ledger.refusal is None
    other.close()

    def timeout(session: orm.Session) -> object:
        return session.scalar(sa.text("PRAGMA busy_timeout"))

    assert ledger.run(timeout) == 60_000
