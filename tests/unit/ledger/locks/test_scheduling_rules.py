# SPDX-License-Identifier: Apache-2.0
"""Changes of the rules that all schedulers share."""

import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.ledger.db import database
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import heartbeats, scheduling_rules


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


def process(
    host: str, ratio: str = "20.0", calculation: str = "cinder", hook_extensions: str = ""
) -> heartbeats.SchedulerProcess:
    return heartbeats.SchedulerProcess(
        binary=heartbeats.SCHEDULER,
        host=host,
        default_ratio=ratio,
        calculation=calculation,
        hook_extensions=hook_extensions,
    )


def expire_heartbeat(ledger: database.Database, host: str) -> None:
    with ledger.engine.begin() as connection:
        expire = sa.text("UPDATE services SET last_seen_at = '2020-01-01 00:00:00' WHERE host = :host")
        connection.execute(expire, {"host": host})


def current_rules(ledger: database.Database) -> scheduling_rules.Rules | None:
    with ledger.reading() as session:
        return scheduling_rules.find(session)


def generations(ledger: database.Database) -> list[int]:
    with ledger.engine.connect() as connection:
        return list(connection.scalars(sa.text("SELECT rules_generation FROM backends ORDER BY id")))


def proposals(ledger: database.Database) -> dict[str, str | None]:
    with ledger.reading() as session:
        return {row.host: row.default_ratio for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER}


def test_a_starting_scheduler_needs_the_rules_of_the_running_ones(ledger: database.Database) -> None:
    assert current_rules(ledger) is None
    assert ledger.run(scheduling_rules.register_scheduler, process("one"), 60.0) == 0
    assert ledger.run(scheduling_rules.register_scheduler, process("two"), 60.0) == 0
    for other, option in (
        (process("three", "auto"), "ratio is auto"),
        (process("three", calculation="standard"), "standard"),
        (process("three", hook_extensions="announcements"), "option enabled_extensions is announcements"),
    ):
        with pytest.raises(errors.ConfigurationError, match=rf"{option} here and .* on scheduler one, which is up"):
            ledger.run(scheduling_rules.register_scheduler, other, 60.0)
    assert proposals(ledger) == {"one": "20.0", "two": "20.0"}, "who does not start leaves no trace"
    assert current_rules(ledger) == scheduling_rules.Rules("20.0", "cinder", "", 0)


def test_a_proposal_is_not_a_rule(ledger: database.Database) -> None:
    ledger.run(scheduling_rules.register_scheduler, process("one"), 60.0)
    ledger.run(scheduling_rules.register_scheduler, process("two"), 60.0)
    assert ledger.run(scheduling_rules.propose_rules, process("one", "5.0"), 60.0).differences
    with pytest.raises(errors.ConfigurationError, match=r"is 5.0 here and 20.0 on scheduler"):
        ledger.run(scheduling_rules.register_scheduler, process("three", "5.0"), 60.0)
    assert ledger.run(scheduling_rules.register_scheduler, process("three"), 60.0) == 0


def test_a_scheduler_that_starts_alone_sets_the_rules(ledger: database.Database) -> None:
    ledger.run(scheduling_rules.register_scheduler, process("one"), 60.0)
    ledger.run(scheduling_rules.register_scheduler, process("two"), 60.0)
    ledger.run(backends.hello, "h@b", "n", "nova", "memory")
    expire_heartbeat(ledger, "one")
    ledger.run(heartbeats.leave, process("two"))
    assert ledger.run(scheduling_rules.register_scheduler, process("two", "auto"), 60.0) == 1
    assert current_rules(ledger) == scheduling_rules.Rules("auto", "cinder", "", 1)
    assert generations(ledger) == [1]
    ledger.run(backends.hello, "h@c", "n", "nova", "memory")
    assert generations(ledger) == [1, 1]
    with pytest.raises(errors.ConfigurationError, match=r"is 20.0 here and auto on scheduler two"):
        ledger.run(scheduling_rules.register_scheduler, process("three"), 60.0)
    assert (
        ledger.run(scheduling_rules.register_scheduler, process("two", "auto"), 60.0) == 1
    )  # the same scheduler restarts, and nothing changes


def test_a_proposal_is_accepted_once_all_running_schedulers_agree(ledger: database.Database) -> None:
    for host in ("one", "two", "gone"):
        ledger.run(scheduling_rules.register_scheduler, process(host), 60.0)
    ledger.run(backends.hello, "h@b", "n", "nova", "memory")
    expire_heartbeat(ledger, "gone")
    [difference] = ledger.run(scheduling_rules.propose_rules, process("one", "5.0"), 60.0).differences
    assert str(difference) == "option max_over_subscription_ratio is 5.0 here and 20.0 on scheduler two, which is up"
    # A withdrawn proposal leaves no trace.
    vote = ledger.run(scheduling_rules.propose_rules, process("one", "5.0"), 60.0, process("one"))
    assert (list(vote.differences), proposals(ledger)["one"]) == ([difference], "20.0")
    [difference] = ledger.run(scheduling_rules.propose_rules, process("two", "5.0"), 60.0).differences
    assert difference.theirs == "20.0"
    assert (current_rules(ledger), generations(ledger)) == (scheduling_rules.Rules("20.0", "cinder", "", 0), [0])
    # The last proposal makes them the rules.
    assert ledger.run(
        scheduling_rules.propose_rules, process("one", "5.0"), 60.0, process("one")
    ) == scheduling_rules.Vote(1, [])
    assert (current_rules(ledger), generations(ledger)) == (scheduling_rules.Rules("5.0", "cinder", "", 1), [1])


def test_an_accepted_proposal_cannot_be_withdrawn(ledger: database.Database) -> None:
    for host in ("one", "two", "three"):
        ledger.run(scheduling_rules.register_scheduler, process(host), 60.0)
    expire_heartbeat(ledger, "three")
    assert ledger.run(scheduling_rules.propose_rules, process("one", "5.0"), 60.0).differences
    assert not ledger.run(scheduling_rules.propose_rules, process("two", "5.0"), 60.0).differences
    ledger.run(heartbeats.heartbeat, process("three"))  # it wakes up with the old rules
    assert ledger.run(
        scheduling_rules.propose_rules, process("one", "5.0"), 60.0, process("one")
    ) == scheduling_rules.Vote(1, ())
    assert proposals(ledger) == {"one": "5.0", "two": "5.0", "three": "20.0"}


def test_require_accepts_the_current_generation_only(ledger: database.Database) -> None:
    ledger.run(scheduling_rules.require_generation, 0)
    ledger.run(scheduling_rules.register_scheduler, process("one"), 60.0)
    ledger.run(scheduling_rules.require_generation, 0)
    ledger.run(scheduling_rules.propose_rules, process("one", "5.0"), 60.0)
    ledger.run(scheduling_rules.require_generation, 1)
    with pytest.raises(scheduling_rules.RulesChanged):
        ledger.run(scheduling_rules.require_generation, 0)
    assert ledger.run(scheduling_rules.lock_shared) == 1


def test_extensions_in_transactions_become_the_rule_of_the_only_scheduler(ledger: database.Database) -> None:
    ledger.run(scheduling_rules.register_scheduler, process("one"), 60.0)
    ledger.run(heartbeats.leave, process("one"))
    ledger.run(scheduling_rules.register_scheduler, process("one", hook_extensions="announcements"), 60.0)
    assert current_rules(ledger) == scheduling_rules.Rules("20.0", "cinder", "announcements", 1)
