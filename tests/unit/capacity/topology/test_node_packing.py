# SPDX-License-Identifier: Apache-2.0
"""Volumes that are to fit together, beside trying every way there is."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.capacity.topology import node_packing
from tonnage.capacity.topology.node_packing import Demand, Supply

GI = 2**30


def supply(
    capacities: Sequence[int],
    *,
    limits: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    claimed: Sequence[int] = (),
) -> Supply:
    """Pools of these capacities, each alone unless ``groups`` says otherwise; ``claimed`` is by group."""
    group = np.array(range(len(capacities)) if groups is None else groups, dtype=np.int64)
    measure = np.zeros(max(group, default=-1) + 1, dtype=np.int64)
    np.maximum.at(measure, group, capacities)
    room = measure - np.array([*claimed, *[0] * (len(measure) - len(claimed))], dtype=np.int64)
    capacity = np.array(capacities, dtype=np.int64)
    limit = capacity if limits is None else np.minimum(capacity, np.array(limits, dtype=np.int64))
    return Supply(limit=limit, capacity=capacity, group=group, measure=measure, room=room)


def slots(*rows: Sequence[int]) -> node_packing.Ints:
    return np.array(rows, dtype=np.int64)


def judged(pools: Supply, demands: Sequence[Demand], nodes: int = 1) -> list[bool]:
    found = node_packing.fit(pools, demands, nodes)
    assert found.exact.all()
    return [bool(each) for each in found.fits]


@pytest.mark.parametrize(("sizes", "fits"), [((6, 6), False), ((6, 4), True), ((10,), True), ((11,), False)])
def test_volumes_of_one_pool_share_its_space(sizes: tuple[int, ...], fits: bool) -> None:
    here = slots([0])
    assert judged(supply([10 * GI]), [Demand(size * GI, here) for size in sizes]) == [fits]


def test_claims_limits_and_shared_disks_count() -> None:
    one, other = slots([0]), slots([1])
    both = [Demand(3, one), Demand(3, other)]
    assert judged(supply([10, 10]), both) == [True]
    assert judged(supply([10, 10], groups=[0, 0], claimed=[5]), both) == [False]
    assert judged(supply([10, 10], groups=[0, 0], claimed=[4]), both) == [True]
    assert judged(supply([10, 10], limits=[2, 10]), both) == [False]
    # A mirrored class has half of what a plain one has of the same disks: 3 of it take 6.
    assert judged(supply([5, 10], groups=[0, 0], claimed=[1]), both) == [True]
    assert judged(supply([5, 10], groups=[0, 0], claimed=[2]), both) == [False]


def test_a_node_without_pools_takes_nothing_and_one_without_volumes_everything() -> None:
    assert judged(supply([10]), [Demand(0, slots([-1], [0]))], 2) == [False, True]
    assert judged(supply([10]), [Demand(0, np.empty((2, 0), dtype=np.int64))], 2) == [False, False]
    assert judged(supply([10]), [], 2) == [True, True]


def test_large_numbers_are_exact() -> None:
    most = node_packing.MOST
    here = slots([0])
    assert judged(supply([most]), [Demand(most - 1, here), Demand(1, here)]) == [True]
    assert judged(supply([most]), [Demand(most, here), Demand(1, here)]) == [False]
    third = supply([most // 3, most], groups=[0, 0])
    assert judged(third, [Demand(most // 3, here), Demand(1, here)]) == [False]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Supply, list[Demand], int]:
    pools = draw(st.integers(1, 5))
    nodes = draw(st.integers(1, 3))
    numbers = st.integers(0, 12)
    groups = draw(st.lists(st.integers(0, pools - 1), min_size=pools, max_size=pools))
    claimed = draw(st.lists(st.integers(0, 4), max_size=max(groups) + 1))
    there = supply(
        draw(st.lists(numbers, min_size=pools, max_size=pools)),
        limits=draw(st.lists(st.integers(-1, 12), min_size=pools, max_size=pools)),
        groups=groups,
        claimed=claimed,
    )
    kinds = draw(st.integers(1, 3))
    width = draw(st.integers(0, 3))
    one_node = st.lists(st.integers(0, pools - 1), max_size=width, unique=True).map(
        lambda found: found + [-1] * (width - len(found))
    )
    arrays = [
        np.array(draw(st.lists(one_node, min_size=nodes, max_size=nodes)), dtype=np.int64).reshape(nodes, width)
        for _ in range(kinds)
    ]
    # Up to the stated bound, where trying every way does not take too long.
    most = node_packing.EXACT_VOLUMES if width <= 2 else 6
    volumes = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, kinds - 1)), min_size=1, max_size=most))
    return there, [Demand(size, arrays[kind]) for size, kind in volumes], nodes


def takes(there: Supply, sizes: Sequence[int], pools: Sequence[int]) -> bool:
    """Tell whether this way works, by fractions."""
    used = [0] * len(there.measure)
    for size, pool in zip(sizes, pools, strict=True):
        if pool < 0 or size > there.limit[pool]:
            return False
        group, capacity = there.group[pool], int(there.capacity[pool])
        exactly = Fraction(size * int(there.measure[group]), capacity) if capacity else Fraction(size)
        used[group] += -(-exactly.numerator // exactly.denominator)
    return all(used[group] <= there.room[group] for group in {there.group[pool] for pool in pools})


@settings(max_examples=400, deadline=None)
@given(case=cases())
def test_the_answer_is_that_of_trying_every_way(case: tuple[Supply, list[Demand], int]) -> None:
    there, demands, nodes = case
    sizes = [one.size for one in demands]
    found = node_packing.fit(there, demands, nodes)
    quickly = node_packing.fit(there, demands, nodes, exact_volumes=0)
    assert found.exact.all()
    for node in range(nodes):
        ways = itertools.product(*(one.slots[node].tolist() for one in demands))
        assert found.fits[node] == any(takes(there, sizes, way) for way in ways)
        assert found.alone[node].tolist() == [
            any(takes(there, [one.size], [pool]) for pool in one.slots[node].tolist()) for one in demands
        ]
        assert not found.fits[node] or takes(there, sizes, found.pools[node].tolist())
        assert not quickly.fits[node] or takes(there, sizes, quickly.pools[node].tolist())
        assert found.fits[node] == quickly.fits[node] or not quickly.exact[node]


numbers = st.integers(1, node_packing.MOST) | st.integers(1, 2**30).map(lambda number: number * GI)


@given(pairs=st.lists(st.tuples(numbers, numbers).map(sorted), min_size=1, max_size=4), data=st.data())
def test_shares_are_exact_whatever_the_numbers(pairs: list[list[int]], data: st.DataObject) -> None:
    least = min(capacity for capacity, _ in pairs)
    size = data.draw(st.integers(0, least) | st.just(least))
    pools = [number for pair in pairs for number in pair]
    there = supply(pools, groups=[row // 2 for row in range(len(pools))])
    exactly = [-(-size * pair[1] // capacity) for pair in pairs for capacity in pair]
    assert there.cost(size).tolist() == exactly


@settings(max_examples=200)
@given(pools=st.lists(st.tuples(numbers, st.integers(0, 2)), min_size=1, max_size=5), claimed=st.integers(0, 2**62))
def test_what_is_left_is_exact_whatever_the_numbers(pools: list[tuple[int, int]], claimed: int) -> None:
    capacities, groups = zip(*pools, strict=True)
    there = supply(capacities, groups=groups, claimed=[claimed])
    for pool, (capacity, group) in enumerate(pools):
        measure, room = int(there.measure[group]), max(0, int(there.room[group]))
        assert int(there.left()[pool]) == (room * capacity // measure if measure else 0)


def test_many_volumes_are_fitted_the_quick_way_and_said_to_be() -> None:
    """4 + 4 fit into 9 and 3 + 3 into 6, which going by the fullest or the emptiest pool misses."""
    here, nowhere = slots([0, 1]), slots([2])
    volumes = [Demand(size, here) for size in (4, 4, 3, 3)]
    assert judged(supply([9, 6]), volumes) == [True]
    few = node_packing.EXACT_VOLUMES - len(volumes)
    empty = [Demand(0, nowhere)] * few
    assert judged(supply([9, 6, 0]), [*volumes, *empty]) == [True]
    found = node_packing.fit(supply([9, 6, 0]), [*volumes, *empty, Demand(0, nowhere)], 1)
    assert (found.fits.tolist(), found.exact.tolist()) == ([False], [False])


def test_a_search_that_takes_too_long_is_left_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    here = slots([0, 1])
    volumes = [Demand(size, here) for size in (4, 4, 3, 3)]
    monkeypatch.setattr(node_packing, "STEPS", 3)
    found = node_packing.fit(supply([9, 6]), volumes, 1)
    assert (found.fits.tolist(), found.exact.tolist()) == ([False], [False])
