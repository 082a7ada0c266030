# SPDX-License-Identifier: Apache-2.0
"""Backends that are not responsive: their agents stop, fail, or have not reported since the scheduler started."""

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers.base import wait_for
from tests.unit.scheduler import managers
from tests.unit.scheduler.world import Agent, StoragePool
from tonnage.capacity.explanation import Explanation
from tonnage.filters.capacity import CapacityFilter
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import Answer, CreateGroup, CreateVolume, Hello, Notice, NoticeCode
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.decisions.decision_thread import DecisionThread
from tonnage.scheduler.manager import SchedulerManager

LARGE, SMALL = "store1@large", "store2@small"


class BackendAgent:
    """The agent of a backend with one pool; it sends its messages to all running schedulers."""

    def __init__(self, backend: str, size_gb: int, schedulers: Sequence[SchedulerManager]) -> None:
        self.backend = backend
        self.schedulers = schedulers
        self._agent = Agent({"p": StoragePool(size_gb, 1.0, thin=True, thick=False)})

    def join(self) -> None:
        """Say hello as a new process."""
        self._agent = Agent(self._agent.pools)
        hello = Hello(backend=self.backend, nonce=uuid.uuid4().hex, availability_zone="nova", driver="memory")
        self._agent.epoch = self.schedulers[0].hello(hello).epoch

    def late_report(self) -> PackedReport:
        """Return a report of this moment, which is not sent."""
        return PackedReport.of(replace(self._agent.look(), backend=self.backend))

    def report(self) -> None:
        """Report to all schedulers."""
        message = self.late_report()
        for scheduler in self.schedulers:
            scheduler.report(message)
        for scheduler in self.schedulers:
            wait_for(lambda scheduler=scheduler: self._is_applied(scheduler), f"{self.backend} has reported")

    def _is_applied(self, scheduler: SchedulerManager) -> bool:
        """Have a scheduler take over the reports that others have applied; return whether it has the last one."""
        run_periodic_tasks(scheduler)
        entry = scheduler.hosts.backend(self.backend)
        return entry is not None and (entry.epoch, entry.report_seq) == (self._agent.epoch, self._agent.seq)

    def late_notice(self, code: NoticeCode, text: str = "") -> Notice:
        """Return a notice of this moment, which is not sent."""
        self._agent.seq += 1
        return Notice(backend=self.backend, epoch=self._agent.epoch, seq=self._agent.seq, code=code, text=text)

    def notify(self, code: NoticeCode, text: str = "") -> None:
        """Send a notice to all schedulers."""
        message = self.late_notice(code, text)
        for scheduler in self.schedulers:
            scheduler.notice(message)


def run_periodic_tasks(scheduler: SchedulerManager) -> None:
    """Have a scheduler do its periodic work now."""

    def work(items: Sequence[None]) -> list[None]:
        scheduler.run_periodic_tasks()
        return [None] * len(items)

    scheduler._thread.call(work, None)


Start = Callable[[str], SchedulerManager]


@pytest.fixture
def schedulers() -> list[SchedulerManager]:
    """The running schedulers, in the order of their starts."""
    return []


@pytest.fixture
def start(ledger: Database, schedulers: list[SchedulerManager]) -> Iterator[Start]:
    """A function that starts a scheduler with the name of a host."""
    agents: Any = SimpleNamespace(run=lambda *arguments: None, report_now=lambda backend: None)

    def started(host: str) -> SchedulerManager:
        thread = DecisionThread(batch_size=64, period=3600.0)
        scheduler = managers.manager(
            ledger, agents, managers.settings(host=host), filters=[CapacityFilter], thread=thread
        )
        scheduler.start()
        schedulers.append(scheduler)
        return scheduler

    yield started
    for scheduler in schedulers:
        scheduler.stop()


@pytest.fixture
def scheduler(start: Start) -> SchedulerManager:
    return start("control1")


@pytest.fixture
def large(scheduler: SchedulerManager, schedulers: list[SchedulerManager]) -> BackendAgent:
    """The backend that is chosen first, which has reported."""
    return joined(BackendAgent(LARGE, 100, schedulers))


@pytest.fixture
def small(scheduler: SchedulerManager, schedulers: list[SchedulerManager]) -> BackendAgent:
    """A backend with less room, which has reported."""
    return joined(BackendAgent(SMALL, 50, schedulers))


def joined(agent: BackendAgent) -> BackendAgent:
    agent.join()
    agent.report()
    return agent


def message(size_gb: int = 1) -> CreateVolume:
    return CreateVolume(request_id=uuid.uuid4().hex, volume_id=str(uuid.uuid4()), size_gb=size_gb, project_id="demo")


def place(scheduler: SchedulerManager, size_gb: int = 1) -> str | None:
    """Have a volume placed; return its backend, None if it is refused."""
    answer = scheduler.place(message(size_gb))
    assert isinstance(answer, Answer)
    return None if answer.pool is None else answer.pool.rpartition("#")[0]


def explain(scheduler: SchedulerManager, size_gb: int = 1) -> tuple[Explanation, dict[str, str | None]]:
    """Return the explanation of a create, and by pool why it is ranked last."""
    explanation = scheduler.explain(message(size_gb))
    return explanation, {verdict.pool: verdict.ranked_last for verdict in explanation.ranked()}


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        (NoticeCode.STOPPED, "", r"its agent stopped at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"),
        (NoticeCode.STOPPED, "internal error", r"its agent stopped at .* UTC: internal error"),
        (NoticeCode.WITHDRAWN, "", r"its agent has withdrawn it at .* UTC: it is not in enabled_backends"),
        (NoticeCode.FAILING, "not\nmounted", "its agent cannot report: not mounted"),
    ],
)
def test_volumes_go_to_backends_without_a_notice_if_these_have_room(
    scheduler: SchedulerManager, large: BackendAgent, small: BackendAgent, code: NoticeCode, text: str, reason: str
) -> None:
    assert place(scheduler) == LARGE
    large.notify(code, text)
    assert place(scheduler) == SMALL
    explanation, ranked_last = explain(scheduler)
    assert explanation.pool == f"{SMALL}#p"
    assert list(ranked_last) == [f"{SMALL}#p", f"{LARGE}#p"]
    assert ranked_last[f"{SMALL}#p"] is None
    assert ranked_last[f"{LARGE}#p"] is not None
    assert re.fullmatch(reason, ranked_last[f"{LARGE}#p"] or "")
    # The only backend with room is chosen all the same: the agent may be back in a moment.
    assert place(scheduler, 80) == LARGE
    assert explain(scheduler, 10)[0].pool == f"{SMALL}#p"


def test_a_notice_of_the_only_backend_refuses_nothing(scheduler: SchedulerManager, large: BackendAgent) -> None:
    large.notify(NoticeCode.STOPPED)
    assert place(scheduler) == LARGE


def test_members_of_a_group_go_to_responsive_backends(
    scheduler: SchedulerManager, large: BackendAgent, small: BackendAgent
) -> None:
    large.notify(NoticeCode.STOPPED)
    group = CreateGroup(request_id=uuid.uuid4().hex, volumes=[message(size) for size in (10, 20)])
    pools = [answer.pool for answer in scheduler.place(group).volumes]
    assert pools == [f"{SMALL}#p"] * 2
    # The first volume alone would leave no room for the others, so the packing searches.
    group = CreateGroup(request_id=uuid.uuid4().hex, volumes=[message(size) for size in (15, 75, 5)])
    pools = [answer.pool for answer in scheduler.place(group).volumes]
    assert pools == [f"{SMALL}#p", f"{LARGE}#p", f"{SMALL}#p"]


@pytest.mark.parametrize("end", [NoticeCode.STOPPED, NoticeCode.WITHDRAWN])
def test_the_next_report_ends_a_failure_and_the_next_hello_ends_an_end(
    scheduler: SchedulerManager, large: BackendAgent, small: BackendAgent, end: NoticeCode
) -> None:
    large.notify(NoticeCode.FAILING, "not mounted")
    large.report()
    assert place(scheduler) == LARGE
    late = large.late_report()
    large.notify(end)
    scheduler.report(late)
    assert place(scheduler) == SMALL, "a report of before the end came after it"
    large.join()
    assert place(scheduler) == LARGE
    assert set(explain(scheduler)[1].values()) == {None}


def test_a_notice_that_is_late_changes_nothing(
    scheduler: SchedulerManager, large: BackendAgent, small: BackendAgent
) -> None:
    before_report = large.late_notice(NoticeCode.FAILING, "not mounted")
    large.report()
    scheduler.notice(before_report)
    assert place(scheduler) == LARGE
    of_last_epoch = large.late_notice(NoticeCode.STOPPED)
    large.join()
    scheduler.notice(of_last_epoch)
    assert place(scheduler) == LARGE


def test_every_scheduler_knows_a_notice_at_once_and_one_that_starts_later_by_the_ledger(
    scheduler: SchedulerManager, start: Start, large: BackendAgent, small: BackendAgent
) -> None:
    other = start("control2")
    large.report()
    small.report()
    assert [place(scheduler), place(other)] == [LARGE, LARGE]
    large.notify(NoticeCode.STOPPED)
    assert [place(scheduler), place(other)] == [SMALL, SMALL]
    third = start("control3")
    small.report()
    assert place(third) == SMALL
    assert "its agent stopped" in (explain(third)[1][f"{LARGE}#p"] or "")


def test_backends_that_have_reported_since_the_start_come_first(
    scheduler: SchedulerManager,
    schedulers: list[SchedulerManager],
    start: Start,
    large: BackendAgent,
    small: BackendAgent,
) -> None:
    scheduler.stop()
    schedulers.clear()
    scheduler = start("control1")
    assert place(scheduler) == LARGE, "none has reported yet"
    small.report()
    assert place(scheduler) == SMALL
    assert explain(scheduler)[1] == {f"{SMALL}#p": None, f"{LARGE}#p": "has not reported since the scheduler started"}
    assert place(scheduler, 80) == LARGE, "no other backend has room for it"
    large.join()
    assert set(explain(scheduler)[1].values()) == {None}, "a hello is a word too"
