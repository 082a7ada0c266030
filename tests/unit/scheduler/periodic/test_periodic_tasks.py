# SPDX-License-Identifier: Apache-2.0
import datetime
import logging
import sqlite3
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers.base import wait_for
from tests.unit.ledger import faults
from tests.unit.scheduler import managers
from tests.unit.scheduler.conftest import Clock
from tests.unit.scheduler.world import BACKEND, Agent, StoragePool
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.ledger import models
from tonnage.ledger.claims import request_keys
from tonnage.ledger.db import database, dialects
from tonnage.ledger.locks import heartbeats, scheduling_rules
from tonnage.rpc.messages import Hello, PoolQuery
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.manager import SchedulerManager

#: The beginning of the statement with which a scheduler says that it is up.
HEARTBEAT = "UPDATE services"


@pytest.fixture(autouse=True)
def at_home(run_periodic_tasks: Callable[[], None]) -> None:
    """Everybody has looked around once."""
    run_periodic_tasks()


def state(core: SchedulerManager) -> Any:
    [pool] = core.get_pools(PoolQuery())
    return pool.capabilities["backend_state"]


def forget_reports(ledger: database.Database) -> None:
    """Let no other scheduler have heard the backends either."""
    ages_ago = sa.update(models.Backend).values(last_report_at=datetime.datetime(2000, 1, 1))  # noqa: DTZ001
    ledger.run(lambda session: session.execute(ages_ago) and None)


def test_no_backend_is_down_because_the_scheduler_did_not_listen(
    core: SchedulerManager,
    thread: DecisionThread,
    settings: Settings,
    clock: Clock,
    run_periodic_tasks: Callable[[], None],
) -> None:
    def stall(items: Sequence[None]) -> list[None]:
        clock.now += settings.service_down_time + 30
        return [None] * len(items)

    thread.call(stall, None)
    run_periodic_tasks()
    assert state(core) == "up"


@pytest.mark.parametrize("alone_before", [True, False])
def test_a_lone_scheduler_reads_counters_that_were_repaired_by_hand(
    core: SchedulerManager,
    ledger: database.Database,
    clock: Clock,
    join: Callable[[], None],
    run_periodic_tasks: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    alone_before: bool,
) -> None:
    """Of some pools after the others, and of all when the last other scheduler has gone."""
    agent = Agent({f"p{number}": StoragePool(20, 2.0, thin=True, thick=False) for number in range(3)})
    hello = Hello(backend=BACKEND, nonce="another", availability_zone="nova", driver="memory")
    agent.epoch = core.hello(hello).epoch
    core.report(PackedReport.of(agent.look()))
    monkeypatch.setattr(dialects, "CHUNK_SIZE", 2)

    def allocated() -> list[Any]:
        return [pool.capabilities["allocated_capacity_gb"] for pool in core.get_pools(PoolQuery())]

    def mend(size: int) -> None:
        mended = sa.update(models.Pool).values(allocated_capacity_gb=size)
        ledger.run(lambda session: session.execute(mended) and None)

    def sweep() -> list[Any]:
        clock.now += 10
        run_periodic_tasks()
        return allocated()

    wait_for(lambda: len(allocated()) == 3, "the report is applied")
    join()
    assert sweep() == [0, 0, 0]
    ages_ago = datetime.datetime(2000, 1, 1)  # noqa: DTZ001
    gone = sa.update(models.Service).where(models.Service.host == "other").values(last_seen_at=ages_ago)
    ledger.run(lambda session: session.execute(gone) and None)
    if alone_before:
        assert sweep() == [0, 0, 0]
    mend(7)
    assert allocated() == [0, 0, 0]
    if alone_before:
        assert [sweep() for _ in range(2)] == [[7, 7, 0], [7, 7, 7]]
        mend(8)
        assert sweep() == [8, 8, 7]
    else:
        assert sweep() == [7, 7, 7]


def test_no_backend_is_down_because_the_database_was_away(
    core: SchedulerManager,
    settings: Settings,
    ledger: database.Database,
    clock: Clock,
    run_periodic_tasks: Callable[[], None],
) -> None:
    forget_reports(ledger)
    with faults.away(ledger):
        while clock.now <= settings.service_down_time + 30:
            clock.now += 1
            run_periodic_tasks()
    ledger.connectivity.record_answer()
    run_periodic_tasks()
    assert state(core) == "up"


def test_no_backend_is_down_because_the_database_was_away_for_a_moment(
    core: SchedulerManager,
    settings: Settings,
    ledger: database.Database,
    clock: Clock,
    run_periodic_tasks: Callable[[], None],
) -> None:
    """Reports that came meanwhile wait behind requests."""
    forget_reports(ledger)
    while clock.now < settings.service_down_time - 2:
        clock.now += 1
        run_periodic_tasks()
    clock.now += 4
    ledger.connectivity.record_failure(OSError("it is restarted"))
    ledger.connectivity.record_answer()
    run_periodic_tasks()
    assert state(core) == "up"
    while clock.now < 2 * settings.service_down_time:
        clock.now += 1
        run_periodic_tasks()
    assert state(core) == "down"


def test_a_backend_that_is_silent_while_the_scheduler_listens_is_down(
    core: SchedulerManager,
    settings: Settings,
    ledger: database.Database,
    clock: Clock,
    run_periodic_tasks: Callable[[], None],
) -> None:
    forget_reports(ledger)
    while clock.now <= settings.service_down_time:
        assert state(core) == "up"
        clock.now += 4
        run_periodic_tasks()
    assert state(core) == "down"


@pytest.mark.parametrize("listened", [False, True])
def test_only_while_a_scheduler_could_hear_is_a_backend_silent(
    core: SchedulerManager,
    settings: Settings,
    ledger: database.Database,
    clock: Clock,
    listened: bool,
) -> None:
    """A start that fails, for want of a bus say, is no time in which anybody could hear."""
    core.stop()
    ages_ago = datetime.datetime(2000, 1, 1)  # noqa: DTZ001
    for change in (
        sa.update(models.Backend).values(last_report_at=ages_ago),
        sa.update(models.Service).values(last_seen_at=ages_ago, last_listened_at=ages_ago),
    ):
        ledger.run(lambda session, change=change: session.execute(change) and None)
    agents: Any = SimpleNamespace(report_now=lambda name: None)

    def start() -> SchedulerManager:
        started = managers.manager(ledger, agents, settings, weighers=(), clock=clock)
        started.start()
        return started

    first = start()
    if listened:
        first.ask_for_reports()
    first.membership.heartbeat()
    first.stop()
    again = start()
    assert state(again) == ("down" if listened else "up")
    again.stop()


def test_a_backend_that_reported_to_another_scheduler_is_not_down(
    core: SchedulerManager, settings: Settings, clock: Clock, run_periodic_tasks: Callable[[], None]
) -> None:
    # The ledger's clock has not moved: by it the backend has just reported, to whomever.
    while clock.now <= settings.service_down_time + 30:
        clock.now += 4
        run_periodic_tasks()
    assert state(core) == "up"


def test_a_report_that_is_anothers_turn_is_applied_a_moment_later(
    core: SchedulerManager, clock: Clock, join: Callable[[str], None], run_periodic_tasks: Callable[[], None]
) -> None:
    for number in range(50):
        join(f"other{number}")
    clock.now += 10
    run_periodic_tasks()
    assert not core.membership.has_turn(BACKEND)
    agent = Agent({"p0": StoragePool(77, 2.0, thin=True, thick=False)})
    agent.epoch, agent.seq, agent.tick = 1, 10, 10
    core.report(PackedReport.of(agent.look()))
    run_periodic_tasks()
    [pool] = core.get_pools(PoolQuery())
    assert pool.capabilities["total_capacity_gb"] == 20, "the one whose turn it is has some time for it"
    clock.now += 3
    run_periodic_tasks()
    [pool] = core.get_pools(PoolQuery())
    assert pool.capabilities["total_capacity_gb"] == 77


def test_a_database_that_does_not_answer_is_one_line_in_the_log(
    ledger: database.Database,
    clock: Clock,
    run_periodic_tasks: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = errors.Unavailable("the database does not answer: no route")
    with faults.failing(ledger.engine, HEARTBEAT, away):
        clock.now += 10
        run_periodic_tasks()
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == "Housekeeping goes on later: the database does not answer: no route"
    assert record.exc_info is None


def test_a_database_that_is_away_is_not_logged_in_each_round(
    ledger: database.Database,
    clock: Clock,
    run_periodic_tasks: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = errors.DatabaseUnreachable("the database does not answer: no route")
    with faults.failing(ledger.engine, HEARTBEAT, away):
        for _ in range(3):
            clock.now += 10
            run_periodic_tasks()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_no_backend_is_down_because_the_ledger_could_not_be_written(
    core: SchedulerManager,
    settings: Settings,
    ledger: database.Database,
    clock: Clock,
    run_periodic_tasks: Callable[[], None],
) -> None:
    """Nobody can record reports, and the scheduler tells the others why, and when that has ended."""
    forget_reports(ledger)
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    with faults.failing(ledger.engine, "UPDATE pools", full):
        with pytest.raises(errors.DatabaseUnreachable):
            ledger.run(lambda session: session.execute(sa.update(models.Pool).values(allocated_capacity_gb=0)) and None)
        while clock.now <= settings.service_down_time + 30:
            clock.now += 1
            run_periodic_tasks()
    assert faults_of_schedulers(ledger) == ["database or disk is full"]
    assert core.get_pools(PoolQuery())  # requests are tried, so that the first after the outage succeeds
    ledger.connectivity.quiet = 0.0
    clock.now += 10
    run_periodic_tasks()
    assert ledger.refusal is None
    assert state(core) == "up"
    clock.now += 10
    run_periodic_tasks()
    assert faults_of_schedulers(ledger) == [None]


def faults_of_schedulers(ledger: database.Database) -> list[str | None]:
    with ledger.reading() as session:
        return [row.ledger_fault for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER]


def test_rules_of_the_others_are_adopted_in_the_next_sweep(
    core: SchedulerManager, ledger: database.Database, clock: Clock, run_periodic_tasks: Callable[[], None]
) -> None:
    away = sa.update(models.Service).values(last_seen_at=datetime.datetime(2000, 1, 1))  # noqa: DTZ001
    ledger.run(lambda session: session.execute(away) and None)
    other = heartbeats.SchedulerProcess(
        binary=heartbeats.SCHEDULER, host="other", default_ratio="3.0", calculation="standard"
    )
    assert not ledger.run(scheduling_rules.propose_rules, other, 60.0).differences
    clock.now += 30
    run_periodic_tasks()
    with ledger.reading() as session:
        [mine] = [row for row in heartbeats.load(session) if row.host == "here"]
    assert (mine.default_ratio, mine.calculation) == ("3.0", "standard")
    assert (core.hosts.default_ratio, core.hosts.calculation) == (3.0, Calculation.STANDARD)
    assert core.decisions.rules.current.calculation is Calculation.STANDARD


def test_old_rows_are_purged_in_slices(
    ledger: database.Database, clock: Clock, run_periodic_tasks: Callable[[], None]
) -> None:
    old, number = datetime.datetime(2020, 1, 1), dialects.CHUNK_SIZE + 500  # noqa: DTZ001  (UTC without a zone)

    def add(session: Any) -> None:
        session.add_all(
            models.RequestKey(request_id=f"r{each}", volume_id=f"v{each}", answer={}, counted_from=old)
            for each in range(number)
        )
        now = session.execute(sa.select(models.utcnow())).scalar_one()
        kept = now - datetime.timedelta(days=29)
        session.add_all(
            models.Message(
                id=f"m{each}",
                project_id="p",
                resource_id="v",
                event="e",
                text="no room",
                created_at=old if each else kept,
            )
            for each in range(number)
        )

    def counts() -> list[int]:
        with ledger.reading() as session:
            tables = (models.RequestKey, models.Message)
            return [session.scalar(sa.select(sa.func.count()).select_from(table)) or 0 for table in tables]

    ledger.run(add)
    clock.now += 3600
    run_periodic_tasks()
    assert counts() == [500, 500]
    clock.now += 1
    run_periodic_tasks()
    assert counts() == [0, 1]


def test_keys_of_refusals_are_kept_for_a_short_time(ledger: database.Database) -> None:
    refusal = errors.Conflict("no room")
    keys = [
        request_keys.Key("accepted", "v1", "create"),
        request_keys.Key.of_error("refused", "v2", "create", refusal),
    ]
    ledger.run(request_keys.insert, keys)

    def age(session: Any, hours: int) -> None:
        for key in session.scalars(sa.select(models.RequestKey)):
            key.counted_from -= datetime.timedelta(hours=hours)

    def kept() -> list[str]:
        ledger.run(request_keys.purge)
        with ledger.reading() as session:
            return sorted(request_keys.find(session, {"accepted": None, "refused": None}))

    assert kept() == ["accepted", "refused"]
    ledger.run(age, 1)
    assert kept() == ["accepted"]
    ledger.run(age, 7 * 24)
    assert kept() == []
