# SPDX-License-Identifier: Apache-2.0
"""Reports whose turn another scheduler has: taken over from the ledger, or applied after too long a wait."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from tests.unit.ledger import faults
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.ledger.db import database
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.deferred_reports import DeferredReports

POOL = f"{BACKEND}#p0"


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    engine = database.create_engine("sqlite://")
    yield engine
    engine.dispose()


@pytest.fixture
def one(engine: sa.Engine) -> World:
    return World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=engine).started()


@pytest.fixture
def two(one: World) -> World:
    """A second scheduler, which the same agent reports to."""
    world = World(one.pools, engine=one.engine)
    world.agent = one.agent
    return world


def provisioned(world: World) -> float:
    return float(world.rows("SELECT provisioned_capacity_gb FROM pools")[0][0])


def deferred(world: World, *reports: BackendReport, timeout: float = 10.0) -> DeferredReports:
    """Return these reports deferred by a scheduler, as they came one second after another."""
    deferred_reports = DeferredReports(
        world.database,
        world.cache_refresh,
        world.registration,
        world.dispatcher,
        lambda message: world.report_handler.reports([message.unpack()]),
        lambda: world.now,
        timeout,
    )
    before = world.now
    for number, report in enumerate(reports):
        world.now = before + number
        deferred_reports.put([PackedReport.of(report)])
    world.now = before
    return deferred_reports


def test_a_report_that_waited_too_long_is_applied_out_of_turn(one: World, two: World) -> None:
    one.create(5)
    one.agent.work()
    report = one.agent.look()
    waiting = deferred(two, report, timeout=2.0)
    two.now = 1.0
    waiting.run()
    assert provisioned(one) == 0
    two.now = 2.0
    waiting.run()
    assert provisioned(one) == 5
    deferred(one, report).run()
    for world in (one, two):
        row = world.hosts.table.get(POOL)
        assert row is not None
        assert (row.provisioned, world.hosts.backend(BACKEND).report_seq) == (5, report.seq)  # type: ignore[union-attr]


def test_a_deferred_report_that_another_scheduler_applied_is_adopted(one: World, two: World) -> None:
    one.create(5)
    one.agent.work()
    reports = [one.agent.look(), one.agent.look(), one.agent.look()]
    waiting = deferred(two, *reports)
    one.deliver(*reports[:2])
    waiting.run()
    backend = two.hosts.backend(BACKEND)
    assert backend is not None
    assert (backend.report_seq, backend.reported_here) == (reports[1].seq, True)
    row = two.hosts.table.get(POOL)
    assert row is not None
    assert (row.provisioned, row.allocated) == (5, 5)
    one.deliver(reports[2])
    waiting.run()
    assert backend.report_seq == reports[2].seq


def test_the_wait_of_a_deferred_report_begins_at_the_last_progress(one: World, two: World) -> None:
    one.create(5)
    one.agent.work()
    reports = [one.agent.look(), one.agent.look()]
    waiting = deferred(two, *reports, timeout=10.0)
    one.deliver(reports[0])
    two.now = 10.5
    waiting.run()
    assert one.rows("SELECT report_seq FROM backends") == [(reports[0].seq,)]
    two.now = 11.0
    waiting.run()
    assert one.rows("SELECT report_seq FROM backends") == [(reports[1].seq,)]


def test_the_newest_deferred_report_is_applied_in_any_order_of_arrival(one: World, two: World) -> None:
    reports = [one.agent.look(), one.agent.look(), one.agent.look()]
    waiting = deferred(two, reports[1], reports[2], reports[0], timeout=0.0)
    two.now = 3.0
    waiting.run()
    assert one.rows("SELECT report_seq FROM backends") == [(reports[2].seq,)]


def test_a_newer_report_from_the_ledger_replaces_a_deferred_one(one: World, two: World) -> None:
    one.create(5)
    one.agent.work()
    reports = [one.agent.look(), one.agent.look()]
    one.deliver(*reports)
    deferred(two, reports[0]).run()
    row = two.hosts.table.get(POOL)
    assert row is not None
    assert (row.provisioned, row.allocated, two.hosts.backend(BACKEND).report_seq) == (5, 5, reports[1].seq)  # type: ignore[union-attr]


def test_a_report_that_cannot_be_written_now_stays_deferred(one: World, two: World) -> None:
    one.create(5)
    one.agent.work()
    waiting = deferred(two, one.agent.look(), timeout=0.0)
    away = errors.Unavailable("the database does not answer")

    def refuse(connection: object) -> None:
        raise away

    with faults.failing(two.engine, "", away), pytest.raises(errors.Unavailable):
        waiting.run()
    with faults.before_transaction(two.engine, refuse):
        waiting.run()
    assert provisioned(one) == 0
    waiting.run()
    assert provisioned(one) == 5


def test_a_malformed_report_does_not_block_deferred_ones(
    one: World, two: World, caplog: pytest.LogCaptureFixture
) -> None:
    report = one.agent.look()
    waiting = deferred(two, timeout=0.0)
    waiting.put([replace(PackedReport.of(report), pools="rubbish")])
    waiting.run()
    assert two.hosts.backend(BACKEND).report_seq < report.seq  # type: ignore[union-attr]
    assert "its pools cannot be read" in caplog.text or "malformed" in caplog.text
    one.deliver(report)
    waiting.put([PackedReport.of(report)])
    with faults.failing(two.engine, "FROM pools", ZeroDivisionError()):
        waiting.run()
    assert "could not be taken over" in caplog.text
    waiting.run()
    assert two.hosts.backend(BACKEND).report_seq == report.seq  # type: ignore[union-attr]


def test_a_report_that_keeps_failing_is_tried_after_longer_and_longer_times(one: World, two: World) -> None:
    tried: list[float] = []
    waiting = deferred(two, one.agent.look(), timeout=2.0)
    waiting._apply = lambda message: tried.append(two.now)
    for second in range(40):
        two.now = float(second)
        waiting._due = 0.0
        waiting.run()
    assert tried == [2, 6, 14, 30]
