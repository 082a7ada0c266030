# SPDX-License-Identifier: Apache-2.0
"""The hooks of an extension that observes decisions: when they are called, and what an exception of one does."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.scheduler.hook_notes import FAILED_AFTER_COMMIT, NOTE
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.rpc.messages import Answer, CreateGroup, CreateVolume, ExtendVolume, GroupAnswer
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.extension_parts import PartsBuilder, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.placement_requests import Work
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.steps.group_packing import GroupPacking


class Decisions(DecisionObserver):
    """Records the calls, and raises an error where ``failing`` names the method."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing = ""

    def begin(self, rules: Rules) -> None:
        self._called("begin")

    def decided(self, pools: PoolTable, rules: Rules, request: Request, decision: Decision, *, in_place: bool) -> None:
        self._called(f"{'placed' if isinstance(decision, Placement) else 'refused'} {request.size_gb} GiB")

    def packed(self, packing: GroupPacking, result: Sequence[Placement] | Refusal) -> None:
        self._called("refused a group" if isinstance(result, Refusal) else f"packed {len(result)}")

    def booked(self) -> None:
        self._called("booked")

    def answered(self, work: Sequence[Work], answers: Sequence[Answer | GroupAnswer | Exception]) -> None:
        self._called(f"answered {len(answers)}")

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name == self.failing:
            raise LookupError(name)


@pytest.fixture
def decisions() -> Decisions:
    return Decisions()


@pytest.fixture
def builders(decisions: Decisions) -> Mapping[str, PartsBuilder]:
    """An extension with two observers, one of which has the methods of the base class alone."""
    return {"example": lambda context: SchedulerParts(decision_observers=[DecisionObserver(), decisions])}


def request(**values: Any) -> CreateVolume:
    volume = {"request_id": uuid.uuid4().hex, "volume_id": str(uuid.uuid4()), "size_gb": 1, "project_id": "p"}
    return CreateVolume(**volume | values)


def test_a_placement_is_shown_before_and_after_its_booking(core: SchedulerManager, decisions: Decisions) -> None:
    core.place(request(size_gb=3))
    assert decisions.calls == ["begin", "placed 3 GiB", "booked", "answered 1"]


def test_a_decision_that_the_ledger_does_not_book_is_begun_again(core: SchedulerManager, decisions: Decisions) -> None:
    """The scheduler has no filter of capacity, so the ledger is the first to see that the volume does not fit."""
    with pytest.raises(errors.Unavailable, match="other requests were faster"):
        core.place(request(size_gb=1000))
    *attempts, answered = decisions.calls
    assert answered == "answered 1"
    assert attempts == ["begin", "placed 1000 GiB"] * (len(attempts) // 2)
    assert len(attempts) > 2


def test_a_request_that_is_wrong_is_answered_without_a_decision(core: SchedulerManager, decisions: Decisions) -> None:
    message = request()
    core.place(message)
    decisions.calls.clear()
    with pytest.raises(errors.Conflict, match="creating"):
        core.place(ExtendVolume(request_id="r", volume_id=message.volume_id, new_size_gb=2))
    assert decisions.calls == ["begin", "booked", "answered 1"]


def test_a_group_is_shown_as_a_whole(core: SchedulerManager, decisions: Decisions) -> None:
    volumes = [request(size_gb=2, request_id=""), request(size_gb=3, request_id="")]
    core.place(CreateGroup(request_id="g", volumes=volumes))
    assert decisions.calls == ["begin", "packed 2", "booked", "answered 1"]


def test_an_explanation_is_no_decision_to_observe(core: SchedulerManager, decisions: Decisions) -> None:
    core.explain(request())
    assert decisions.calls == []


def test_an_exception_before_a_booking_books_nothing_and_names_the_extension(
    core: SchedulerManager, decisions: Decisions, caplog: pytest.LogCaptureFixture
) -> None:
    decisions.failing = "begin"
    with pytest.raises(LookupError):
        core.place(request())
    assert NOTE in caplog.text
    decisions.failing = ""
    assert core.place(request()).pool == f"{BACKEND}#p0"


def test_a_placement_is_answered_whatever_a_hook_does_after_its_commit(
    core: SchedulerManager, decisions: Decisions, caplog: pytest.LogCaptureFixture
) -> None:
    decisions.failing = "booked"
    assert core.place(request()).pool == f"{BACKEND}#p0"
    assert FAILED_AFTER_COMMIT in caplog.text
