# SPDX-License-Identifier: Apache-2.0
"""In-flight capacity of one pool, and of pools of several backends that draw on one storage."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.ledger import faults
from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.agent import Agent
from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import Letter, World
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.ledger import models
from tonnage.ledger.inventory import reports
from tonnage.ledger.locks import pool_counters
from tonnage.rpc.messages import (
    REPORT_STEP,
    Answer,
    BackendReport,
    Command,
    DeleteVolume,
    MigrateVolume,
    Outcome,
    SharedStorages,
    UnmanageVolume,
)
from tonnage.scheduler.requests.placement_requests import Move


class Bench:
    """A world of one scheduler whose messages are delivered one by one. Pool *n* is ``host<n>@b#p``."""

    def __init__(self, *pools: StoragePool) -> None:
        self.world = World({f"host{number}@b#p": pool for number, pool in enumerate(pools)})
        self.scheduler = self.world.schedulers[0]
        self.world.settle()

    def agent(self, number: int = 0) -> Agent:
        agent = self.world.agents[f"host{number}@b"]
        assert agent is not None
        return agent

    def sent(self) -> list[Letter]:
        letters, self.world.bus = self.world.bus, []
        return letters

    def deliver(self, *messages: object) -> None:
        """Deliver messages to the scheduler, and commands to their agents."""
        for message in messages:
            to = "s0" if isinstance(message, BackendReport) else ""
            letter = message if isinstance(message, Letter) else Letter(message, to)  # type: ignore[arg-type]
            self.world.deliver(letter, self.scheduler)
        checks.check(self.world)

    def place(self, size: int, **more: object) -> str:
        [answer] = self.world.place(self.scheduler, self.world.create_message(size, **more))
        assert isinstance(answer, Answer)
        assert answer.pool is not None
        return answer.volume_id

    def work(self, number: int = 0, fate: Fate | None = None) -> Outcome:
        """Deliver the waiting commands, and run the next one of an agent."""
        self.deliver(*[letter for letter in self.sent() if isinstance(letter.content, Command)])
        self.agent(number).work(fate or Fate())
        [ended] = [letter.content for letter in self.sent() if isinstance(letter.content, Outcome)]
        return ended

    def report(self, number: int = 0) -> None:
        self.deliver(self.agent(number).look())

    def counters(self, number: int = 0) -> tuple[int, ...]:
        """Return a pool's allocated, in-flight, shared in-flight and shared physical in-flight capacity."""
        [row] = self.world.rows(
            "SELECT allocated_capacity_gb, in_flight_gb, shared_in_flight_gb, shared_in_flight_physical_gb "
            f"FROM pools WHERE name = 'host{number}@b#p'"
        )
        return row

    def in_flight(self, number: int = 0) -> int:
        return self.counters(number)[1]


def one_pool(**more: object) -> Bench:
    """Return a bench with one thin pool of its own storage."""
    return Bench(StoragePool(Storage(None, 40), 2.0, thin=True, thick=False, **more))  # type: ignore[arg-type]


def two_pools(kind: str = "thick", carved: int | None = None, **more: object) -> Bench:
    """Return a bench with two pools of two backends on one storage; only the first takes volumes of that kind."""
    array = Storage("array", 40)
    thin = kind == "thin"
    first = StoragePool(array, 2.0, thin=thin, thick=not thin, carved_gb=carved, media="ssd", **more)  # type: ignore[arg-type]
    return Bench(first, StoragePool(array, 1.0, thin=thin, thick=not thin, carved_gb=carved, **more))  # type: ignore[arg-type]


def place_on_first(bench: Bench, size: int) -> str:
    """Place a volume on the first pool, while the second pool's backend is disabled."""
    with bench.world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE backends SET enabled = false WHERE name = 'host1@b'")
    bench.scheduler.run_periodic_tasks()
    volume = bench.place(size)
    with bench.world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE backends SET enabled = true WHERE name = 'host1@b'")
    bench.scheduler.run_periodic_tasks()
    return volume


def test_a_report_that_began_before_an_end_does_not_contain_it() -> None:
    bench = one_pool()
    bench.place(5)
    bench.deliver(*bench.sent())
    early = bench.agent().look()
    ended = bench.work()
    bench.deliver(ended, replace(early, ended=[]))
    assert bench.in_flight() == 5
    bench.report()
    assert bench.in_flight() == 0


def test_an_outcome_that_another_scheduler_applied_during_the_wait_has_no_second_effect() -> None:
    bench = one_pool()
    bench.place(5)
    bench.deliver(*bench.sent())
    ended = bench.work()
    confirm = sa.update(models.Claim).values(state=pool_counters.CONFIRMED)
    with faults.before(bench.world.engine, faults.LOCK, lambda connection: connection.execute(confirm)):
        bench.deliver(ended)
    with bench.world.engine.connect() as connection:
        # The other scheduler writes the effects of this outcome.
        assert connection.execute(sa.select(models.Volume.status)).scalar_one() == "creating"


def test_an_outcome_may_arrive_after_a_report_that_contains_it() -> None:
    bench = one_pool()
    bench.place(5)
    ended = bench.work()
    late = replace(bench.agent().look(), ended=[])
    bench.place(7)
    also = bench.work()
    bench.deliver(late)
    assert bench.in_flight() == 12
    bench.deliver(ended, also)
    assert bench.in_flight() == 7


@pytest.mark.parametrize(
    "change", [{"seq": -REPORT_STEP}, {"covers": -20}, {"epoch": -1}], ids=lambda change: next(iter(change))
)
def test_an_outdated_report_changes_nothing_even_with_a_wrong_cache(change: dict[str, int]) -> None:
    bench = one_pool()
    bench.world.pools["host0@b#p"].ratio = 1.0
    report = bench.agent().look()
    report = replace(report, **{name: getattr(report, name) + by for name, by in change.items()})
    # The ledger compares the report itself, even if the scheduler's cache is wrong.
    backend = bench.scheduler.hosts.backend("host0@b")
    assert backend is not None
    examined = bench.scheduler.hosts.diff_report(backend, report, 100).report
    applied = bench.scheduler.core.database.run(reports.apply, [replace(examined, base=backend.report_seq)])
    assert applied == [None]
    assert bench.world.rows("SELECT ratio FROM pools") == [(2.0,)]


def test_a_report_compared_with_an_older_report_changes_nothing() -> None:
    bench = one_pool()
    backend = bench.scheduler.hosts.backend("host0@b")
    assert backend is not None
    bench.world.pools["host0@b#p"].ratio = 1.0
    examined = bench.scheduler.hosts.diff_report(backend, bench.agent().look(), 100).report
    applied = bench.scheduler.core.database.run(reports.apply, [replace(examined, base=backend.report_seq - 1)])
    assert applied == [None]


def test_an_unclean_failure_stays_in_flight_until_a_report() -> None:
    bench = one_pool()
    bench.place(5)
    failed = bench.work(fate=Fate(fails=True, leaves=True, mute=True))
    assert (failed.ok, failed.clean, failed.size_gb) == (False, False, 0)
    bench.deliver(failed)
    assert bench.counters()[:2] == (0, 5)
    bench.report()
    assert bench.counters()[:2] == (0, 0)


def test_a_repeated_outcome_counts_once_without_the_schedulers_cache() -> None:
    bench = one_pool()
    bench.place(5)
    failed = bench.work(fate=Fate(fails=True))
    bench.deliver(failed)
    bench.scheduler.core._outcome_handler._ended.clear()
    bench.scheduler.thread.jobs.clear()
    bench.deliver(failed)
    assert bench.counters()[:2] == (0, 5)
    assert bench.world.rows("SELECT attempted_pools FROM volumes") == [('["host0@b#p"]',)]


def test_figures_of_another_backend_contain_claims_that_ended_before_its_stamp() -> None:
    bench = two_pools()
    place_on_first(bench, 5)
    assert bench.counters(1) == (0, 0, 5, 5)
    early = bench.agent(1).look()
    bench.deliver(bench.work())
    bench.deliver(early)
    bench.report(0)
    # The report of its own backend contains it; the other backend's look began before its end.
    assert bench.counters(0)[:2] == (5, 0)
    assert bench.counters(1) == (0, 0, 5, 5)
    bench.report(1)
    assert bench.counters(1) == (0, 0, 0, 0)


def test_a_look_without_a_stamp_contains_no_claims_of_other_backends() -> None:
    bench = two_pools()
    place_on_first(bench, 5)
    bench.deliver(bench.work())
    bench.world.stamps_fail = True
    bench.report(1)
    bench.report(0)
    assert bench.counters(1) == (0, 0, 5, 5)


class NamelessPool(StoragePool):
    """A pool that does not name its storage at first."""

    names_storage = False

    def figures(self, name: str) -> dict[str, Any]:
        return super().figures(name) | ({} if self.names_storage else {"storage_id": None})


def test_a_backend_that_joins_a_storage_without_a_stamp_contains_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = Storage("array", 40)
    first = StoragePool(array, 1.0, thin=False, thick=True, media="ssd")
    second = NamelessPool(array, 1.0, thin=False, thick=True, media="hdd")
    bench = Bench(first, second)
    second.names_storage = True
    early = bench.agent(1).look()
    assert early.stamps == {}
    place_on_first(bench, 5)
    bench.deliver(bench.work())
    bench.report(0)
    assert bench.counters(0)[:2] == (5, 0)
    with monkeypatch.context() as patched:
        # A scheduler that has not read yet that another backend is on the storage.
        patched.setattr(PoolTable, "backends_on", lambda self, storage_id: ())
        bench.deliver(early)
    assert bench.counters(1) == (0, 0, 5, 5)
    bench.report(1)
    assert bench.counters(1) == (0, 0, 5, 5), "without a stamp, which the agent has just been told to take"
    bench.deliver(*bench.sent())
    bench.report(1)
    assert bench.counters(1) == (0, 0, 0, 0)


def test_a_backend_is_told_when_another_one_joins_its_storage() -> None:
    bench = two_pools()
    bench.world.agents["host0@b"] = None
    again = bench.world.start_agent("host0@b")
    while not again.joined:
        bench.world.join(again, bench.scheduler)
    assert again.look().stamps.keys() == {"array"}, "the answer to its hello names the storage"
    bench.agent(1).snapshots._shared_storages = frozenset()
    bench.report(1)
    [told] = bench.sent()
    assert (told.content, told.to) == (SharedStorages(storage_ids=["array"]), "host1@b")


@pytest.mark.parametrize(("carved", "left"), [(None, (0, 0, 5, 5)), (30, (0, 0, 0, 5))])
def test_an_unclean_copy_counts_for_other_pools_until_their_reports_contain_it(
    carved: int | None, left: tuple[int, ...]
) -> None:
    bench = two_pools(carved=carved)
    place_on_first(bench, 5)
    bench.deliver(bench.work(fate=Fate(fails=True, leaves=True, mute=True)))
    # Do not place the volume again in this test.
    bench.scheduler.thread.jobs.clear()
    assert bench.counters(1) == left
    bench.report(0)
    assert bench.counters(1) == left
    bench.report(1)
    assert bench.counters(1) == (0, 0, 0, 0)
    assert bench.world.rows("SELECT state FROM claims WHERE state = 'released'") == []


def test_an_unmanaged_volume_counts_for_the_other_pools_too() -> None:
    bench = two_pools(kind="thin", reports_provisioned=False)
    volume = place_on_first(bench, 5)
    bench.deliver(bench.work())
    bench.report(0)
    bench.report(1)
    bench.scheduler.core.operations.unmanage([UnmanageVolume(request_id="req-go", volume_id=volume)])
    checks.check(bench.world)
    assert bench.world.rows("SELECT external_gb, shared_allocated_gb FROM pools ORDER BY name") == [(5, 0), (0, 5)]


def test_an_abandoned_claim_stays_counted_until_its_copy_is_purged() -> None:
    bench = Bench(*(StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for _ in range(2)))
    volume = bench.place(5)
    [(first,)] = bench.world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    number = int(first[4])
    # The agent makes it, and the outcome is lost.
    bench.work(number)
    for _ in range(8):
        bench.world.pass_time(20)
        bench.report(1 - number)
        bench.scheduler.run_periodic_tasks()
    assert bench.counters(number)[:2] == (5, 5)
    there = f"SELECT c.state, c.verb FROM claims c JOIN pools p ON p.id = c.pool_id WHERE p.name = '{first}'"
    assert sorted(bench.world.rows(there)) == [("abandoned", "create"), ("pending", "purge")]
    bench.world.settle()
    checks.check_at_rest(bench.world, (), (), {})
    [(second,)] = bench.world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    assert second != first
    assert list(bench.world.pools[second].copies) == [volume]
    assert not bench.world.pools[first].copies


def test_the_source_of_a_migration_stays_counted_until_its_copy_is_purged() -> None:
    bench = Bench(*(StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for _ in range(2)))
    volume = bench.place(5)
    bench.world.settle()
    [(first,)] = bench.world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    source = int(first[4])
    [answer] = bench.world.place(bench.scheduler, Move(MigrateVolume(request_id="req-m", volume_id=volume)))
    assert answer.pool is not None
    bench.deliver(bench.work(1 - source))
    assert bench.world.rows("SELECT status, migration_status FROM volumes") == [("available", "success")]
    assert bench.counters(source)[0] == bench.counters(1 - source)[0] == 5
    bench.deliver(bench.work(source))
    assert (bench.counters(source)[0], bench.counters(1 - source)[0]) == (0, 5)
    bench.world.settle()
    checks.check_at_rest(bench.world, (), (), {})


def test_a_copy_that_a_failed_migration_found_counts_until_a_report_has_it() -> None:
    """The agent that made it was killed. The failure of the next agent's attempt is clean, as it made nothing."""
    bench = Bench(*(StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for _ in range(2)))
    volume = bench.place(5)
    bench.world.settle()
    [(first,)] = bench.world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    target = 1 - int(first[4])
    [answer] = bench.world.place(bench.scheduler, Move(MigrateVolume(request_id="req-m", volume_id=volume)))
    assert answer.pool is not None
    bench.deliver(replace(bench.work(target), ok=False, clean=True, message="there is a copy already"))
    assert bench.counters(target)[:2] == (0, 5)
    bench.report(target)
    assert bench.counters(target)[:2] == (0, 0)


def test_a_pool_that_joins_a_storage_counts_the_claims_its_figures_lack() -> None:
    array = Storage("array", 40)
    pools = {f"host{number}@b#p": StoragePool(array, 2.0, thin=False, thick=True) for number in range(2)}
    world = World(pools)
    [scheduler] = world.schedulers
    agents = [world.start_agent(backend) for backend in world.agents]
    for agent in agents:
        while not agent.joined:
            world.join(agent, scheduler)
    world.deliver(Letter(agents[0].look(), "s0"), scheduler)
    agents[1].snapshots.add_shared_storages(["array"])
    early = agents[1].look()
    [answer] = world.place(scheduler, world.create_message(5))
    assert answer.pool == "host0@b#p"
    world.deliver(world.bus.pop(), scheduler)
    agents[0].work(Fate())
    world.deliver(world.bus.pop(), scheduler)
    world.deliver(Letter(agents[0].look(), "s0"), scheduler)
    checks.check(world)
    assert world.rows("SELECT contained, contained_by_all FROM claims") == [(1, 1)]
    world.deliver(Letter(early, "s0"), scheduler)
    checks.check(world)
    assert world.rows("SELECT shared_in_flight_gb FROM pools ORDER BY name") == [(0,), (5,)]
    world.deliver(Letter(agents[1].look(), "s0"), scheduler)
    assert world.rows("SELECT SUM(shared_in_flight_gb) FROM pools") == [(0,)]


def test_claims_are_not_kept_for_an_unreported_pool_and_count_again_at_its_return() -> None:
    bench = two_pools()
    bench.deliver(replace(bench.agent(1).look(), pools=[]))
    volume = bench.place(5)
    early = bench.agent(1).look()
    bench.deliver(bench.work())
    bench.report(0)
    assert bench.world.rows("SELECT contained, contained_by_all FROM claims") == [(1, 1)]
    bench.deliver(early)
    assert bench.counters(1) == (0, 0, 5, 5)
    bench.deliver(replace(bench.agent(1).look(), pools=[]))
    assert bench.world.rows("SELECT contained, contained_by_all FROM claims") == [(1, 1)]
    bench.scheduler.core.operations.delete([DeleteVolume(request_id="req-d", volume_id=volume)])
    bench.deliver(bench.work())
    bench.report(0)
    # Otherwise each claim of a deleted volume would be kept for good, and read with each report.
    assert bench.world.rows("SELECT state FROM claims") == []


@pytest.mark.parametrize("unmanage", [False, True], ids=["deleted", "unmanaged"])
def test_no_claims_are_kept_after_a_pool_has_left_the_storage(unmanage: bool) -> None:
    bench = two_pools()
    volume = place_on_first(bench, 5)
    bench.deliver(bench.work())
    bench.report(0)
    assert bench.world.rows("SELECT contained, contained_by_all FROM claims") == [(1, 0)]
    left = bench.agent(0).look()
    bench.deliver(replace(left, pools=[{**pool, "storage_id": None} for pool in left.pools]))
    if unmanage:
        bench.scheduler.core.operations.unmanage([UnmanageVolume(request_id="req-go", volume_id=volume)])
    else:
        bench.scheduler.core.operations.delete([DeleteVolume(request_id="req-d", volume_id=volume)])
        bench.deliver(bench.work())
    assert bench.world.rows("SELECT verb, state FROM claims") == []


def test_pools_of_one_backend_share_one_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    array = Storage("array", 40)
    pools = {f"host0@b#p{number}": StoragePool(array, 1.0, thin=True, thick=False) for number in range(6)}
    world = World(pools)
    world.settle()
    [scheduler] = world.schedulers
    answers = world.place(scheduler, *(world.create_message(2) for _ in range(5)))
    assert all(answer.pool is not None for answer in answers)
    looks: list[object] = []
    seen = pool_counters.is_covered
    monkeypatch.setattr(pool_counters, "is_covered", lambda claim, view: looks.append(claim) or seen(claim, view))
    scheduler.core.database.run(pool_counters.recount_shared, ["array"])
    # Otherwise a storage with hundreds of pools, and as many claims, would keep the schedulers busy for seconds.
    assert len(looks) == len(answers)
    checks.check(world)
    world.settle()
    checks.check_at_rest(world, (), (), {})
