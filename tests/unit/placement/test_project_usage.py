# SPDX-License-Identifier: Apache-2.0
"""Reading what is used beside the ledger's volumes, with a Placement that says what a test wants."""

import logging
import pathlib
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.quotas.test_reservations import GIGABYTES, PROJECT, USER, limit
from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger.catalog import placement_allocations
from tonnage.ledger.db import database
from tonnage.placement import project_usage
from tonnage.placement.client import Away, Refused
from tonnage.placement.project_usage import Usage
from tonnage.quotas.limits import Scope
from tonnage.quotas.options import Settings

DEMO = Scope("demo")


class Says:
    """Stands for Placement. ``used`` are GiB by user, empty for all; None: it is away."""

    def __init__(self, **used: int) -> None:
        self.timeout = 5.0
        self.gigabytes: dict[str, int] | None = {"": used.pop("all", 0), **used}
        self.asked = 0
        self.problem: Exception = Away("nobody there")
        self.meanwhile: Callable[[], object] = lambda: None

    def used(self, project_id: str, user_id: str = "") -> int:
        self.asked += 1
        if self.gigabytes is None:
            raise self.problem
        said = self.gigabytes[user_id]
        self.meanwhile()
        return said


class Reading:
    """A ledger, and what reads usage beside it."""

    def __init__(self, says: Any, engine: sa.Engine | None = None) -> None:
        pools = {"p0": StoragePool(1000, 2.0, thin=True, thick=False)}
        self.world = World(pools, engine=engine).started()
        self.now = 0.0
        self.pauses = 0
        self.usage = Usage(self.world.database, says, Settings(placed_only=True), lambda: self.now, self.pause)

    def pause(self, seconds: float) -> None:
        self.pauses += 1

    def tell(self, end: bool = True) -> list[placement_allocations.Telling]:
        """Note all as told, or as being told."""
        with self.world.database.reading() as session:
            ids = placement_allocations.compare(session).volume_ids
        plan = self.world.database.run(placement_allocations.plan, ids, "round")
        if end:
            self.world.database.run(placement_allocations.note, plan, "round")
        return plan

    def read(self, seconds: float = 10.0) -> int:
        self.now += seconds
        self.usage.read(["demo"])
        return self.usage.beyond(DEMO)


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == project_usage.__name__ and one.levelno == level]


def test_nobody_is_asked_about_what_has_no_limit() -> None:
    says = Says(all=50)
    reading = Reading(says)
    assert (reading.read(), says.asked) == (0, 0)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    assert (reading.read(), says.asked) == (50, 1)
    assert reading.usage.beyond(Scope("demo", "", "some-type")) == 0
    assert reading.usage.beyond(Scope("demo", "u")) == 0
    # A user who has a limit of his own is counted as well.
    assert says.gigabytes is not None
    says.gigabytes["u"] = 7
    limit(reading.world, USER, {GIGABYTES: 10})
    assert reading.read() == 50
    assert reading.usage.beyond(Scope("demo", "u")) == 7


def test_what_was_told_is_taken_off_and_what_was_not_is_the_ledgers() -> None:
    says = Says(all=5)
    reading = Reading(says)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    reading.world.create(5)
    reading.tell()
    assert reading.read() == 0
    reading.world.create(6)
    assert reading.read() == 0
    says.gigabytes = {"": 9}
    assert reading.read() == 4


def test_until_all_that_was_there_has_been_told_the_ledger_counts(caplog: pytest.LogCaptureFixture) -> None:
    says = Says(all=50)
    reading = Reading(says)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    reading.world.create(5)
    assert [reading.read(), reading.read()] == [0, 0]
    [warned] = messages(caplog, logging.WARNING)
    assert "'tonnage-manage db online_data_migrations' does that" in warned
    reading.tell()
    # What is made from now on need not have been told: it is known to be missing.
    reading.world.create(6)
    with caplog.at_level(logging.INFO):
        assert reading.read() == 45
    assert messages(caplog, logging.INFO) == ["Usage is counted from OpenStack Placement"]


def test_while_placement_is_away_it_is_left_alone_and_nobody_warned_again(caplog: pytest.LogCaptureFixture) -> None:
    says = Says(all=50)
    reading = Reading(says)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    assert reading.read() == 50
    says.gigabytes = None
    assert [reading.read(), reading.read(1.0), reading.read(1.0)] == [0, 0, 0]
    assert says.asked == 2
    assert reading.read() == 0
    assert messages(caplog, logging.WARNING) == [
        "Usage is counted from the ledger, as OpenStack Placement is away (nobody there)"
    ]
    says.gigabytes = {"": 50}
    assert reading.read() == 50
    says.gigabytes = None
    reading.read()
    assert len(messages(caplog, logging.WARNING)) == 2


@pytest.mark.parametrize("problem", [Refused(404, "no such page"), RuntimeError("a bug")])
def test_whatever_goes_wrong_fails_no_request(problem: Exception, caplog: pytest.LogCaptureFixture) -> None:
    says = Says()
    reading = Reading(says)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    says.gigabytes, says.problem = None, problem
    assert reading.read() == 0
    assert f"Usage is counted from the ledger, as OpenStack Placement is away ({problem})" in caplog.text


def test_a_figure_that_may_hold_what_is_just_being_told_is_not_believed() -> None:
    says = Says(all=50)
    reading = Reading(says)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    assert reading.read() == 50
    reading.world.create(5)
    plan = reading.tell(end=False)
    assert (reading.read(), reading.pauses) == (50, project_usage._LOOKS - 1)
    # It ends between the two looks.
    says.gigabytes = {"": 55}
    says.meanwhile = lambda: reading.world.database.run(placement_allocations.note, plan, "round")
    assert reading.read() == 50


def test_what_placement_has_lost_is_told_again_and_given_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    says = Says(all=5)
    reading = Reading(says)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    reading.world.create(5)
    reading.tell()
    says.gigabytes = {"": 2}
    assert reading.read() == 0
    assert "has lost 3 GiB of what it was told of project demo" in caplog.text
    assert [telling.size_gb for telling in reading.tell()] == [5]


def test_one_asks_for_all_who_need_the_same_project(tmp_path: pathlib.Path) -> None:
    says = Says(all=50)
    engine = database.create_engine(f"sqlite:///{tmp_path}/tonnage.sqlite")
    reading = Reading(says, engine)
    limit(reading.world, PROJECT, {GIGABYTES: 100})
    asking, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        asking.set()
        assert go_on.wait(30)

    says.meanwhile = slowly
    with futures.ThreadPoolExecutor(8) as threads:
        first = threads.submit(reading.usage.read, ["demo"])
        assert asking.wait(30)
        others = [threads.submit(reading.usage.read, ["demo"]) for _ in range(7)]
        go_on.set()
        for each in (first, *others):
            each.result(30)
    assert reading.usage.beyond(DEMO) == 50
    assert says.asked == 1
    engine.dispose()


def test_of_a_volume_that_is_gone_before_placement_took_it_nothing_is_left() -> None:
    reading = Reading(Says())
    volume_id = reading.world.made(5)
    run = reading.world.database.run
    run(placement_allocations.refused, reading.tell(end=False), "round")
    reading.world.delete(volume_id)
    reading.world.settle()
    # Else each round would find it anew, and whoever waits for the end of the rounds would wait forever.
    assert (reading.tell(), reading.tell()) == ([], [])
    with reading.world.database.reading() as session:
        assert placement_allocations.compare(session).volume_ids == []
