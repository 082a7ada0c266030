# SPDX-License-Identifier: Apache-2.0
"""Errors of database servers, by their codes, and the transactions that run again after them."""

import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers.base import wait_for
from tests.servers.postgresql import PostgreSQL
from tonnage.capacity import errors
from tonnage.ledger.db import database, db_errors

Kind = Callable[[BaseException], bool]


def error_of(engine: sa.Engine, *statements: str) -> BaseException:
    """Return the error of the last of these statements in a transaction."""
    *first, last = statements
    with engine.connect() as connection:
        for statement in first:
            connection.exec_driver_sql(statement)
        with pytest.raises(Exception) as caught:  # noqa: PT011
            connection.exec_driver_sql(last)
        connection.invalidate()
    return caught.value


@pytest.fixture(scope="module")
def mariadb(mariadb_url: str) -> Iterator[sa.Engine]:
    engine = database.create_engine(mariadb_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def postgresql(postgresql_server: PostgreSQL) -> Iterator[sa.Engine]:
    with postgresql_server.database() as url:
        engine = database.create_engine(url)
        yield engine
        engine.dispose()


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (1047, db_errors.is_read_only),
        (1290, db_errors.is_read_only),
        (1836, db_errors.is_read_only),
        (1180, db_errors.is_away),
        (1927, db_errors.is_away),
        (4031, db_errors.is_away),
        (1205, db_errors.is_collision),
        (1213, db_errors.is_collision),
        (1317, db_errors.is_collision),
    ],
)
def test_errors_of_mariadb_are_recognised_by_their_number(mariadb: sa.Engine, number: int, kind: Kind) -> None:
    error = error_of(mariadb, f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}")
    assert kind(error), repr(error)
    assert db_errors.is_transient(error)
    assert db_errors.is_away(error) is not db_errors.is_collision(error)


def raising(sqlstate: str) -> str:
    return f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{sqlstate}'; END $$"


@pytest.mark.parametrize(
    ("statements", "kind"),
    [
        ([raising("25006")], db_errors.is_read_only),
        (["SET TRANSACTION READ ONLY", "CREATE TABLE t (id INT)"], db_errors.is_read_only),
        ([raising("25P03")], db_errors.is_away),
        ([raising("57P05")], db_errors.is_away),
        ([raising("40003")], db_errors.is_away),
        ([raising("57014")], db_errors.is_collision),
        (["SET LOCAL statement_timeout = 10", "SELECT pg_sleep(60)"], db_errors.is_collision),
    ],
)
def test_errors_of_postgresql_are_recognised_by_their_code(
    postgresql: sa.Engine, statements: list[str], kind: Kind
) -> None:
    error = error_of(postgresql, *statements)
    assert kind(error), repr(error)
    assert db_errors.is_transient(error)
    assert db_errors.is_away(error) is not db_errors.is_collision(error)


@pytest.fixture(scope="module")
def postgresql_tables(postgresql: sa.Engine) -> sa.Engine:
    with postgresql.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE entries (id INT PRIMARY KEY, name VARCHAR(5))")
        connection.exec_driver_sql("INSERT INTO entries VALUES (1, 'a')")
        connection.exec_driver_sql("CREATE ROLE stranger")
    return postgresql


@pytest.mark.parametrize(
    ("statements", "is_refusal"),
    [
        *[([raising(code)], True) for code in ("53000", "53100", "53200", "55000", "58030", "XX000", "XX001", "XX002")],
        (["SET ROLE stranger", "INSERT INTO entries VALUES (2, 'b')"], True),
        (["ALTER TABLE entries RENAME TO moved", "INSERT INTO entries VALUES (2, 'b')"], True),
        (["ALTER TABLE entries DROP COLUMN name", "UPDATE entries SET name = 'c'"], True),
        (["INSERT INTO entries VALUES (1, 'b')"], False),
        (["INSERT INTO entries VALUES (2, 'too long')"], False),
        (["INSERT INTO entries VALUES (NULL, 'b')"], False),
        (["INSERT INTO entries VALUES (2 / 0, 'b')"], False),
        (["INSERT INTO entries VALUE"], False),
        (["LOCK TABLE entries IN NONSENSE MODE"], False),
        ([raising("P0001")], False),
        ([raising("54000")], False),
        ([raising("40P01")], False),
        ([raising("57P01")], False),
    ],
)
def test_postgresql_refuses_what_no_statement_is_to_blame_for(
    postgresql_tables: sa.Engine, statements: list[str], is_refusal: bool
) -> None:
    error = error_of(postgresql_tables, *statements)
    assert db_errors.is_refusal(error) is is_refusal, repr(error)
    if is_refusal:
        assert not db_errors.is_transient(error)


@pytest.fixture(scope="module")
def mariadb_tables(mariadb: sa.Engine) -> Iterator[sa.Engine]:
    with mariadb.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE entries (id INT PRIMARY KEY, name VARCHAR(5) CHARACTER SET latin1, CHECK (id < 100))"
        )
        connection.exec_driver_sql("INSERT INTO entries VALUES (1, 'a')")
        connection.exec_driver_sql("CREATE TABLE moved LIKE entries")
        connection.exec_driver_sql("DROP TABLE moved")
    yield mariadb
    with mariadb.begin() as connection:
        connection.exec_driver_sql("DROP TABLE entries")


def signalling(number: int) -> str:
    return f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}"


@pytest.mark.parametrize(
    ("statement", "is_refusal"),
    [
        *[(signalling(number), True) for number in (1016, 1021, 1026, 1028, 1030, 1037, 1041, 1114, 1142, 1194, 1877)],
        ("INSERT INTO moved VALUES (2, 'b')", True),
        ("UPDATE entries SET label = 'c'", True),
        ("INSERT INTO entries VALUES (1, 'b')", False),
        ("INSERT INTO entries VALUES (2, 'too long')", False),
        ("INSERT INTO entries VALUES (2, 'т')", False),
        ("INSERT INTO entries VALUES (NULL, 'b')", False),
        ("INSERT INTO entries VALUES (100, 'b')", False),
        ("INSERT INTO entries VALUES (18446744073709551615 + 1, 'b')", False),
        ("INSERT INTO entries VALUE", False),
        ("SIGNAL SQLSTATE '45000'", False),
        (signalling(1213), False),
        (signalling(1205), False),
        (signalling(2006), False),
        (signalling(1040), False),
    ],
)
def test_mariadb_refuses_what_no_statement_is_to_blame_for(
    mariadb_tables: sa.Engine, statement: str, is_refusal: bool
) -> None:
    error = error_of(mariadb_tables, statement)
    assert db_errors.is_refusal(error) is is_refusal, repr(error)
    if is_refusal:
        assert not db_errors.is_transient(error)


@pytest.mark.parametrize(
    ("statement", "parameters", "words"),
    [
        ("INSERT INTO entries VALUES (2, :name)", {"name": "\u0442"}, r"name is '\u0442': a table of the ledger does"),
        ("SELECT 1 FROM entries WHERE name = :name_1", {"name_1": "\u0442"}, r"name is '\u0442': "),
        ("INSERT INTO entries VALUES (2, :name)", [{"name": "a"}, {"name": "\u0442"}], r"name is '\u0442': "),
        ("INSERT INTO entries VALUES (2, :name)", {"name": "too long"}, None),
        ("INSERT INTO entries VALUES (1, :name)", {"name": "\u00e9"}, None),
    ],
)
def test_a_text_that_a_table_does_not_take_is_named(
    mariadb_tables: sa.Engine, statement: str, parameters: Any, words: str | None
) -> None:
    with mariadb_tables.connect() as connection, pytest.raises(Exception) as caught:  # noqa: PT011
        connection.execute(sa.text(statement), parameters)
    refused_text = db_errors.refused_text(caught.value)
    assert (refused_text and refused_text.message[: len(words or "")]) == words
    assert not db_errors.is_refusal(caught.value)


def damage(file: pathlib.Path, first: int) -> None:
    """Overwrite a file of SQLite from a byte on."""
    content = file.read_bytes()
    file.write_bytes(content[:first] + b"x" * (len(content) - first))


@pytest.mark.parametrize(
    ("statements", "is_refusal"),
    [
        (["PRAGMA max_page_count = 1", "INSERT INTO entries VALUES (2, zeroblob(9000))"], True),
        (["PRAGMA query_only = 1", "INSERT INTO entries VALUES (2, 'b')"], True),
        (["ALTER TABLE entries RENAME TO moved", "INSERT INTO entries VALUES (2, 'b')"], True),
        (["ALTER TABLE entries DROP COLUMN name", "UPDATE entries SET name = 'c'"], True),
        (["ALTER TABLE entries DROP COLUMN name", "SELECT entries.name FROM entries"], True),
        (["INSERT INTO entries VALUES (1, 'b')"], False),
        (["INSERT INTO entries VALUES (2, NULL)"], False),
        (["INSERT INTO entries VALUES ('c', 'b')"], False),
        (["INSERT INTO entries VALUE"], False),
        (["SELECT 1 FROM entries WHERE name LIKE '" + "%x" * 30_000 + "'"], False),
        (["SELECT " + "1 + " * 1_500 + "1"], False),
        (["SELECT zeroblob(2000000000)"], False),
    ],
)
def test_sqlite_refuses_what_no_statement_is_to_blame_for(
    tmp_path: pathlib.Path, statements: list[str], is_refusal: bool
) -> None:
    engine = entries(tmp_path / "x")
    error = error_of(engine, *statements)
    engine.dispose()
    assert db_errors.is_refusal(error) is is_refusal, repr(error)
    if is_refusal:
        assert not db_errors.is_transient(error)


def entries(file: pathlib.Path) -> sa.Engine:
    """Return an engine of a file with a table of one row; all is in the file, and none in its log."""
    engine = database.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE entries (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        connection.exec_driver_sql("INSERT INTO entries VALUES (1, 'a')")
    engine.dispose()
    return engine


@pytest.mark.parametrize(("first", "words"), [(0, "file is not a database"), (100, "malformed"), (4096, "malformed")])
@pytest.mark.parametrize("statement", ["SELECT * FROM entries", "UPDATE entries SET name = 'b'"])
def test_a_damaged_file_of_sqlite_is_a_refusal(tmp_path: pathlib.Path, first: int, words: str, statement: str) -> None:
    ledger = database.Database(entries(tmp_path / "x"))
    damage(tmp_path / "x", first)
    words = rf"^the ledger cannot be written: .*{words}"
    with pytest.raises(errors.DatabaseUnreachable, match=words), ledger.reading() as session:
        session.execute(sa.text(statement))
    with pytest.raises(errors.DatabaseUnreachable, match=words):
        ledger.run(lambda session: session.execute(sa.text(statement)) and None)
    ledger.close()
    assert ledger.refusal is not None


def test_a_file_of_sqlite_that_cannot_be_opened_is_a_refusal(tmp_path: pathlib.Path) -> None:
    ledger = database.Database(database.create_engine(f"sqlite:///{tmp_path}"))
    with pytest.raises(errors.DatabaseUnreachable, match="unable to open database file"), ledger.reading():
        pass


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_refusal_ends_with_a_write_after_some_time_without_another(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    connectivity = db_errors.Connectivity("sqlite:////x", quiet=10.0, clock=clock)
    connectivity.record_write()
    assert connectivity.returns == 0
    for seconds in (1.0, 9.0, 9.0):
        connectivity.record_refusal(RuntimeError("full\nINSERT INTO ..."))
        clock.now += seconds
        connectivity.record_write()
        assert connectivity.refusal == "full"
        with pytest.raises(errors.DatabaseUnreachable, match=r"^the ledger cannot be written: full$"):
            connectivity.require_usable()
    clock.now += 1.0
    connectivity.record_write()
    connectivity.record_write()
    connectivity.require_usable()
    assert (connectivity.refusal, connectivity.returns) == (None, 1)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "The ledger in sqlite:////x cannot be written: full; requests that need it fail until it can"),
        ("INFO", "The ledger can be written again"),
    ]


def test_a_server_that_takes_no_writes_but_says_so_refuses(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A node of Galera without its cluster may answer queries. That is no outage that ends with each query."""
    caplog.set_level(logging.INFO)
    ledger = database.Database(entries(tmp_path / "x"), max_retries=2, retry_interval=0)
    attempts: list[None] = []

    def work(session: orm.Session) -> None:
        attempts.append(None)
        cause = pymysql.OperationalError(1047, "WSREP has not yet prepared node for application use")
        raise sa.exc.OperationalError("UPDATE", None, cause) from cause

    for number in range(3):
        with pytest.raises(errors.DatabaseUnreachable):
            ledger.run(work)
        assert len(attempts) == 3 + number
        with ledger.reading():
            assert ledger.refusal is not None
        assert not ledger.away
    ledger.close()
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "ERROR"]


@pytest.mark.parametrize("parameter", ["idle_in_transaction_session_timeout", "idle_session_timeout"])
def test_a_session_that_was_idle_for_too_long_is_away(postgresql: sa.Engine, parameter: str) -> None:
    def ended(session: int) -> bool:
        with postgresql.connect() as other:
            alive = f"SELECT COUNT(*) FROM pg_stat_activity WHERE pid = {session}"
            return other.exec_driver_sql(alive).scalar() == 0

    with postgresql.connect() as idle:
        session = idle.exec_driver_sql(f"SELECT pg_backend_pid(), set_config('{parameter}', '10', false)").scalar()
        if parameter == "idle_session_timeout":
            idle.commit()
        wait_for(lambda: ended(session), "the server has ended the session")
        with pytest.raises(Exception) as caught:  # noqa: PT011
            idle.exec_driver_sql("SELECT 1")
    assert db_errors.is_away(caught.value), repr(caught.value)
    assert not db_errors.is_collision(caught.value)


@pytest.mark.parametrize(("sqlstate", "may_be_committed"), [("40003", True), ("57014", False)])
def test_a_transaction_runs_again_after_an_error_of_its_commit(
    postgresql_server: PostgreSQL, sqlstate: str, may_be_committed: bool
) -> None:
    attempts: list[bool] = []

    def work(session: orm.Session) -> None:
        attempts.append(database.may_be_committed(session))
        session.execute(sa.text("INSERT INTO entries VALUES (1)"))

    with postgresql_server.database() as url:
        ledger = database.Database(database.create_engine(url), retry_interval=0)
        with ledger.engine.begin() as connection:
            for statement in (
                "CREATE TABLE entries (id INT)",
                "CREATE SEQUENCE commits",
                "CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF nextval('commits') = 1 THEN RAISE EXCEPTION USING ERRCODE = '{sqlstate}'; END IF; RETURN NULL;"
                " END $$",
                "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON entries DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION fail_once()",
            ):
                connection.exec_driver_sql(statement)
        try:
            ledger.run(work)
            with ledger.reading() as session:
                assert session.scalar(sa.text("SELECT COUNT(*) FROM entries")) == 1
        finally:
            ledger.close()
    assert attempts == [False, may_be_committed]


def test_a_server_that_refuses_the_account_is_away(mariadb_url: str) -> None:
    """A password may change while processes run; the new one is in their configuration soon."""
    engine = database.create_engine(sa.make_url(mariadb_url).set(username="nobody", password="wrong"))  # noqa: S106
    with pytest.raises(Exception) as caught, engine.connect():  # noqa: PT011
        pass
    engine.dispose()
    assert db_errors.is_away(caught.value)
