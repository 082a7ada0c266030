# SPDX-License-Identifier: Apache-2.0
import datetime
from dataclasses import replace

import pytest
import sqlalchemy as sa

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.inventory import heartbeats
from tonnage.scheduler.cluster.membership import Peers
from tonnage.scheduler.settings import Settings

BACKEND = "host@backend"


@pytest.fixture
def peers(ledger: database.Database, settings: Settings) -> Peers:
    peers = Peers(settings, ledger, 10.0)
    peers.join()
    return look(peers, ledger)


def look(peers: Peers, ledger: database.Database, *others: str) -> Peers:
    """Let the peers look while these others are there as well."""
    for host in others:
        other = heartbeats.Myself(binary=heartbeats.SCHEDULER, host=host)
        ledger.run(heartbeats.heartbeat, other)
    with ledger.reading() as session:
        peers.look(session)
    return peers


def test_a_scheduler_that_has_not_looked_does_not_take_itself_for_alone(
    ledger: database.Database, settings: Settings
) -> None:
    assert not Peers(settings, ledger, 10.0).alone


def test_who_is_alone_knows_it(peers: Peers, ledger: database.Database) -> None:
    assert peers.alone
    assert not look(peers, ledger, "there").alone


def test_who_was_alone_finds_out_who_has_come_before_the_next_look(peers: Peers, ledger: database.Database) -> None:
    def is_alone() -> bool:
        with ledger.reading() as session:
            return peers.is_alone(session)

    assert is_alone()
    ledger.run(heartbeats.heartbeat, heartbeats.Myself(binary=heartbeats.SCHEDULER, host="there"))
    assert peers.alone
    assert not is_alone()
    ages_ago = sa.update(models.Service).values(last_seen_at=datetime.datetime(2000, 1, 1))  # noqa: DTZ001
    ledger.run(lambda session: session.execute(ages_ago))
    assert is_alone()


def test_who_has_not_heard_others_for_a_while_is_not_alone(peers: Peers, ledger: database.Database) -> None:
    """They may have been suspended, or the database may have been away for all."""
    look(peers, ledger, "there")

    def silent(seconds: float) -> None:
        then = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(seconds=seconds)
        ledger.run(lambda session: session.execute(sa.update(models.Service).values(last_seen_at=then)))

    silent(300)
    assert not look(peers, ledger).alone
    assert peers.has_turn(BACKEND), "it may be long until they are back"
    silent(7200)
    assert look(peers, ledger).alone, "gone for hours"


def test_each_backend_is_one_schedulers_turn(peers: Peers, ledger: database.Database) -> None:
    names = [f"host{number}@backend" for number in range(300)]
    assert all(peers.has_turn(name) for name in names), "who is alone has every turn"
    look(peers, ledger, "there")
    of_two = {name for name in names if peers.has_turn(name)}
    look(peers, ledger, "elsewhere")
    of_three = {name for name in names if peers.has_turn(name)}
    assert 60 < len(of_three) < 140
    assert of_three < of_two, "when one goes, the others share its turns"


def test_a_disabled_scheduler_leaves_its_turns_to_others(
    peers: Peers, ledger: database.Database, settings: Settings
) -> None:
    look(peers, ledger, "there")
    for host, mine in ((settings.host, False), ("there", True)):
        ledger.run(heartbeats.set_scheduler_state, host, enabled=False, reason="slow")
        look(peers, ledger)
        names = [f"host{number}@backend" for number in range(100)]
        turns = {name for name in names if peers.has_turn(name)}
        # If nobody is enabled they share as if all were.
        assert (0 < len(turns) < 100) if mine else not turns
    ledger.run(heartbeats.set_scheduler_state, settings.host, enabled=True, reason=None)
    look(peers, ledger)
    assert all(peers.has_turn(name) for name in names)
    peers.heartbeat()
    with ledger.reading() as session:
        [row] = [row for row in heartbeats.load(session) if row.host == "there"]
    assert (row.enabled, row.disabled_reason) == (False, "slow"), "a sign of life changes nothing of it"


def test_a_scheduler_with_other_rules_does_not_join(
    peers: Peers, ledger: database.Database, settings: Settings
) -> None:
    other = Peers(replace(settings, host="there", default_ratio=2.0), ledger, 10.0)
    with pytest.raises(errors.ConfigurationError):
        other.join()
    peers.join()
