# SPDX-License-Identifier: Apache-2.0
"""Reports, hellos and listings, on a real ledger."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import auto_ratio
from tonnage.rpc.messages import Answer, BackendReport, Hello, Outcome
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cache.host_manager import HostManager


@pytest.fixture
def world() -> World:
    return World({name: StoragePool(20, 2.0, thin=True, thick=False) for name in ("p0", "p1")}).started()


def changed(report: BackendReport, pool: str, **fields: object) -> BackendReport:
    pools = [{**figures, **fields} if figures["pool_name"] == pool else figures for figures in report.pools]
    return replace(report, pools=pools)


def place(world: World, size: int) -> Answer:
    result = world.create(size)[0]
    assert isinstance(result, Answer)
    return result


def test_a_bad_pool_keeps_its_last_figures_and_the_others_count(world: World, caplog: pytest.LogCaptureFixture) -> None:
    report = changed(world.agent.look(), "p0", total_capacity_gb="many")
    world.deliver(changed(report, "p1", total_capacity_gb=30))
    assert [world.hosts.table.get(f"{BACKEND}#{name}").total for name in ("p0", "p1")] == [20, 30]  # type: ignore[union-attr]
    assert "pool 'p0': total_capacity_gb is 'many'" in caplog.text
    assert world.rows("SELECT total_capacity_gb FROM pools ORDER BY name") == [(20.0,), (30.0,)]


def test_a_claim_on_a_pool_with_bad_figures_stays_in_flight(world: World) -> None:
    pool = place(world, 5).pool
    assert pool is not None
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    short = pool.rpartition("#")[2]
    world.deliver(changed(world.agent.look(), short, free_capacity_gb="much"))
    assert world.rows(f"SELECT in_flight_gb FROM pools WHERE name = '{pool}'") == [(5,)]
    world.report()
    assert world.rows(f"SELECT in_flight_gb FROM pools WHERE name = '{pool}'") == [(0,)]


def test_a_fault_of_a_report_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        world.deliver(changed(world.agent.look(), "p0", allocated_capacity_gb=7))
    assert sum("allocated_capacity_gb is kept by the ledger" in record.getMessage() for record in caplog.records) == 1
    assert world.hosts.table.get(f"{BACKEND}#p0").allocated == 0  # type: ignore[union-attr]


def test_a_pool_that_vanishes_is_not_chosen_and_keeps_its_counters(world: World) -> None:
    placed = {place(world, 30).pool, place(world, 30).pool}
    assert len(placed) == 2
    report = world.agent.look()
    world.deliver(replace(report, pools=[figures for figures in report.pools if figures["pool_name"] == "p0"]))
    assert world.hosts.table.names == (f"{BACKEND}#p0",)
    assert world.rows("SELECT present, allocated_capacity_gb FROM pools ORDER BY name") == [(1, 30), (0, 30)]
    world.start_scheduler()
    assert world.hosts.table.names == (f"{BACKEND}#p0",)
    world.report()
    assert world.hosts.table.get(f"{BACKEND}#p1").allocated == 30  # type: ignore[union-attr]
    world.check()


def test_late_repeated_and_past_reports_change_nothing(world: World) -> None:
    early = changed(world.agent.look(), "p0", total_capacity_gb=1)
    world.report()
    world.deliver(early)
    past = changed(world.agent.look(), "p0", total_capacity_gb=2)
    world.start_agent()
    world.deliver(past)
    assert world.rows("SELECT total_capacity_gb FROM pools") == [(20.0,), (20.0,)]


def test_a_report_that_brings_nothing_new_writes_no_pool(world: World) -> None:
    before = world.rows("SELECT reported_at, generation FROM pools ORDER BY name")
    world.report()
    assert world.rows("SELECT reported_at, generation FROM pools ORDER BY name") == before


def test_new_capabilities_make_decisions_that_saw_the_old_ones_void(world: World) -> None:
    other = World(world.pools, engine=world.engine)
    other.agent = world.agent
    other.deliver(changed(world.agent.look(), "p0", media="ssd"))
    assert world.rows("SELECT generation FROM pools ORDER BY name") == [(2,), (1,)]
    assert [place(world, 40).refusal, place(world, 40).refusal] == [None, None]
    assert world.hosts.table.get(f"{BACKEND}#p0").capabilities == {"media": "ssd"}  # type: ignore[union-attr]


def test_the_same_hello_twice_is_one_epoch_and_a_new_process_is_another(world: World) -> None:
    hello = Hello(backend=BACKEND, nonce=world.agent.nonce, availability_zone="nova", driver="memory")
    assert [answer.epoch for answer in world.registration.hellos([hello, hello])] == [1, 1]  # type: ignore[union-attr]
    [welcome] = world.registration.hellos([replace(hello, nonce="another")])
    assert welcome.epoch == 2  # type: ignore[union-attr]
    past = Outcome(backend=BACKEND, epoch=1, claim_id="x", ok=True, end_tick=1)
    assert [receipt.accepted for receipt in world.outcome_handler.outcomes([past])] == [False]  # type: ignore[union-attr]


def test_an_epoch_that_the_ledger_does_not_know_asks_for_a_hello(world: World) -> None:
    asked: list[str] = []
    world.rejoin = asked.append  # type: ignore[method-assign]
    world.deliver(replace(world.agent.look(), epoch=9))
    [refused] = world.outcome_handler.outcomes([Outcome(backend=BACKEND, epoch=9, claim_id="x", ok=True, end_tick=1)])
    assert isinstance(refused, errors.Unavailable)
    assert asked == [BACKEND, BACKEND]


def test_a_backend_that_falls_silent_goes_down_and_comes_back(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world.pass_time(61)
    world.hosts.update_statuses(world.now)
    refused = place(world, 1).refusal
    assert refused is not None
    assert "BackendStateFilter refused 2" in refused.message
    assert "is down: no report for" in refused.message
    world.report()
    assert place(world, 1).pool is not None
    assert next(record.levelname for record in caplog.records if "is down" in record.getMessage()) == "WARNING"


def test_a_copy_left_in_one_pool_is_not_the_volume_in_another(world: World) -> None:
    made = place(world, 3)
    assert made.pool is not None
    other = "p1" if made.pool.endswith("p0") else "p0"
    world.pools[other].volumes[made.volume_id] = (3, "thin")  # type: ignore[assignment]
    world.start_agent()
    assert world.rows("SELECT status FROM volumes") == [("creating",)]
    assert [command.pool for command in world.agent.commands] == [made.pool.rpartition("#")[2]]


def test_bad_values_in_an_outcome_do_not_keep_a_claim_from_ending(world: World) -> None:
    volume = place(world, 3).volume_id
    world.settle()
    world.extend(volume, 5)
    [command] = world.agent.commands
    odd = Outcome(
        backend=BACKEND,
        epoch=command.epoch,
        claim_id=command.claim_id,
        ok=False,
        end_tick=world.agent.next_tick(),
        size_gb=float("nan"),
        message="\0\ud800" + "x" * 100_000,
    )
    [receipt] = world.outcome_handler.outcomes([odd])
    assert receipt.accepted  # type: ignore[union-attr]
    [(status, reason)] = world.rows("SELECT status, status_reason FROM volumes")
    assert status == "error_extending"
    assert reason.startswith("??xxx")
    assert len(reason) == 4000


def test_one_report_that_cannot_be_taken_in_does_not_keep_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_once(*given: Any) -> Any:
        monkeypatch.undo()
        raise RecursionError("too deep")

    monkeypatch.setattr(world.hosts, "diff_report", fail_once)
    [failed] = world.report_handler.reports([world.agent.look()])
    assert isinstance(failed, RecursionError)
    [taken] = world.report_handler.reports([changed(world.agent.look(), "p0", total_capacity_gb=33)])
    assert taken is None
    assert world.hosts.table.get(f"{BACKEND}#p0").total == 33  # type: ignore[union-attr]


def test_of_reports_that_come_together_the_newest_counts(world: World) -> None:
    old, new = world.agent.look(), changed(world.agent.look(), "p0", total_capacity_gb=33)
    assert world.report_handler.reports([new, old]) == [None, None]
    assert world.hosts.table.get(f"{BACKEND}#p0").total == 33  # type: ignore[union-attr]


def test_a_moved_backend_is_in_its_new_zone(world: World) -> None:
    hello = Hello(backend=BACKEND, nonce=world.agent.nonce, availability_zone="west", driver="memory")
    world.registration.hellos([hello])
    assert set(world.hosts.table.zones) == {"west"}


def test_auto_is_worked_out_from_what_was_reported(world: World) -> None:
    world.pools["p0"].volumes["by-hand"] = (30, "thick")  # type: ignore[assignment]
    world.deliver(changed(world.agent.look(), "p0", max_over_subscription_ratio="auto", free_capacity_gb=14))
    row = world.hosts.table.get(f"{BACKEND}#p0")
    assert row is not None
    assert row.ratio == auto_ratio(20, 14, 30, 0) == 1 + 30 / (20 - 14 + 1)


def test_without_provisioned_capacity_allocated_stands_in(world: World) -> None:
    world.pools["p0"].reports_provisioned = world.pools["p1"].reports_provisioned = False
    world.report()
    place(world, 40)
    place(world, 39)
    refused = place(world, 2).refusal
    assert refused is not None
    assert refused.nearest is not None
    assert refused.nearest.rejection.numbers["headroom"] == 1
    world.settle()
    assert place(world, 2).refusal is not None
    world.check()


def test_an_auto_ratio_stays_as_it_was_worked_out_until_the_next_report(world: World) -> None:
    def figures() -> BackendReport:
        return changed(
            world.agent.look(),
            "p0",
            max_over_subscription_ratio="auto",
            provisioned_capacity_gb=None,
            free_capacity_gb=15,
        )

    world.deliver(changed(figures(), "p1", free_capacity_gb=0))
    name = f"{BACKEND}#p0"
    assert place(world, 12).pool == name
    row = world.hosts.table.get(name)
    assert row is not None
    assert row.ratio == 20
    world.start_scheduler()
    assert world.hosts.table.get(name).ratio == 20  # type: ignore[union-attr]
    world.deliver(changed(figures(), "p1", free_capacity_gb=0))
    assert world.hosts.table.get(name).ratio == 1 + 12 / (20 - 15 + 1)  # type: ignore[union-attr]
    assert world.rows(f"SELECT ratio FROM pools WHERE name = '{name}'") == [(3.0,)]


def test_no_remark_is_made_on_reports_that_cannot_be_recorded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    report = changed(world.agent.look(), "p0", total_capacity_gb="many")
    world.database.connectivity.record_refusal(OSError("database or disk is full"))
    [result] = world.report_handler.reports([report])
    assert isinstance(result, errors.DatabaseUnreachable)
    assert "total_capacity_gb" not in caplog.text


class LargeWorld(World):
    """A backend with seven pools, whose reports are applied in parts of at most three."""

    part_size = 3

    def deliver_parts(self) -> None:
        """Wait: the test decides when the next part has its turn."""

    def next_part(self) -> None:
        self.report_handler.reports([self.parts.pop(0)])


@pytest.fixture
def large() -> LargeWorld:
    return LargeWorld({f"p{number}": StoragePool(20, 2.0, thin=True, thick=False) for number in range(7)}).started()


def totals(world: World) -> dict[str, float]:
    """Return the total capacity of each pool in the cache, which has to be that in the ledger."""
    cached = {
        name.rpartition("#")[2]: world.hosts.table.row(row).total for row, name in enumerate(world.hosts.table.names)
    }
    rows = dict(world.rows("SELECT name, total_capacity_gb FROM pools WHERE present ORDER BY name"))
    assert {name.rpartition("#")[2]: total for name, total in rows.items()} == cached
    return dict(sorted(cached.items()))


def resized(world: World, total: int) -> BackendReport:
    report = world.agent.look()
    return replace(report, pools=[{**pool, "total_capacity_gb": total} for pool in report.pools])


def test_a_large_report_is_applied_in_parts_and_decisions_take_their_turn_between_them(large: LargeWorld) -> None:
    assert list(totals(large)) == ["p0", "p1", "p2"]
    answer = place(large, 5)
    assert answer.pool in {f"{BACKEND}#p{number}" for number in range(3)}
    large.next_part()
    assert len(totals(large)) == 6
    large.next_part()
    assert len(totals(large)) == 7
    assert large.parts == []


def test_changed_figures_of_a_large_report_are_applied_in_parts(large: LargeWorld) -> None:
    while large.parts:
        large.next_part()
    large.deliver(resized(large, 30))
    assert list(totals(large).values()) == [30.0] * 3 + [20.0] * 4
    large.next_part()
    large.next_part()
    assert set(totals(large).values()) == {30.0}
    assert large.parts == []


def test_claims_in_pools_of_a_later_part_stay_in_flight_until_it_is_applied(large: LargeWorld) -> None:
    while large.parts:
        large.next_part()
    answers = [place(large, 15) for _ in range(7)]
    assert {answer.pool for answer in answers} == set(large.hosts.table.names)
    for _ in answers:
        outcome = large.agent.work()
        assert outcome is not None
        large.deliver(outcome)
    in_flight = []
    large.deliver(resized(large, 40))
    while large.parts:
        in_flight.append([row[0] for row in large.rows("SELECT in_flight_gb FROM pools ORDER BY name")])
        large.next_part()
    assert in_flight == [[0] * 3 + [15] * 4, [0] * 6 + [15]]
    assert set(large.rows("SELECT in_flight_gb FROM pools")) == {(0,)}


def test_a_newer_report_replaces_what_remains_of_an_older_one(large: LargeWorld) -> None:
    large.deliver(resized(large, 30))
    first, second = large.parts
    large.parts.clear()
    large.deliver(resized(large, 50))
    large.report_handler.reports([first])
    large.report_handler.reports([second])
    while large.parts:
        large.next_part()
    assert totals(large) == dict.fromkeys([f"p{number}" for number in range(7)], 50.0)


def test_the_rest_of_a_report_comes_with_the_next_one_if_the_scheduler_ends(large: LargeWorld) -> None:
    large.start_scheduler()
    assert len(totals(large)) == 3
    assert large.parts == []
    large.report()
    while large.parts:
        large.next_part()
    assert len(totals(large)) == 7


def test_another_scheduler_reads_each_part(large: LargeWorld) -> None:
    """Each part has a number of its own, so that the cache of another scheduler is outdated after each."""
    cache = HostManager(20.0, large.calculation, 60.0)
    refresh = CacheRefresh(cache, lambda: large.now)
    while large.parts:
        large.next_part()
    large.deliver(resized(large, 30))
    for _ in range(3):
        with large.database.reading() as session:
            refresh.refresh(session)
        assert {name: cache.table.row(row).total for row, name in enumerate(cache.table.names)} == {
            f"{BACKEND}#{name}": total for name, total in totals(large).items()
        }
        if large.parts:
            large.next_part()


def test_unusable_pools_are_read_once_and_the_report_comes_to_its_end(
    large: LargeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    while large.parts:
        large.next_part()
    report = resized(large, 30)
    large.deliver(
        replace(report, pools=[{**pool, "total_capacity_gb": "many"} for pool in report.pools[:6]] + report.pools[6:])
    )
    for _ in range(2):
        large.next_part()
    assert large.parts == []
    assert list(totals(large).values()) == [20.0] * 6 + [30.0]


def test_pools_of_a_later_part_have_not_vanished(large: LargeWorld) -> None:
    while large.parts:
        large.next_part()
    report = resized(large, 30)
    large.deliver(replace(report, pools=report.pools[1:]))
    assert list(totals(large)) == [f"p{number}" for number in range(1, 7)]
    while large.parts:
        large.next_part()
    assert totals(large) == dict.fromkeys([f"p{number}" for number in range(1, 7)], 30.0)


def test_a_transaction_has_the_parts_of_several_reports_as_far_as_it_has_room(world: World) -> None:
    assert world.part_size > 1
    world.report_handler.part_size = 1
    first = changed(world.agent.look(), "p0", total_capacity_gb=30)
    world.report_handler.reports([first])
    assert world.parts == []
    assert world.rows("SELECT total_capacity_gb FROM pools ORDER BY name") == [(30.0,), (20.0,)]


def test_many_remarks_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    pools = {f"p{number}": StoragePool(20, 2.0, thin=True, thick=False) for number in range(50)}
    world = World(pools).started()
    report = world.agent.look()
    caplog.clear()
    world.deliver(replace(report, pools=[{**pool, "free_capacity_gb": "much"} for pool in report.pools]))
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "50 new remarks about its report, of which the first are" in line
    assert line.count("free_capacity_gb is 'much'") == 3
    world.deliver(replace(world.agent.look(), pools=[]))
    [_, line] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "50 pools are no longer reported" in line
