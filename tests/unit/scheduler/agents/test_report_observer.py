# SPDX-License-Identifier: Apache-2.0
"""The hooks of an extension that observes reports: when they are called, and what an exception of one does."""

import uuid
from collections.abc import Mapping, Sequence

import pytest
from sqlalchemy import orm

from tests.unit.scheduler.hook_notes import FAILED_AFTER_COMMIT, NOTE
from tests.unit.scheduler.world import BACKEND, Agent, StoragePool
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.inventory import backends
from tonnage.rpc.messages import CreateVolume, Hello
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.report_observer import AppliedReport, ReportObserver
from tonnage.scheduler.cache.report_diff import ReportDiff
from tonnage.scheduler.extension_parts import PartsBuilder, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager


class Reports(ReportObserver):
    """Records the calls, and raises an error where ``failing`` names the method."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing = ""

    def received(self, diffs: Sequence[ReportDiff]) -> None:
        self._called("received")

    def written(self, session: orm.Session, reports: Sequence[AppliedReport]) -> None:
        session.add(models.Message(id=uuid.uuid4().hex, project_id="p", resource_id="r", event="e", text="seen"))
        session.flush()
        self._called("written")

    def applied(self, diffs: Sequence[ReportDiff]) -> None:
        self._called("applied")

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name == self.failing:
            raise LookupError(name)


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def builders(reports: Reports) -> Mapping[str, PartsBuilder]:
    """An extension with two observers, one of which has the methods of the base class alone."""
    return {"example": lambda context: SchedulerParts(report_observers=[ReportObserver(), reports])}


def report(core: SchedulerManager, free: float) -> None:
    """Send a report of a new process of the backend, and wait until it is taken in."""
    agent = Agent({"p0": StoragePool(free, 2.0, thin=True, thick=False)})
    nonce = uuid.uuid4().hex
    agent.epoch = core.hello(Hello(backend=BACKEND, nonce=nonce, availability_zone="nova", driver="memory")).epoch
    core.report(PackedReport.of(agent.look()))
    core.explain(request())


def request() -> CreateVolume:
    return CreateVolume(request_id=uuid.uuid4().hex, volume_id=str(uuid.uuid4()), size_gb=1, project_id="p")


def messages(ledger: database.Database) -> int:
    with ledger.reading() as session:
        return session.query(models.Message).count()


def total(ledger: database.Database) -> float | None:
    with ledger.reading() as session:
        return backends.load_pools(session)[0].stats["total_capacity_gb"]


def test_a_report_is_shown_before_in_and_after_its_transaction(
    core: SchedulerManager, ledger: database.Database, reports: Reports
) -> None:
    report(core, 30)
    assert reports.calls == ["received", "written", "applied"] * 2
    assert messages(ledger) == 2


def test_an_exception_in_the_transaction_rolls_it_back_and_names_the_extension(
    core: SchedulerManager, ledger: database.Database, reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    core.explain(request())
    before = total(ledger)
    reports.failing = "written"
    report(core, 30)
    assert (total(ledger), messages(ledger)) == (before, 1)
    assert f"The report of {BACKEND} could not be applied" in caplog.text
    assert NOTE in caplog.text
    reports.failing = ""
    report(core, 31)
    assert total(ledger) == 31


def test_an_exception_after_the_commit_is_logged(
    core: SchedulerManager, ledger: database.Database, reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    reports.failing = "applied"
    report(core, 30)
    assert total(ledger) == 30
    assert FAILED_AFTER_COMMIT in caplog.text
