# SPDX-License-Identifier: Apache-2.0
import datetime
from dataclasses import replace

import pytest
import sqlalchemy as sa

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.locks import heartbeats
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.configuration.settings import Settings

BACKEND = "host@backend"


@pytest.fixture
def membership(ledger: database.Database, settings: Settings) -> Membership:
    membership = Membership(settings, ledger, 10.0)
    membership.join()
    return look(membership, ledger)


def look(membership: Membership, ledger: database.Database, *others: str) -> Membership:
    """Let the membership look while these others are there as well."""
    for host in others:
        other = heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host=host)
        ledger.run(heartbeats.heartbeat, other)
    with ledger.reading() as session:
        membership.refresh(session)
    return membership


def test_a_scheduler_is_not_alone_before_the_first_refresh(ledger: database.Database, settings: Settings) -> None:
    assert not Membership(settings, ledger, 10.0).alone


def test_a_scheduler_without_others_is_alone(membership: Membership, ledger: database.Database) -> None:
    assert membership.alone
    assert not look(membership, ledger, "there").alone


def test_a_lone_scheduler_finds_a_new_one_before_the_next_refresh(
    membership: Membership, ledger: database.Database
) -> None:
    def is_alone() -> bool:
        with ledger.reading() as session:
            return membership.is_alone(session)

    assert is_alone()
    ledger.run(heartbeats.heartbeat, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host="there"))
    assert membership.alone
    assert not is_alone()
    ages_ago = sa.update(models.Service).values(last_seen_at=datetime.datetime(2000, 1, 1))  # noqa: DTZ001
    ledger.run(lambda session: session.execute(ages_ago))
    assert is_alone()


def test_two_schedulers_with_one_host_know_that_they_are_not_alone(
    membership: Membership, ledger: database.Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    def is_alone(one: Membership) -> bool:
        with ledger.reading() as session:
            return one.is_alone(session)

    assert is_alone(membership)
    second = Membership(settings, ledger, 10.0)
    second.join()
    assert not look(second, ledger).alone
    assert membership.alone
    assert not is_alone(membership), "before its next refresh"
    for _ in range(2):
        membership.heartbeat()
        assert "give each a host of its own" in caplog.text
        assert not look(membership, ledger).alone
        caplog.clear()
        second.heartbeat()
        assert "give each a host of its own" in caplog.text
        assert not look(second, ledger).alone
        caplog.clear()


def test_a_scheduler_that_follows_a_stopped_one_is_alone(
    membership: Membership, ledger: database.Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    membership.leave()
    next_one = Membership(settings, ledger, 10.0)
    next_one.join()
    assert look(next_one, ledger).alone
    next_one.heartbeat()
    assert caplog.text == ""


def test_a_scheduler_that_has_left_does_not_come_back_with_the_rest_of_its_start(
    membership: Membership, ledger: database.Database
) -> None:
    membership.leave()
    membership.heartbeat()
    membership.join()
    with ledger.reading() as session:
        [row] = heartbeats.load(session)
    assert row.default_ratio is None


def test_a_scheduler_is_not_alone_after_a_short_silence_of_the_others(
    membership: Membership, ledger: database.Database
) -> None:
    """They may have been suspended, or the database may have been away for all."""
    look(membership, ledger, "there")

    def silent(seconds: float) -> None:
        then = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(seconds=seconds)
        ledger.run(lambda session: session.execute(sa.update(models.Service).values(last_seen_at=then)))

    silent(300)
    assert not look(membership, ledger).alone
    assert membership.has_turn(BACKEND), "it may be long until they are back"
    silent(7200)
    assert look(membership, ledger).alone, "gone for hours"


def test_each_backend_is_the_turn_of_one_scheduler(membership: Membership, ledger: database.Database) -> None:
    names = [f"host{number}@backend" for number in range(300)]
    assert all(membership.has_turn(name) for name in names), "who is alone has every turn"
    look(membership, ledger, "there")
    of_two = {name for name in names if membership.has_turn(name)}
    look(membership, ledger, "elsewhere")
    of_three = {name for name in names if membership.has_turn(name)}
    assert 60 < len(of_three) < 140
    assert of_three < of_two, "when one goes, the others share its turns"


def test_a_disabled_scheduler_leaves_its_turns_to_others(
    membership: Membership, ledger: database.Database, settings: Settings
) -> None:
    look(membership, ledger, "there")
    for host, mine in ((settings.host, False), ("there", True)):
        ledger.run(heartbeats.set_scheduler_state, host, enabled=False, reason="slow")
        look(membership, ledger)
        names = [f"host{number}@backend" for number in range(100)]
        turns = {name for name in names if membership.has_turn(name)}
        # If nobody is enabled they share as if all were.
        assert (0 < len(turns) < 100) if mine else not turns
    ledger.run(heartbeats.set_scheduler_state, settings.host, enabled=True, reason=None)
    look(membership, ledger)
    assert all(membership.has_turn(name) for name in names)
    membership.heartbeat()
    with ledger.reading() as session:
        [row] = [row for row in heartbeats.load(session) if row.host == "there"]
    assert (row.enabled, row.disabled_reason) == (False, "slow"), "a sign of life changes nothing of it"


def test_a_scheduler_with_other_rules_does_not_join(
    membership: Membership, ledger: database.Database, settings: Settings
) -> None:
    other = Membership(replace(settings, host="there", default_ratio=2.0), ledger, 10.0)
    with pytest.raises(errors.ConfigurationError):
        other.join()
    membership.join()
