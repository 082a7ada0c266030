# SPDX-License-Identifier: Apache-2.0
"""The steps of requests for new volumes, in the order in which they are taken."""

from collections.abc import Iterator

from tonnage.scheduler.decisions.request_spec import RequestStep, UnplacedVolume
from tonnage.scheduler.decisions.steps.affinity_hints import AffinityHints
from tonnage.scheduler.decisions.steps.clone_source import CloneSource
from tonnage.scheduler.decisions.steps.group_affinity import GroupMembership
from tonnage.scheduler.decisions.steps.instance_locality import InstanceLocality

STEPS: tuple[RequestStep, ...] = (InstanceLocality(), AffinityHints(), GroupMembership(), CloneSource())


def steps_of(volume: UnplacedVolume) -> Iterator[RequestStep]:
    """Yield the steps that apply to a request."""
    for step in STEPS:
        if step.applies(volume):
            yield step
