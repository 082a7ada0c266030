# SPDX-License-Identifier: Apache-2.0
"""The registry of the steps of requests for new volumes, each under the field of the request that asks for it."""

from collections.abc import Iterator

from tonnage.scheduler.decisions.request_spec import RequestStep, UnplacedVolume
from tonnage.scheduler.decisions.steps.affinity_hints import AffinityHints
from tonnage.scheduler.decisions.steps.clone_source import CloneSource
from tonnage.scheduler.decisions.steps.group_affinity import GroupMembership
from tonnage.scheduler.decisions.steps.locality import InstanceLocality

#: The steps in the order in which they are taken.
STEPS: tuple[tuple[str, RequestStep], ...] = (
    ("locality", InstanceLocality()),
    ("hints", AffinityHints()),
    ("group_id", GroupMembership()),
    ("source_volume_id", CloneSource()),
)


def steps_of(volume: UnplacedVolume) -> Iterator[RequestStep]:
    """Yield the steps that a request asks for."""
    for field, step in STEPS:
        if getattr(volume, field, None) not in (None, {}):
            yield step
