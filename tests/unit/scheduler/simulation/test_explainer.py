# SPDX-License-Identifier: Apache-2.0
"""Explanations of requests that are decided on a copy of the pools, as the scheduler decides them."""

import uuid
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.scheduler.model.storage import Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.rpc.messages import CreateGroup, CreateVolume, GroupAnswer
from tonnage.scheduler.decisions.decider import Decider
from tonnage.scheduler.requests.placement_requests import Work
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.requests.request_spec import Lookup
from tonnage.scheduler.simulation.explainer import Explainer
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain


def rules(calculation: Calculation = Calculation.CINDER) -> Rules:
    conf = SimpleNamespace(over_provisioning_calculation=calculation, capacity_weight_multiplier=1.0)
    filters = FilterChain([AvailabilityZoneFilter(SimpleNamespace()), CapacityFilter(conf)], calculation)
    return Rules(filters, WeigherChain([CapacityWeigher(conf)]), calculation)


def thick(*free: float) -> PoolTable:
    return PoolTable(
        Pool(name=f"h@b{number}#p", total=each, free=each, thick=True, availability_zone="z")
        for number, each in enumerate(free)
    )


class Simulation:
    """A decider on a table of pools, whose decisions are explained."""

    def __init__(self, pools: PoolTable, rules: Rules) -> None:
        self.pools = pools
        self.rules = rules

    def play(self, work: Work, *, detail: bool) -> list[Explanation]:
        explainer = Explainer(detail=detail)
        decided = Decider(self.pools, self.rules, observers=[explainer]).decide(work, Lookup({}, {}))
        return explainer.explanations(work, decided)


def one(size: int, request_id: str = "r") -> CreateVolume:
    return CreateVolume(request_id=request_id, volume_id=str(uuid.uuid4()), size_gb=size, project_id="p")


def group(*sizes: int) -> CreateGroup:
    return CreateGroup(request_id="r", volumes=[one(size) for size in sizes])


@pytest.mark.parametrize("detail", [True, False])
def test_each_request_sees_what_those_before_it_took(detail: bool) -> None:
    simulation = Simulation(thick(10, 9), rules())
    played = [simulation.play(one(6), detail=detail)[0] for _ in range(3)]
    assert [each.pool for each in played] == ["h@b0#p", "h@b1#p", None]
    assert played[2].refusal is not None
    assert played[2].refusal.nearest is not None
    assert played[2].refusal.nearest.rejection.numbers["headroom"] == 4.0
    assert played[2].message.startswith("No pool for 6 GiB: 2 pools; CapacityFilter refused 2, nearest h@b0#p has")
    assert [len(each.verdicts) for each in played] == ([2, 2, 2] if detail else [0, 0, 0])


def test_an_explanation_has_numbers_for_every_pool() -> None:
    [explanation] = Simulation(thick(10, 4, 8), rules()).play(one(5), detail=True)
    assert explanation.filters == ("AvailabilityZoneFilter", "CapacityFilter")
    assert explanation.message == "5 GiB goes to h@b0#p, the best of 2 candidates"
    verdicts = {each.pool: each for each in explanation.verdicts}
    assert [verdicts[name].headroom for name in sorted(verdicts)] == [10.0, 4.0, 8.0]
    assert verdicts["h@b1#p"].filter == "CapacityFilter"
    assert verdicts["h@b0#p"].total_weight == 1.0
    assert [(each.raw, each.scaled) for each in verdicts["h@b2#p"].weights] == [(8.0, 0.0)]


@pytest.mark.parametrize("detail", [True, False])
def test_a_group_is_explained_volume_by_volume(detail: bool) -> None:
    pools = thick(10, 4)
    simulation = Simulation(pools, rules())
    # In order, 4 goes where most is free and leaves no room for 10.
    played = simulation.play(group(4, 10), detail=detail)
    assert [each.pool for each in played] == ["h@b1#p", "h@b0#p"]
    if detail:
        assert "so that there is room for the whole group; alone it would go to h@b0#p" in played[0].message
    assert simulation.play(one(1), detail=False)[0].pool is None


@pytest.mark.parametrize("detail", [True, False])
def test_a_group_that_is_refused_takes_nothing_and_names_the_one_that_is_left_over(detail: bool) -> None:
    pools = thick(10, 4)
    simulation = Simulation(pools, rules())
    [explanation] = simulation.play(group(8, 3, 8), detail=detail)
    assert explanation.pool is None
    assert "volume 3 of 3, all or none" in explanation.message
    assert explanation.refusal is not None
    assert [each.headroom for each in explanation.verdicts] == ([2.0, 1.0] if detail else [])
    assert pools.claimed.tolist() == [0.0, 0.0]


def test_another_calculation() -> None:
    pools = PoolTable(
        [Pool(name="h@b#p", total=100.0, free=10.0, provisioned=0.0, ratio=2.0, thin=True, reserved_percentage=0.0)]
    )
    cinder = rules()
    assert cinder.with_calculation(Calculation.CINDER) is cinder
    standard = cinder.with_calculation(Calculation.STANDARD)
    assert Simulation(pools.snapshot(), cinder).play(one(50), detail=True)[0].pool is None
    explanation = Simulation(pools.snapshot(), standard).play(one(50), detail=True)[0]
    assert (explanation.pool, explanation.verdicts[0].headroom) == ("h@b#p", 200.0)
    assert [plugin.name for plugin in standard.filters.filters] == [plugin.name for plugin in cinder.filters.filters]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=3), min_size=1, max_size=6),
)
def test_a_simulation_decides_as_the_scheduler_does(kinds: list[tuple[int, bool]], asked: list[list[int]]) -> None:
    pools = {
        f"host{number}@b#p": StoragePool(Storage(None, room), 2.0, thin=thin, thick=not thin)
        for number, (room, thin) in enumerate(kinds)
    }
    world = World(pools)
    world.report_all()
    scheduler = world.schedulers[0]
    core = scheduler.core
    simulation = Simulation(scheduler.hosts.table.snapshot(), core.decisions.rules.current)
    for number, sizes in enumerate(asked):
        request_id = world.request_id()
        messages = [world.create_message(size, request_id=request_id) for size in sizes]
        work = messages[0] if len(sizes) == 1 else CreateGroup(request_id=request_id, volumes=messages)
        simulated = simulation.play(work, detail=number % 2 == 0)
        [answer] = world.place(scheduler, work)
        answers = answer.volumes if isinstance(answer, GroupAnswer) and answer.volumes else [answer]
        assert [each.pool for each in simulated] == [getattr(each, "pool", None) for each in answers]
        assert [each.refusal for each in simulated] == [getattr(each, "refusal", None) for each in answers]
