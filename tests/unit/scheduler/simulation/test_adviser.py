# SPDX-License-Identifier: Apache-2.0
"""Advice of extensions about requests that are refused."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.unit.scheduler.world import BACKEND
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.reports.hypothetical_pools import Changes
from tonnage.rpc.messages import BackendState, CreateVolume, SetBackendState, SimulatedRequest, WhatIf
from tonnage.scheduler.extension_parts import PartsBuilder, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.simulation.adviser import Adviser


class Shop(Adviser):
    """Advises to buy the lacking GiB, and fails for some sizes."""

    def advise(self, message: CreateVolume, explanation: Explanation) -> Sequence[str]:
        if message.size_gb == 666:
            raise ValueError("sold out")
        return [f"buy {message.size_gb} GiB"]


@pytest.fixture
def builders() -> Mapping[str, PartsBuilder]:
    """An extension with two advisers, one of which has the methods of the base class alone."""
    return {"example": lambda context: SchedulerParts(advisers=[Adviser(), Shop()])}


def request(size: int) -> CreateVolume:
    return CreateVolume(request_id=uuid.uuid4().hex, volume_id=str(uuid.uuid4()), size_gb=size, project_id="p")


@pytest.fixture
def closed(core: SchedulerManager) -> SchedulerManager:
    """The scheduler, which refuses all requests."""
    core.set_backend_state(SetBackendState(backend=BACKEND, state=BackendState.DISABLED))
    return core


def test_an_accepted_create_needs_no_advice(core: SchedulerManager) -> None:
    assert core.explain(request(5)).advice == ()


def test_a_refused_create_has_the_advice(closed: SchedulerManager) -> None:
    assert closed.explain(request(500)).advice == ("buy 500 GiB",)


def test_an_adviser_that_fails_is_logged(closed: SchedulerManager, caplog: pytest.LogCaptureFixture) -> None:
    explanation = closed.explain(request(666))
    assert (explanation.pool, explanation.advice) == (None, ())
    assert "An adviser of the extension 'example' failed" in caplog.text


def test_questions_about_changes_and_several_requests_have_none(closed: SchedulerManager) -> None:
    question = WhatIf(requests=[SimulatedRequest(create=request(500))])
    for other in (
        replace(question, detail=False),
        replace(question, changes=Changes(reserved_percentage=5.0)),
        replace(question, requests=question.requests * 2),
    ):
        assert all(volume.advice == () for result in closed.what_if(other) for volume in result.volumes)
