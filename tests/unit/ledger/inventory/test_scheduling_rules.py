# SPDX-License-Identifier: Apache-2.0
"""The rules that all schedulers share: who may change them, and when."""

import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tonnage.capacity import errors
from tonnage.ledger.db import database, schema
from tonnage.ledger.inventory import backends, heartbeats, scheduling_rules


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    schema.sync(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


def me(host: str, ratio: str = "20.0", calculation: str = "cinder") -> heartbeats.Myself:
    return heartbeats.Myself(binary=heartbeats.SCHEDULER, host=host, default_ratio=ratio, calculation=calculation)


def silence(ledger: database.Database, host: str) -> None:
    with ledger.engine.begin() as connection:
        asleep = sa.text("UPDATE services SET last_seen_at = '2020-01-01 00:00:00' WHERE host = :host")
        connection.execute(asleep, {"host": host})


def found(ledger: database.Database) -> scheduling_rules.Rules | None:
    with ledger.reading() as session:
        return scheduling_rules.find(session)


def stamps(ledger: database.Database) -> list[int]:
    with ledger.engine.connect() as connection:
        return list(connection.scalars(sa.text("SELECT rules_generation FROM backends ORDER BY id")))


def said(ledger: database.Database) -> dict[str, str | None]:
    with ledger.reading() as session:
        return {row.host: row.default_ratio for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER}


def test_who_starts_has_to_go_by_the_rules_of_those_that_are_up(ledger: database.Database) -> None:
    assert found(ledger) is None
    assert ledger.run(scheduling_rules.join, me("one"), 60.0) == 0
    assert ledger.run(scheduling_rules.join, me("two"), 60.0) == 0
    for other, option in ((me("three", "auto"), "ratio is auto"), (me("three", calculation="standard"), "standard")):
        with pytest.raises(errors.ConfigurationError, match=rf"{option} here and .* on scheduler one, which is up"):
            ledger.run(scheduling_rules.join, other, 60.0)
    assert said(ledger) == {"one": "20.0", "two": "20.0"}, "who does not start leaves no trace"
    assert found(ledger) == scheduling_rules.Rules("20.0", "cinder", 0)


def test_what_counts_is_the_rules_and_not_what_somebody_says(ledger: database.Database) -> None:
    ledger.run(scheduling_rules.join, me("one"), 60.0)
    ledger.run(scheduling_rules.join, me("two"), 60.0)
    assert ledger.run(scheduling_rules.propose, me("one", "5.0"), 60.0).differences
    with pytest.raises(errors.ConfigurationError, match=r"is 5.0 here and 20.0 on scheduler"):
        ledger.run(scheduling_rules.join, me("three", "5.0"), 60.0)
    assert ledger.run(scheduling_rules.join, me("three"), 60.0) == 0


def test_the_only_one_that_starts_makes_its_rules_everybodys(ledger: database.Database) -> None:
    ledger.run(scheduling_rules.join, me("one"), 60.0)
    ledger.run(scheduling_rules.join, me("two"), 60.0)
    ledger.run(backends.hello, "h@b", "n", "nova", "memory")
    silence(ledger, "one")
    ledger.run(heartbeats.leave, heartbeats.SCHEDULER, "two")
    assert ledger.run(scheduling_rules.join, me("two", "auto"), 60.0) == 1
    assert found(ledger) == scheduling_rules.Rules("auto", "cinder", 1)
    assert stamps(ledger) == [1]
    ledger.run(backends.hello, "h@c", "n", "nova", "memory")
    assert stamps(ledger) == [1, 1]
    with pytest.raises(errors.ConfigurationError, match=r"is 20.0 here and auto on scheduler two"):
        ledger.run(scheduling_rules.join, me("three"), 60.0)
    assert (
        ledger.run(scheduling_rules.join, me("two", "auto"), 60.0) == 1
    )  # itself, started anew, with nothing to change


def test_a_proposal_counts_once_all_that_are_up_say_the_same(ledger: database.Database) -> None:
    for host in ("one", "two", "gone"):
        ledger.run(scheduling_rules.join, me(host), 60.0)
    ledger.run(backends.hello, "h@b", "n", "nova", "memory")
    silence(ledger, "gone")
    [difference] = ledger.run(scheduling_rules.propose, me("one", "5.0"), 60.0).differences
    assert str(difference) == "option max_over_subscription_ratio is 5.0 here and 20.0 on scheduler two, which is up"
    # Withdrawn, it is as if nothing had been said.
    vote = ledger.run(scheduling_rules.propose, me("one", "5.0"), 60.0, me("one"))
    assert (list(vote.differences), said(ledger)["one"]) == ([difference], "20.0")
    [difference] = ledger.run(scheduling_rules.propose, me("two", "5.0"), 60.0).differences
    assert difference.theirs == "20.0"
    assert (found(ledger), stamps(ledger)) == (scheduling_rules.Rules("20.0", "cinder", 0), [0])
    # The last one to say so makes them the rules.
    assert ledger.run(scheduling_rules.propose, me("one", "5.0"), 60.0, me("one")) == scheduling_rules.Vote(1, [])
    assert (found(ledger), stamps(ledger)) == (scheduling_rules.Rules("5.0", "cinder", 1), [1])


def test_nobody_withdraws_what_has_become_the_rules(ledger: database.Database) -> None:
    for host in ("one", "two", "three"):
        ledger.run(scheduling_rules.join, me(host), 60.0)
    silence(ledger, "three")
    assert ledger.run(scheduling_rules.propose, me("one", "5.0"), 60.0).differences
    assert not ledger.run(scheduling_rules.propose, me("two", "5.0"), 60.0).differences
    ledger.run(heartbeats.heartbeat, me("three"))  # it wakes up, and nobody has told it
    assert ledger.run(scheduling_rules.propose, me("one", "5.0"), 60.0, me("one")) == scheduling_rules.Vote(1, ())
    assert said(ledger) == {"one": "5.0", "two": "5.0", "three": "20.0"}


def test_rules_are_required_as_they_were_found(ledger: database.Database) -> None:
    ledger.run(scheduling_rules.require, 0)
    ledger.run(scheduling_rules.join, me("one"), 60.0)
    ledger.run(scheduling_rules.require, 0)
    ledger.run(scheduling_rules.propose, me("one", "5.0"), 60.0)
    ledger.run(scheduling_rules.require, 1)
    with pytest.raises(scheduling_rules.RulesChanged):
        ledger.run(scheduling_rules.require, 0)
    assert ledger.run(scheduling_rules.hold) == 1
