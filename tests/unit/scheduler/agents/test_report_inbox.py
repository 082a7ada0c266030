# SPDX-License-Identifier: Apache-2.0
"""The inbox of reports: the newest of each backend is applied, a bounded number of pools at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.servers import ledger_schema
from tests.unit.scheduler import managers
from tonnage.ledger.db import database
from tonnage.metrics import instruments
from tonnage.rpc.clients.command_sender import CommandSender
from tonnage.rpc.messages import BackendReport, Hello
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.report_handler import ReportHandler
from tonnage.scheduler.agents.report_inbox import ReportInbox
from tonnage.scheduler.manager import SchedulerManager


class Decisions:
    """The decision thread: it notes the backends whose turn comes, and the reports that are applied."""

    def __init__(self, part_size: int = 2500) -> None:
        self.waiting: list[str] = []
        self.applied: list[list[tuple[str, int, int]]] = []
        handler = mock.create_autospec(ReportHandler, instance=True, part_size=part_size)
        handler.reports.side_effect = self._apply
        self.inbox = ReportInbox(self.waiting.append, handler)

    def run(self) -> None:
        backends, self.waiting[:] = list(self.waiting), []
        assert self.inbox.apply(backends) == [None] * len(backends)

    def _apply(self, reports: Sequence[BackendReport]) -> None:
        self.applied.append([(report.backend, report.epoch, report.seq) for report in reports])


def report(backend: str, seq: int, epoch: int = 1, pools: Sequence[dict[str, Any]] = ()) -> PackedReport:
    return PackedReport.of(BackendReport(backend=backend, epoch=epoch, seq=seq, covers=seq, pools=list(pools)))


def late() -> float:
    return instruments.REPORTS.labels("late")._value.get()


def test_only_the_newest_report_of_a_backend_is_applied() -> None:
    decisions, before = Decisions(), late()
    for message in (report("h@a", 1), report("h@b", 7), report("h@a", 3), report("h@a", 2)):
        decisions.inbox.put(message)
    assert decisions.waiting == ["h@a", "h@b"]
    decisions.run()
    assert decisions.applied == [[("h@a", 1, 3), ("h@b", 1, 7)]]
    assert late() == before + 2


def test_a_report_of_a_later_epoch_is_newer_whatever_its_number() -> None:
    decisions = Decisions()
    for message in (report("h@a", 9), report("h@a", 1, epoch=2), report("h@a", 10)):
        decisions.inbox.put(message)
    decisions.run()
    assert decisions.applied == [[("h@a", 2, 1)]]


def test_a_report_that_comes_after_the_turn_of_its_backend_has_a_turn_of_its_own() -> None:
    decisions = Decisions()
    for seq in (1, 2):
        decisions.inbox.put(report("h@a", seq))
        decisions.run()
    assert decisions.applied == [[("h@a", 1, 1)], [("h@a", 1, 2)]]


def test_long_reports_are_unpacked_in_several_turns() -> None:
    decisions = Decisions(part_size=4)
    for backend, pools in (("h@a", 3), ("h@b", 3), ("h@c", 9), ("h@d", 1)):
        decisions.inbox.put(report(backend, 1, pools=[{}] * pools))
    while decisions.waiting:
        decisions.run()
    assert decisions.applied == [[("h@a", 1, 1), ("h@b", 1, 1)], [("h@c", 1, 1)], [("h@d", 1, 1)]]


def test_a_remainder_comes_before_packed_reports_unless_a_newer_report_of_its_backend_waits() -> None:
    decisions = Decisions(part_size=1)
    decisions.inbox.put(report("h@a", 1024, pools=[{}]))
    decisions.inbox.put(report("h@b", 2048, pools=[{}]))
    for backend in ("h@b", "h@c"):
        decisions.inbox.put(report(backend, 1025, pools=[{}]).unpack())
    while decisions.waiting:
        decisions.run()
    assert decisions.applied == [[("h@c", 1, 1025)], [("h@a", 1, 1024)], [("h@b", 1, 2048)]]


def test_a_malformed_report_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    decisions = Decisions()
    decisions.inbox.put(replace(report("h@a", 1), pools="rubbish"))
    decisions.inbox.put(report("h@b", 1))
    decisions.run()
    assert decisions.applied == [[("h@b", 1, 1)]]
    assert "malformed report of h@a: its pools cannot be read" in caplog.text


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[SchedulerManager]:
    """A scheduler whose decision thread does not run."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger")
    ledger_schema.create(engine)
    manager = managers.manager(
        database.Database(engine), mock.create_autospec(CommandSender, instance=True), managers.settings()
    )
    manager.load()
    yield manager
    engine.dispose()


@pytest.mark.parametrize("pools", [10, 70])
def test_at_most_one_report_waits_unpacked_while_many_are_applied_in_parts(
    manager: SchedulerManager, pools: int
) -> None:
    inbox, waiting = manager._report_inbox, list[str]()
    inbox._submit, inbox._report_handler.part_size = waiting.append, 25
    backends = [f"h{number}@b" for number in range(12)]
    for number, backend in enumerate(backends):
        hello = Hello(backend=backend, nonce=f"{number:032x}", availability_zone="nova", driver="memory")
        [welcome] = manager._registration.hellos([hello])
        figures = {"total_capacity_gb": 100.0, "free_capacity_gb": 50.0, "thick_provisioning_support": True}
        named = [{"pool_name": f"p{pool}", **figures} for pool in range(pools)]
        inbox.put(report(backend, 1024, epoch=welcome.epoch, pools=named))  # type: ignore[union-attr]
    turns = 0
    while waiting:
        names, waiting[:] = list(waiting), []
        inbox.apply(names)
        assert sum(isinstance(message, BackendReport) for message in inbox._newest.values()) <= 1
        turns += 1
    assert turns >= 12 * pools // 25
    assert {name: len(manager.hosts.backend(name).pools) for name in backends} == dict.fromkeys(backends, pools)  # type: ignore[union-attr]
