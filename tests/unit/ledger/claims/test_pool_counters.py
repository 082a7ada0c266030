# SPDX-License-Identifier: Apache-2.0
"""What counts as in flight, and for how long, on one pool and on storages that pools of several backends draw on."""

from collections.abc import Collection
from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.agent import Agent
from tests.unit.scheduler.model.storage import Fate, Storage, StoragePool
from tests.unit.scheduler.model.world import Letter, World
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.ledger import models
from tonnage.ledger.claims import pool_counters
from tonnage.ledger.inventory import reports
from tonnage.rpc.messages import (
    Answer,
    BackendReport,
    Command,
    DeleteVolume,
    MigrateVolume,
    Outcome,
    SharedStorages,
    UnmanageVolume,
)
from tonnage.scheduler.decisions.placement_requests import Move


class Bench:
    """A world of one scheduler whose messages are handed over one by one. Pool *n* is ``host<n>@b#p``."""

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

    def tell(self, *messages: object) -> None:
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
        """Hand the commands over, and run the next one of an agent."""
        self.tell(*[letter for letter in self.sent() if isinstance(letter.content, Command)])
        self.agent(number).work(fate or Fate())
        [ended] = [letter.content for letter in self.sent() if isinstance(letter.content, Outcome)]
        return ended

    def report(self, number: int = 0) -> None:
        self.tell(self.agent(number).look())

    def counters(self, number: int = 0) -> tuple[int, ...]:
        """Return what is allocated and in flight on a pool, then what others have in flight there, physically too."""
        [row] = self.world.rows(
            "SELECT allocated_capacity_gb, in_flight_gb, shared_in_flight_gb, shared_in_flight_physical_gb "
            f"FROM pools WHERE name = 'host{number}@b#p'"
        )
        return row

    def in_flight(self, number: int = 0) -> int:
        return self.counters(number)[1]


def alone(**more: object) -> Bench:
    """Return a bench with one thin pool of its own storage."""
    return Bench(StoragePool(Storage(None, 40), 2.0, thin=True, thick=False, **more))  # type: ignore[arg-type]


def shared(kind: str = "thick", carved: int | None = None, **more: object) -> Bench:
    """Return a bench with two pools of two backends on one storage; only the first takes volumes of that kind."""
    array = Storage("array", 40)
    thin = kind == "thin"
    first = StoragePool(array, 2.0, thin=thin, thick=not thin, carved_gb=carved, media="ssd", **more)  # type: ignore[arg-type]
    return Bench(first, StoragePool(array, 1.0, thin=thin, thick=not thin, carved_gb=carved, **more))  # type: ignore[arg-type]


def on_first(bench: Bench, size: int) -> str:
    """Place a volume on the first of the pools: the second one's backend is closed for a moment."""
    with bench.world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE backends SET enabled = false WHERE name = 'host1@b'")
    bench.scheduler.keep_house()
    volume = bench.place(size)
    with bench.world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE backends SET enabled = true WHERE name = 'host1@b'")
    bench.scheduler.keep_house()
    return volume


def test_a_report_that_began_before_the_end_does_not_contain_it() -> None:
    bench = alone()
    bench.place(5)
    bench.tell(*bench.sent())
    early = bench.agent().look()
    ended = bench.work()
    bench.tell(ended, replace(early, ended=[]))
    assert bench.in_flight() == 5
    bench.report()
    assert bench.in_flight() == 0


def test_what_another_scheduler_has_ended_while_this_one_waited_for_it_ends_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = alone()
    bench.place(5)
    bench.tell(*bench.sent())
    ended = bench.work()
    lock = pool_counters.lock

    def wait(session: orm.Session, pool_ids: Collection[int]) -> pool_counters.Locked:
        session.execute(sa.update(models.Claim).values(state=pool_counters.CONFIRMED))
        return lock(session, pool_ids)

    with monkeypatch.context() as patch:
        patch.setattr(pool_counters, "lock", wait)
        bench.tell(ended)
    with bench.world.engine.connect() as connection:
        # What comes of it is the other's to write.
        assert connection.execute(sa.select(models.Volume.status)).scalar_one() == "creating"


def test_an_outcome_that_comes_after_a_report_that_contains_it() -> None:
    bench = alone()
    bench.place(5)
    ended = bench.work()
    late = replace(bench.agent().look(), ended=[])
    bench.place(7)
    also = bench.work()
    bench.tell(late)
    assert bench.in_flight() == 12
    bench.tell(ended, also)
    assert bench.in_flight() == 7


@pytest.mark.parametrize("change", [{"seq": -1}, {"covers": -20}, {"epoch": -1}], ids=lambda change: next(iter(change)))
def test_reports_that_are_not_the_newest_change_nothing_whatever_a_scheduler_remembers(change: dict[str, int]) -> None:
    bench = alone()
    bench.world.pools["host0@b#p"].ratio = 1.0
    report = bench.agent().look()
    report = replace(report, **{name: getattr(report, name) + by for name, by in change.items()})
    # Whatever a scheduler thinks, the ledger compares.
    backend = bench.scheduler.hosts.backend("host0@b")
    assert backend is not None
    examined = bench.scheduler.hosts.examine(backend, report).report
    applied = bench.scheduler.core._database.run(reports.apply, [replace(examined, base=backend.seq)])
    assert applied == [None]
    assert bench.world.rows("SELECT ratio FROM pools") == [(2.0,)]


def test_a_report_that_was_compared_with_another_than_the_last_changes_nothing() -> None:
    bench = alone()
    backend = bench.scheduler.hosts.backend("host0@b")
    assert backend is not None
    bench.world.pools["host0@b#p"].ratio = 1.0
    examined = bench.scheduler.hosts.examine(backend, bench.agent().look()).report
    applied = bench.scheduler.core._database.run(reports.apply, [replace(examined, base=backend.seq - 1)])
    assert applied == [None]


def test_a_failure_that_was_not_verified_as_clean_stays_in_flight_until_a_report() -> None:
    bench = alone()
    bench.place(5)
    failed = bench.work(fate=Fate(fails=True, leaves=True, mute=True))
    assert (failed.ok, failed.clean, failed.size_gb) == (False, False, 0)
    bench.tell(failed)
    assert bench.counters()[:2] == (0, 5)
    bench.report()
    assert bench.counters()[:2] == (0, 0)


def test_an_outcome_that_comes_twice_counts_once_for_schedulers_that_do_not_remember_it() -> None:
    bench = alone()
    bench.place(5)
    failed = bench.work(fate=Fate(fails=True))
    bench.tell(failed)
    bench.scheduler.core._intake._concluding._ended.clear()
    bench.scheduler.thread.jobs.clear()
    bench.tell(failed)
    assert bench.counters()[:2] == (0, 5)
    assert bench.world.rows("SELECT attempted_pools FROM volumes") == [('["host0@b#p"]',)]


def test_the_figures_of_another_backend_contain_what_had_ended_when_its_look_was_given_a_stamp() -> None:
    bench = shared()
    on_first(bench, 5)
    assert bench.counters(1) == (0, 0, 5, 5)
    early = bench.agent(1).look()
    bench.tell(bench.work())
    bench.tell(early)
    bench.report(0)
    # Its own report has it; the other backend's look began before its end.
    assert bench.counters(0)[:2] == (5, 0)
    assert bench.counters(1) == (0, 0, 5, 5)
    bench.report(1)
    assert bench.counters(1) == (0, 0, 0, 0)


def test_a_look_of_which_nobody_knows_the_stamp_contains_nothing_of_other_backends() -> None:
    bench = shared()
    on_first(bench, 5)
    bench.tell(bench.work())
    bench.world.stamps_fail = True
    bench.report(1)
    bench.report(0)
    assert bench.counters(1) == (0, 0, 5, 5)


def test_a_backend_that_joins_a_storage_without_a_stamp_contains_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = Storage("array", 40)
    first, second = (StoragePool(array, 1.0, thin=False, thick=True, media=media) for media in ("ssd", "hdd"))
    with monkeypatch.context() as patched:
        patched.setattr(second, "figures", lambda name: StoragePool.figures(second, name) | {"storage_id": None})
        bench = Bench(first, second)
    early = bench.agent(1).look()
    assert early.stamps == {}
    on_first(bench, 5)
    bench.tell(bench.work())
    bench.report(0)
    assert bench.counters(0)[:2] == (5, 0)
    with monkeypatch.context() as patched:
        # A scheduler that has not read yet that another backend is on the storage.
        patched.setattr(PoolTable, "backends_on", lambda self, storage_id: ())
        bench.tell(early)
    assert bench.counters(1) == (0, 0, 5, 5)
    bench.report(1)
    assert bench.counters(1) == (0, 0, 5, 5), "without a stamp, which the agent has just been told to take"
    bench.tell(*bench.sent())
    bench.report(1)
    assert bench.counters(1) == (0, 0, 0, 0)


def test_a_backend_is_told_when_another_one_joins_its_storage() -> None:
    bench = shared()
    bench.world.agents["host0@b"] = None
    again = bench.world.start_agent("host0@b")
    while not again.joined:
        bench.world.join(again, bench.scheduler)
    assert again.look().stamps.keys() == {"array"}, "the answer to its hello names the storage"
    bench.agent(1).looks._shared = frozenset()
    bench.report(1)
    [told] = bench.sent()
    assert (told.content, told.to) == (SharedStorages(storage_ids=["array"]), "host1@b")


@pytest.mark.parametrize(("carved", "left"), [(None, (0, 0, 5, 5)), (30, (0, 0, 0, 5))])
def test_what_was_left_behind_counts_for_the_others_until_they_have_seen_it(
    carved: int | None, left: tuple[int, ...]
) -> None:
    bench = shared(carved=carved)
    on_first(bench, 5)
    bench.tell(bench.work(fate=Fate(fails=True, leaves=True, mute=True)))
    # The volume is not placed again for now.
    bench.scheduler.thread.jobs.clear()
    assert bench.counters(1) == left
    bench.report(0)
    assert bench.counters(1) == left
    bench.report(1)
    assert bench.counters(1) == (0, 0, 0, 0)
    assert bench.world.rows("SELECT state FROM claims WHERE state = 'released'") == []


def test_what_was_let_go_of_counts_for_the_others_too() -> None:
    bench = shared(kind="thin", reports_provisioned=False)
    volume = on_first(bench, 5)
    bench.tell(bench.work())
    bench.report(0)
    bench.report(1)
    bench.scheduler.core._verbs.unmanage([UnmanageVolume(request_id="req-go", volume_id=volume)])
    checks.check(bench.world)
    assert bench.world.rows("SELECT external_gb, shared_allocated_gb FROM pools ORDER BY name") == [(5, 0), (0, 5)]


def test_an_abandoned_claim_stays_counted_until_what_it_may_have_made_is_purged() -> None:
    bench = Bench(*(StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for _ in range(2)))
    volume = bench.place(5)
    [(first,)] = bench.world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    number = int(first[4])
    # It is made, and nobody hears of it.
    bench.work(number)
    for _ in range(8):
        bench.world.pass_time(20)
        bench.report(1 - number)
        bench.scheduler.keep_house()
    assert bench.counters(number)[:2] == (5, 5)
    there = f"SELECT c.state, c.verb FROM claims c JOIN pools p ON p.id = c.pool_id WHERE p.name = '{first}'"
    assert sorted(bench.world.rows(there)) == [("abandoned", "create"), ("pending", "purge")]
    bench.world.settle()
    checks.check_at_rest(bench.world, (), (), {})
    [(second,)] = bench.world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    assert second != first
    assert list(bench.world.pools[second].copies) == [volume]
    assert not bench.world.pools[first].copies


def test_where_a_volume_was_moved_from_stays_counted_until_the_copy_there_is_gone() -> None:
    bench = Bench(*(StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for _ in range(2)))
    volume = bench.place(5)
    bench.world.settle()
    [(first,)] = bench.world.rows("SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id")
    source = int(first[4])
    [answer] = bench.world.place(bench.scheduler, Move(MigrateVolume(request_id="req-m", volume_id=volume)))
    assert answer.pool is not None
    bench.tell(bench.work(1 - source))
    assert bench.world.rows("SELECT status, migration_status FROM volumes") == [("available", "success")]
    assert bench.counters(source)[0] == bench.counters(1 - source)[0] == 5
    bench.tell(bench.work(source))
    assert (bench.counters(source)[0], bench.counters(1 - source)[0]) == (0, 5)
    bench.world.settle()
    checks.check_at_rest(bench.world, (), (), {})


def test_a_pool_that_comes_to_a_storage_with_old_figures_counts_what_they_lack() -> None:
    array = Storage("array", 40)
    pools = {f"host{number}@b#p": StoragePool(array, 2.0, thin=False, thick=True) for number in range(2)}
    world = World(pools)
    [scheduler] = world.schedulers
    agents = [world.start_agent(backend) for backend in world.agents]
    for agent in agents:
        while not agent.joined:
            world.join(agent, scheduler)
    world.deliver(Letter(agents[0].look(), "s0"), scheduler)
    agents[1].looks.share(["array"])
    early = agents[1].look()
    [answer] = world.place(scheduler, world.create_message(5))
    assert answer.pool == "host0@b#p"
    world.deliver(world.bus.pop(), scheduler)
    agents[0].work(Fate())
    world.deliver(world.bus.pop(), scheduler)
    world.deliver(Letter(agents[0].look(), "s0"), scheduler)
    checks.check(world)
    assert world.rows("SELECT contained, everywhere FROM claims") == [(1, 1)]
    world.deliver(Letter(early, "s0"), scheduler)
    checks.check(world)
    assert world.rows("SELECT shared_in_flight_gb FROM pools ORDER BY name") == [(0,), (5,)]
    world.deliver(Letter(agents[1].look(), "s0"), scheduler)
    assert world.rows("SELECT SUM(shared_in_flight_gb) FROM pools") == [(0,)]


def test_a_pool_that_is_no_longer_reported_keeps_no_claims_of_the_others_and_counts_what_it_lacks_when_it_is_back() -> (
    None
):
    bench = shared()
    bench.tell(replace(bench.agent(1).look(), pools=[]))
    volume = bench.place(5)
    early = bench.agent(1).look()
    bench.tell(bench.work())
    bench.report(0)
    assert bench.world.rows("SELECT contained, everywhere FROM claims") == [(1, 1)]
    bench.tell(early)
    assert bench.counters(1) == (0, 0, 5, 5)
    bench.tell(replace(bench.agent(1).look(), pools=[]))
    assert bench.world.rows("SELECT contained, everywhere FROM claims") == [(1, 1)]
    bench.scheduler.core._verbs.delete([DeleteVolume(request_id="req-d", volume_id=volume)])
    bench.tell(bench.work())
    bench.report(0)
    # Else whatever is made and deleted there would be kept, and read with each report, for good.
    assert bench.world.rows("SELECT state FROM claims") == []


@pytest.mark.parametrize("let_go", [False, True], ids=["deleted", "let go of"])
def test_nothing_is_kept_for_others_of_a_pool_that_has_left_their_storage(let_go: bool) -> None:
    bench = shared()
    volume = on_first(bench, 5)
    bench.tell(bench.work())
    bench.report(0)
    assert bench.world.rows("SELECT contained, everywhere FROM claims") == [(1, 0)]
    left = bench.agent(0).look()
    bench.tell(replace(left, pools=[{**pool, "storage_id": None} for pool in left.pools]))
    if let_go:
        bench.scheduler.core._verbs.unmanage([UnmanageVolume(request_id="req-go", volume_id=volume)])
    else:
        bench.scheduler.core._verbs.delete([DeleteVolume(request_id="req-d", volume_id=volume)])
        bench.tell(bench.work())
    assert bench.world.rows("SELECT verb, state FROM claims") == []


def test_what_the_figures_of_pools_of_one_backend_lack_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    array = Storage("array", 40)
    pools = {f"host0@b#p{number}": StoragePool(array, 1.0, thin=True, thick=False) for number in range(6)}
    world = World(pools)
    world.settle()
    [scheduler] = world.schedulers
    answers = world.place(scheduler, *(world.create_message(2) for _ in range(5)))
    assert all(answer.pool is not None for answer in answers)
    looks: list[object] = []
    seen = pool_counters._seen
    monkeypatch.setattr(pool_counters, "_seen", lambda claim, view: looks.append(claim) or seen(claim, view))
    scheduler.core._database.run(pool_counters.recount_shared, ["array"])
    # Else a storage with hundreds of pools, and as many claims, would keep the schedulers busy for seconds.
    assert len(looks) == len(answers)
    checks.check(world)
    world.settle()
    checks.check_at_rest(world, (), (), {})
