# SPDX-License-Identifier: Apache-2.0
"""Errors of database servers, by their codes, and the transactions that run again after them."""

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers.base import wait_for
from tests.servers.postgresql import PostgreSQL
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
