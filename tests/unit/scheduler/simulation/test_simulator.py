# SPDX-License-Identifier: Apache-2.0
"""Questions to a scheduler: answered by its pools and rules, and without effect."""

import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.reports.hypothetical_pools import Changes
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.quotas import limits
from tonnage.quotas.limits import Holder, Item, LimitOwner, Resource
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume, PoolQuery, SimulatedRequest, WhatIf
from tonnage.scheduler.manager import SchedulerManager


@pytest.fixture
def judged(core: SchedulerManager) -> SchedulerManager:
    """A scheduler that keeps its pool within its limits."""
    conf = SimpleNamespace(over_provisioning_calculation=Calculation.CINDER)
    rules = core.decisions.rules
    rules.apply(replace(rules.current, filters=FilterChain([CapacityFilter(conf)], Calculation.CINDER)))
    return core


def create(size: int) -> CreateVolume:
    return CreateVolume(request_id="r", volume_id=str(uuid.uuid4()), size_gb=size, project_id="p")


def asked(size: int) -> SimulatedRequest:
    return SimulatedRequest(create=create(size))


def test_a_question_has_no_effect_and_sees_what_was_asked_before(judged: SchedulerManager) -> None:
    # 20 GiB, ratio 2.0: 40 GiB may be promised.
    question = WhatIf(requests=[asked(19), asked(19), asked(19)])
    for _ in range(2):
        played = [outlook.volumes[0] for outlook in judged.what_if(question)]
        assert [each.pool for each in played] == [f"{BACKEND}#p0", f"{BACKEND}#p0", None]
        assert [len(each.verdicts) for each in played] == [1, 1, 1]
    [pool] = judged.get_pools(PoolQuery())
    assert pool.capabilities["in_flight_capacity_gb"] == 0


def test_quotas_are_asked_first_and_each_request_sees_what_those_before_it_took(judged: SchedulerManager) -> None:
    owner = LimitOwner(Holder.PROJECT, "p")
    judged.database.run(limits.put, owner, {Item(Resource.GIGABYTES): 8})
    group = SimulatedRequest(group=CreateGroup(request_id="g", volumes=[create(1), create(2)]))
    question = WhatIf(requests=[asked(5), asked(4), group, asked(1)], changes=Changes(reserved_percentage=50))
    outlooks = judged.what_if(question)
    for played in ([each.volumes[0] for each in outlooks], [each.unchanged[0] for each in outlooks]):
        assert [each.pool is not None for each in played] == [True, False, True, False]
        assert played[1].message == (
            "No quota for 4 GiB: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 4G, quota is "
            "8G and 5G has been consumed."
        )
        assert played[1].verdicts == ()
        assert played[1].refusal is not None
    answer = judged.place(create(9))
    assert answer.refusal.message == judged.explain(create(9)).message
    # Whoever asks for nobody asks what the pools would say.
    assert judged.explain(replace(create(9), project_id="")).pool == f"{BACKEND}#p0"


def test_what_if_says_what_would_be_and_what_is(judged: SchedulerManager) -> None:
    question = WhatIf(requests=[asked(15)], changes=Changes(ratios={BACKEND: 1.0}, reserved_percentage=50))
    [outlook] = judged.what_if(question)
    assert (outlook.volumes[0].pool, outlook.unchanged[0].pool) == (None, f"{BACKEND}#p0")
    assert "has headroom 10.00 GiB" in outlook.volumes[0].message
    [pool] = judged.get_pools(PoolQuery())
    assert pool.capabilities["max_over_subscription_ratio"] == 2.0


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([], "requests are 0: a question takes 1 to 1000"),
        ([SimulatedRequest()], "requests[0] takes one of create, group, extend, migrate and retype"),
        (
            [asked(1), SimulatedRequest(group=CreateGroup(request_id="r", volumes=[]))],
            "a group takes at least one volume",
        ),
    ],
)
def test_a_question_that_asks_for_nothing(
    judged: SchedulerManager, requests: list[SimulatedRequest], said: str
) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        judged.what_if(WhatIf(requests=requests))
    assert said in caught.value.message


def test_the_growth_of_a_volume_that_is_not_there(judged: SchedulerManager) -> None:
    extend = ExtendVolume(request_id="r", volume_id=str(uuid.uuid4()), new_size_gb=5)
    with pytest.raises(errors.NotFound):
        judged.what_if(WhatIf(requests=[SimulatedRequest(extend=extend)]))
