# SPDX-License-Identifier: Apache-2.0
"""Tests of the usage of foreign consumers, with a fake Placement."""

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
from tonnage.extensions.placement import placement_allocations, project_usage
from tonnage.extensions.placement.client import PlacementRefused, PlacementUnavailable
from tonnage.extensions.placement.project_usage import PlacementUsage
from tonnage.ledger.db import database
from tonnage.quotas.limits import Scope
from tonnage.quotas.options import Settings

DEMO = Scope("demo")


class FakePlacement:
    """A fake client of Placement.

    ``gigabytes`` has the used GiB by user id, with an empty id for the whole project, or is None while Placement is
    unavailable. ``meanwhile`` runs during each read.
    """

    def __init__(self, **used: int) -> None:
        self.timeout = 5.0
        self.gigabytes: dict[str, int] | None = {"": used.pop("all", 0), **used}
        self.calls = 0
        self.problem: Exception = PlacementUnavailable("nobody there")
        self.meanwhile: Callable[[], object] = lambda: None

    def usage(self, project_id: str, user_id: str = "") -> int:
        self.calls += 1
        if self.gigabytes is None:
            raise self.problem
        found = self.gigabytes[user_id]
        self.meanwhile()
        return found


class UsageReader:
    """A ledger with a reader of the usage of foreign consumers."""

    def __init__(self, placement: Any, engine: sa.Engine | None = None) -> None:
        pools = {"p0": StoragePool(1000, 2.0, thin=True, thick=False)}
        self.world = World(pools, engine=engine).started()
        self.now = 0.0
        self.usage = PlacementUsage(
            self.world.database, placement, Settings(placed_only=True), lambda: self.now, attempt_pause=0.0
        )

    def write(self, end: bool = True) -> list[placement_allocations.AllocationChange]:
        """Record all allocations as written or, with ``end`` False, as being written."""
        with self.world.database.reading() as session:
            ids = placement_allocations.compare(session).volume_ids
        plan = self.world.database.run(placement_allocations.plan, ids, "round")
        if end:
            self.world.database.run(placement_allocations.record_sent, plan, "round")
        return plan

    def read(self, seconds: float = 10.0) -> int:
        self.now += seconds
        self.usage.read(["demo"])
        return self.usage.used_gb(DEMO)


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == project_usage.__name__ and one.levelno == level]


def test_usage_without_a_limit_is_not_read() -> None:
    placement = FakePlacement(all=50)
    reader = UsageReader(placement)
    assert (reader.read(), placement.calls) == (0, 0)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    assert (reader.read(), placement.calls) == (50, 1)
    assert reader.usage.used_gb(Scope("demo", "", "some-type")) == 0
    assert reader.usage.used_gb(Scope("demo", "u")) == 0
    # A user with a limit of his own is counted as well.
    assert placement.gigabytes is not None
    placement.gigabytes["u"] = 7
    limit(reader.world, USER, {GIGABYTES: 10})
    assert reader.read() == 50
    assert reader.usage.used_gb(Scope("demo", "u")) == 7


def test_written_allocations_are_subtracted_from_the_usage() -> None:
    placement = FakePlacement(all=5)
    reader = UsageReader(placement)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    reader.world.create(5)
    reader.write()
    assert reader.read() == 0
    reader.world.create(6)
    assert reader.read() == 0
    placement.gigabytes = {"": 9}
    assert reader.read() == 4


def test_the_ledger_counts_until_all_older_volumes_are_written(caplog: pytest.LogCaptureFixture) -> None:
    placement = FakePlacement(all=50)
    reader = UsageReader(placement)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    reader.world.create(5)
    assert [reader.read(), reader.read()] == [0, 0]
    [warned] = messages(caplog, logging.WARNING)
    assert "'tonnage-manage db online_data_migrations' does that" in warned
    reader.write()
    # Volumes that are created later need not be written: they are known to be missing in Placement.
    reader.world.create(6)
    with caplog.at_level(logging.INFO):
        assert reader.read() == 45
    assert messages(caplog, logging.INFO) == ["Usage is counted from OpenStack Placement"]


def test_an_unavailable_placement_is_logged_once_and_retried_later(caplog: pytest.LogCaptureFixture) -> None:
    placement = FakePlacement(all=50)
    reader = UsageReader(placement)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    assert reader.read() == 50
    placement.gigabytes = None
    assert [reader.read(), reader.read(1.0), reader.read(1.0)] == [0, 0, 0]
    assert placement.calls == 2
    assert reader.read() == 0
    assert messages(caplog, logging.WARNING) == [
        "Usage is counted from the ledger, as OpenStack Placement is away (nobody there)"
    ]
    placement.gigabytes = {"": 50}
    assert reader.read() == 50
    placement.gigabytes = None
    reader.read()
    assert len(messages(caplog, logging.WARNING)) == 2


@pytest.mark.parametrize("problem", [PlacementRefused(404, "no such page"), RuntimeError("a bug")])
def test_errors_fail_no_request(problem: Exception, caplog: pytest.LogCaptureFixture) -> None:
    placement = FakePlacement()
    reader = UsageReader(placement)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    placement.gigabytes, placement.problem = None, problem
    assert reader.read() == 0
    assert f"Usage is counted from the ledger, as OpenStack Placement is away ({problem})" in caplog.text


def test_usage_during_a_write_is_ignored() -> None:
    placement = FakePlacement(all=50)
    reader = UsageReader(placement)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    assert reader.read() == 50
    reader.world.create(5)
    plan = reader.write(end=False)
    calls = placement.calls
    assert (reader.read(), placement.calls - calls) == (50, project_usage.ATTEMPTS)
    # The write ends between two attempts.
    placement.gigabytes = {"": 55}
    placement.meanwhile = lambda: reader.world.database.run(placement_allocations.record_sent, plan, "round")
    assert reader.read() == 50


def test_lost_allocations_are_written_again_and_not_counted_as_free(caplog: pytest.LogCaptureFixture) -> None:
    placement = FakePlacement(all=5)
    reader = UsageReader(placement)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    reader.world.create(5)
    reader.write()
    placement.gigabytes = {"": 2}
    assert reader.read() == 0
    assert "has lost 3 GiB of the allocations of project demo" in caplog.text
    assert [allocation.size_gb for allocation in reader.write()] == [5]


def test_concurrent_requests_for_a_project_share_one_read(tmp_path: pathlib.Path) -> None:
    placement = FakePlacement(all=50)
    engine = database.create_engine(f"sqlite:///{tmp_path}/tonnage.sqlite")
    reader = UsageReader(placement, engine)
    limit(reader.world, PROJECT, {GIGABYTES: 100})
    started, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        started.set()
        assert go_on.wait(30)

    placement.meanwhile = slowly
    with futures.ThreadPoolExecutor(8) as threads:
        first = threads.submit(reader.usage.read, ["demo"])
        assert started.wait(30)
        others = [threads.submit(reader.usage.read, ["demo"]) for _ in range(7)]
        go_on.set()
        for each in (first, *others):
            each.result(30)
    assert reader.usage.used_gb(DEMO) == 50
    assert placement.calls == 1
    engine.dispose()


def test_a_volume_deleted_before_its_allocation_was_written_leaves_nothing() -> None:
    reader = UsageReader(FakePlacement())
    volume_id = reader.world.made(5)
    run = reader.world.database.run
    run(placement_allocations.record_refused, reader.write(end=False), "round")
    reader.world.delete(volume_id)
    reader.world.settle()
    # Otherwise each round would find it again, and callers that wait for the end of all rounds would wait forever.
    assert (reader.write(), reader.write()) == ([], [])
    with reader.world.database.reading() as session:
        assert placement_allocations.compare(session).volume_ids == []
