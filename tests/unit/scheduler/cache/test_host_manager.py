# SPDX-License-Identifier: Apache-2.0
"""What memory has is what the ledger has, also where another scheduler was faster."""

from collections.abc import Callable
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

import pytest
from sqlalchemy import orm

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.pools.pool_table import Pool
from tonnage.ledger.db import database
from tonnage.rpc.messages import Answer, BackendReport

P = ParamSpec("P")
T = TypeVar("T")


@pytest.fixture
def world() -> World:
    return World({name: StoragePool(20, 2.0, thin=True, thick=False) for name in ("p0", "p1")}).started()


@pytest.fixture
def other(world: World) -> World:
    """Another scheduler on the same ledger and the same agent."""
    other = World(world.pools, engine=world.engine)
    other.agent = world.agent
    return other


def only_p0(report: BackendReport) -> BackendReport:
    return replace(report, pools=[figures for figures in report.pools if figures["pool_name"] == "p0"])


def pool(world: World, name: str) -> Pool:
    found = world.hosts.table.get(f"{BACKEND}#{name}")
    assert found is not None
    return found


def test_a_pool_that_another_scheduler_saw_vanish_is_forgotten(world: World, other: World) -> None:
    report = only_p0(world.agent.look())
    other.deliver(report)
    world.deliver(report)
    assert world.hosts.table.names == (f"{BACKEND}#p0",)
    world.hosts.update_statuses(world.now + 3600)
    world.report()
    assert len(world.hosts.table) == 2


def test_a_pool_that_vanished_from_a_report_to_another_scheduler_takes_no_volumes(world: World, other: World) -> None:
    world.pools["p1"].total = 100
    world.report()
    other.deliver(only_p0(world.agent.look()))
    [answer] = world.create(1)
    assert isinstance(answer, Answer)
    assert answer.pool == f"{BACKEND}#p0"


@pytest.mark.parametrize("totals", [(20, 99), (50, 99), (50, 20)])
def test_of_a_pool_that_is_reported_twice_the_first_counts(
    world: World, totals: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    report = world.agent.look()
    twice = [{**report.pools[0], "total_capacity_gb": total} for total in totals]
    world.deliver(replace(report, pools=[*twice, report.pools[1]]))
    assert pool(world, "p0").total == totals[0]
    assert f"pool {BACKEND}#p0 is reported twice" in caplog.text
    world.start_scheduler()
    assert pool(world, "p0").total == totals[0]


@pytest.mark.parametrize("name", [["p0"], {"p0": 1}, None, 7])
def test_a_pool_whose_name_is_no_text_does_not_keep_the_others(world: World, name: object) -> None:
    report = world.agent.look()
    world.deliver(replace(report, pools=[{**report.pools[0], "total_capacity_gb": 33}, {"pool_name": name}]))
    assert pool(world, "p0").total == 33


@pytest.mark.parametrize(
    "change",
    [{"max_over_subscription_ratio": 0.5}, {"total_capacity_gb": "unknown", "reserved_percentage": 10}],
)
def test_a_report_that_rules_a_pool_out_invalidates_decisions_by_earlier_figures(
    world: World, other: World, change: dict[str, object]
) -> None:
    report = world.agent.look()
    other.deliver(replace(report, pools=[{**figures, **change} for figures in report.pools]))
    [answer] = world.create(1)
    assert isinstance(answer, Answer)
    assert answer.refusal is not None


class Forgetful(database.Database):
    """A database whose first answer to a commit gets lost, so that the transaction is run again."""

    def run(self, work: Callable[Concatenate[orm.Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        super().run(work, *args, **kwargs)
        return super().run(work, *args, **kwargs)


def test_a_commit_whose_answer_was_lost_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.placer, "_database", Forgetful(world.engine))
    first, second = world.create_message(3), world.create_message(4)
    answers = world.place([first, second])
    assert [answer.volume_id for answer in answers if isinstance(answer, Answer)] == [first.volume_id, second.volume_id]
    booked = world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools ORDER BY name")
    assert [(pool(world, name).allocated, pool(world, name).in_flight) for name in ("p0", "p1")] == booked
    assert sum(allocated for allocated, _ in booked) == 7
    world.sweep()
    assert sorted(command.size_gb for command in world.agent.commands) == [3, 4]
