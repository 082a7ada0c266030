# SPDX-License-Identifier: Apache-2.0
"""Decisions from the pools with the largest weights are those of a look at all pools."""

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity.strategies import PROPERTY
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Placement
from tonnage.capacity.pools.pool import Pool
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning, Request
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.requests import leading_pools
from tonnage.scheduler.requests.leading_pools import LeadingPools
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.volume_number import VolumeNumberWeigher

NAMES = [f"host@b{number % 3}#p{number}" for number in range(12)]


@pytest.fixture(autouse=True, scope="module")
def few() -> Iterator[None]:
    """Keep leading pools of the smallest tables, and few of them, so that they often have to be found again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading_pools, "SMALLEST_TABLE", 0)
        patch.setattr(leading_pools, "_USUAL", 3)
        patch.setattr(leading_pools, "_MOST", 6)
        yield


def rules(multiplier: float = 1.0, more: Any = ()) -> Rules:
    conf = SimpleNamespace(
        over_provisioning_calculation="cinder", capacity_weight_multiplier=multiplier, volume_number_multiplier=-1.0
    )
    filters = FilterChain([BackendStateFilter(60.0), CapabilitiesFilter(conf), CapacityFilter(conf)])
    weighers = WeigherChain([CapacityWeigher(conf), *(weigher(conf) for weigher in more)])
    return Rules(filters, weighers, Calculation.CINDER)


def pool(name: str, free: float = 50.0, **fields: Any) -> Pool:
    return Pool(name=name, **{"total": 100.0, "free": free, "provisioned": 0.0, "thin": True} | fields)


def growing() -> list[Pool]:
    """Each pool has more room than the one before it."""
    return [pool(name, total=100.0 + 10 * number) for number, name in enumerate(NAMES)]


def by_all(chosen: Rules, pools: PoolTable, request: Request) -> str | None:
    index = chosen.best(pools, request, chosen.filters.candidates(pools, request))
    return None if index is None else pools.names[index]


FREE = st.one_of(st.integers(0, 8).map(float), st.sampled_from([math.nan, math.inf, 1e13]))
POOLS = st.builds(
    pool,
    st.sampled_from(NAMES),
    FREE,
    total=st.sampled_from([8.0, 9.0, math.inf, 1e14]),
    thin=st.booleans(),
    thick=st.booleans(),
    up=st.sampled_from([True, True, False]),
    responsive=st.sampled_from([True, True, True, False]),
    capabilities=st.sampled_from([{}, {"tier": "gold"}]),
    storage_id=st.sampled_from([None, None, "shared"]),
)
STEPS = st.lists(
    st.one_of(
        POOLS,
        st.sampled_from(NAMES),
        st.tuples(st.integers(0, 11), st.integers(-2, 5)),
        st.builds(
            Request,
            st.sampled_from(["r1", "r2", "r3"]),
            st.integers(1, 9),
            provisioning=st.sampled_from([None, *Provisioning]),
            extra_specs=st.sampled_from([{}, {"tier": "gold"}]),
        ),
    ),
    max_size=60,
)


@PROPERTY
@given(st.lists(POOLS, max_size=12), STEPS)
def test_after_any_changes_the_decision_is_that_of_a_look_at_all_pools(first: list[Pool], steps: list[Any]) -> None:
    chosen, table = rules(), PoolTable(first)
    for step in steps:
        match step:
            case Pool():
                table.put(step)
            case str():
                table.remove(step)
            case (int(row), int(size)):
                if row < len(table):
                    table.claim(row, size, 0)
            case Request():
                decision = chosen.choose(table, step)
                placed = decision.pool if isinstance(decision, Placement) else None
                assert placed == by_all(chosen, table, step)


def test_the_leading_pools_are_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, table = rules(), PoolTable(growing())
    monkeypatch.setattr(FilterChain, "candidates", lambda *given: pytest.fail("all pools were looked at"))
    for number in range(30):
        decision = chosen.choose(table, Request(f"r{number}", 1))
        assert isinstance(decision, Placement)
        table.claim(table.index(decision.pool) or 0, 1, 0)
    leaders = next(iter(table.attached[LeadingPools]._sets.values()))
    assert 0 < len(leaders.rows) <= 6


def test_changes_cost_no_look_at_all_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, table = rules(), PoolTable(growing())
    chosen.choose(table, Request("r", 1))
    monkeypatch.setattr(leading_pools, "_find", lambda *given: pytest.fail("all pools were looked at"))
    table.put(pool(NAMES[3], total=900.0))
    decision = chosen.choose(table, Request("r", 1))
    assert isinstance(decision, Placement)
    assert decision.pool == NAMES[3]


def test_other_weighers_and_multipliers_need_a_look_at_all_pools() -> None:
    table = PoolTable(growing())
    for chosen in (rules(-1.0), rules(1e-5), rules(more=[VolumeNumberWeigher])):
        decision = chosen.choose(table, Request("r", 1))
        assert isinstance(decision, Placement)
        assert decision.pool == by_all(chosen, table, Request("r", 1))
    assert LeadingPools not in table.attached


def test_a_copy_of_a_table_has_its_own_leading_pools() -> None:
    chosen, table = rules(), PoolTable(growing())
    chosen.choose(table, Request("r", 1))
    copy = table.snapshot()
    assert not copy.attached
    copy.put(pool(NAMES[0], total=990.0))
    best = [chosen.choose(pools, Request("r", 1)) for pools in (copy, table)]
    assert [decision.pool for decision in best if isinstance(decision, Placement)] == [NAMES[0], NAMES[-1]]


def test_so_many_equal_pools_are_not_kept() -> None:
    chosen, table = rules(), PoolTable(pool(name) for name in NAMES)
    for number in range(3):
        decision = chosen.choose(table, Request(f"r{number}", 1))
        assert isinstance(decision, Placement)
        assert decision.pool == by_all(chosen, table, Request(f"r{number}", 1))
    [leaders] = table.attached[LeadingPools]._sets.values()
    assert (len(leaders.rows), leaders.least) == (0, np.inf)
