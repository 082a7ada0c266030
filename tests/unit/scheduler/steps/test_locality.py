# SPDX-License-Identifier: Apache-2.0
"""The host of an instance becomes a part of the request for a volume near it."""

from dataclasses import replace

from tonnage.capacity.request import Locality, Request
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.requests.placement_requests import LocalVolume
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec
from tonnage.scheduler.steps.locality import InstanceLocality

STEP = InstanceLocality()
LOOKUP = Lookup({}, {})
SPEC = RequestSpec(request=Request(request_id="r", size_gb=1, project_id="demo"), volume_id="v", target_size_gb=1)


def test_the_host_of_the_instance_joins_the_request() -> None:
    locality = Locality(host="node1")
    message = LocalVolume(request_id="r", volume_id="v", size_gb=1, project_id="demo", locality=locality)
    assert STEP.refine(SPEC, message, LOOKUP) == replace(SPEC, request=replace(SPEC.request, locality=locality))
    assert STEP.volume_ids(message) == []


def test_a_volume_without_an_instance_keeps_its_request() -> None:
    message = CreateVolume(request_id="r", volume_id="v", size_gb=1, project_id="demo")
    assert STEP.refine(SPEC, message, LOOKUP) == SPEC
