# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of schedulers."""

import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tonnage.ledger.db import database
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import heartbeats

LONG_AGO = "'2020-01-01 00:00:00'"


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


def test_a_running_scheduler_of_the_previous_release_counts_as_listening(ledger: database.Database) -> None:
    """A process of this release had run for a while, and was stopped long ago."""
    ledger.run(
        heartbeats.heartbeat, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host="tried", listening=True)
    )
    with ledger.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE services SET last_seen_at = {LONG_AGO}, last_listened_at = {LONG_AGO}"))
    with ledger.reading() as session:
        assert (backends.seconds_without_listener(session, heartbeats.SCHEDULER) or 0) > 1e8
    ledger.run(heartbeats.heartbeat, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host="old"))
    with ledger.reading() as session:
        assert (backends.seconds_without_listener(session, heartbeats.SCHEDULER) or 0) < 60


def test_schedulers_that_are_gone_are_deleted_after_a_month(ledger: database.Database) -> None:
    for host in ("gone", "disabled", "up"):
        ledger.run(heartbeats.heartbeat, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host=host))
    with ledger.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE services SET last_seen_at = {LONG_AGO} WHERE host <> 'up'"))
        connection.execute(sa.text("UPDATE services SET enabled = FALSE WHERE host = 'disabled'"))
    assert ledger.run(heartbeats.purge) == 1
    with ledger.reading() as session:
        assert {row.host for row in heartbeats.load(session)} == {"disabled", "up"}


def test_a_scheduler_that_ends_leaves_another_with_the_same_host(ledger: database.Database) -> None:
    before, after = (
        heartbeats.SchedulerProcess(
            binary=heartbeats.SCHEDULER, host="one", nonce=nonce, default_ratio="20.0", calculation="cinder"
        )
        for nonce in ("before", "after")
    )
    ledger.run(heartbeats.heartbeat, before)
    ledger.run(heartbeats.heartbeat, after)
    for process, ratio in ((before, "20.0"), (after, None)):
        ledger.run(heartbeats.leave, process)
        with ledger.reading() as session:
            assert [row.default_ratio for row in heartbeats.load(session)] == [ratio]
