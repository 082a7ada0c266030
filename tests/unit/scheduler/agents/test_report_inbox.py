# SPDX-License-Identifier: Apache-2.0
"""The inbox of reports: the newest of each backend is applied, a bounded number of them at a time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tonnage.metrics import instruments
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.agents.report_inbox import ReportInbox


class Decisions:
    """The decision thread: it notes the backends whose turn comes, and the reports that are applied."""

    def __init__(self, most_bytes: int = 1024 * 1024) -> None:
        self.waiting: list[str] = []
        self.applied: list[list[tuple[str, int, int]]] = []
        self.inbox = ReportInbox(self.waiting.append, self._apply, most_bytes)

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


def test_long_reports_are_unpacked_in_several_turns_and_one_that_is_too_long_alone() -> None:
    pools = [{"pool_name": f"pool{number * 7919}", "free_capacity_gb": number * 1.7} for number in range(50)]
    length = len(report("h@a", 1, pools=pools).pools)
    decisions = Decisions(most_bytes=2 * length)
    for backend in ("h@a", "h@b", "h@c"):
        decisions.inbox.put(report(backend, 1, pools=pools))
    decisions.inbox.put(report("h@d", 1, pools=[{**pool, "tier": f"t{pool['pool_name']}"} for pool in pools * 9]))
    while decisions.waiting:
        decisions.run()
    assert decisions.applied == [[("h@a", 1, 1), ("h@b", 1, 1)], [("h@c", 1, 1)], [("h@d", 1, 1)]]


def test_a_malformed_report_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    decisions = Decisions()
    decisions.inbox.put(replace(report("h@a", 1), pools="rubbish"))
    decisions.inbox.put(report("h@b", 1))
    decisions.run()
    assert decisions.applied == [[("h@b", 1, 1)]]
    assert "malformed report of h@a: its pools cannot be read" in caplog.text
