# SPDX-License-Identifier: Apache-2.0
"""The metrics of decisions."""

import uuid

import pytest
from prometheus_client import REGISTRY

from tonnage.capacity.decision import Refusal
from tonnage.metrics import instruments
from tonnage.rpc.messages import Answer, CreateVolume, DeleteVolume, MigrateVolume
from tonnage.scheduler.decisions.decision_metrics import DecisionMetrics
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.placement_requests import Move

SERIES = (
    ("tonnage_scheduler_decisions_total", {"verb": "create", "outcome": "placed"}),
    ("tonnage_scheduler_decisions_total", {"verb": "create", "outcome": "rejected"}),
    ("tonnage_scheduler_decision_duration_seconds_count", {"verb": "create"}),
)


def read() -> list[float]:
    return [REGISTRY.get_sample_value(name, labels) or 0.0 for name, labels in SERIES]


def test_decisions_are_counted_by_outcome(core: SchedulerManager) -> None:
    before = read()
    fits, of_unknown_type = (
        CreateVolume(
            request_id=uuid.uuid4().hex, volume_id=str(uuid.uuid4()), size_gb=1, project_id="p", volume_type=kind
        )
        for kind in (None, "unknown")
    )
    answers = core.handle_batch([fits, of_unknown_type])
    core.handle_batch([DeleteVolume(request_id=uuid.uuid4().hex, volume_id=str(uuid.uuid4()))])
    assert [isinstance(answer, Answer) for answer in answers] == [True, False]
    assert [after - earlier for after, earlier in zip(read(), before, strict=True)] == [1, 1, 2]


def test_a_volume_that_cannot_leave_a_draining_backend_is_no_refused_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alert about refused requests would fire for as long as the drain lasts, and show nothing."""
    monkeypatch.setattr(instruments, "_reasons", set())  # other tests of the process may have filled it
    refused = Answer(volume_id="v", refusal=Refusal("3 GiB", 1))
    move = MigrateVolume(request_id="r", volume_id="v")

    def counted() -> list[float]:
        series = (
            ("tonnage_scheduler_decisions_total", {"verb": "migrate", "outcome": "refused"}),
            ("tonnage_scheduler_refusals_total", {"verb": "migrate", "filter": "none", "code": "no_pool"}),
        )
        return [REGISTRY.get_sample_value(name, labels) or 0.0 for name, labels in series]

    before = counted()
    DecisionMetrics().answered([Move(move, keyed=False)], [refused])
    assert counted() == before
    DecisionMetrics().answered([Move(move)], [refused])
    assert counted() == [number + 1 for number in before]
