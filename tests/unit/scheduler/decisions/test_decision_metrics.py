# SPDX-License-Identifier: Apache-2.0
"""The metrics of decisions."""

import uuid

from prometheus_client import REGISTRY

from tonnage.rpc.messages import Answer, CreateVolume, DeleteVolume
from tonnage.scheduler.manager import SchedulerManager

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
