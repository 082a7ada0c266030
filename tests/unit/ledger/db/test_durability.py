# SPDX-License-Identifier: Apache-2.0
"""Settings of database servers that lose answered decisions."""

import contextlib
import logging
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.servers.database import DatabaseServer
from tonnage.ledger.db import database, durability


@contextlib.contextmanager
def opened(url: str) -> Iterator[database.Database]:
    ledger = database.Database(database.create_engine(url), 0, 0, 0)
    try:
        yield ledger
    finally:
        ledger.close()


def weaknesses(url: str) -> list[str]:
    with opened(url) as ledger, ledger.reading() as session:
        return durability.find_weaknesses(session.connection())


def test_postgresql_without_fsync_is_warned_of(postgresql_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with opened(postgresql_url) as ledger:
        durability.warn(ledger)
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.message.startswith("The database is not durable: fsync is off: decisions that were answered are lost")


def test_mariadb_that_does_not_write_each_commit_is_warned_of(mariadb_server: DatabaseServer, mariadb_url: str) -> None:
    ((before,),) = mariadb_server.execute("SELECT @@innodb_flush_log_at_trx_commit")
    try:
        mariadb_server.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        [found] = weaknesses(mariadb_url)
        assert found.startswith("innodb_flush_log_at_trx_commit is 0: decisions")
        mariadb_server.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        assert weaknesses(mariadb_url) == []
    finally:
        mariadb_server.execute(f"SET GLOBAL innodb_flush_log_at_trx_commit = {before}")


def test_sqlite_is_durable(tmp_path: object) -> None:
    assert weaknesses(f"sqlite:///{tmp_path}/x") == []


@pytest.mark.parametrize(
    ("default", "used"), [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
)
def test_commits_wait_for_the_disk_and_for_standbys(postgresql_url: str, default: str, used: str) -> None:
    url = sa.make_url(postgresql_url).update_query_dict({"options": f"-c synchronous_commit={default}"})
    with opened(url.render_as_string(hide_password=False)) as ledger:
        assert ledger.run(lambda session: session.scalar(sa.text("SHOW synchronous_commit"))) == used
