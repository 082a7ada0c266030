# SPDX-License-Identifier: Apache-2.0
"""Packing of volumes, compared with brute force."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.extensions.kubernetes.capacity import node_packing
from tonnage.extensions.kubernetes.capacity.node_packing import PackingPools, PackingVolume

GI = 2**30


def packing_pools(
    capacities: Sequence[int],
    *,
    max_volume_sizes: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    claimed: Sequence[int] = (),
) -> PackingPools:
    """Return pools of these capacities.

    ``groups`` has the group of each pool, by default one each; ``claimed`` is by group.
    """
    group = np.array(range(len(capacities)) if groups is None else groups, dtype=np.int64)
    group_capacity = np.zeros(max(group, default=-1) + 1, dtype=np.int64)
    np.maximum.at(group_capacity, group, capacities)
    room = group_capacity - np.array([*claimed, *[0] * (len(group_capacity) - len(claimed))], dtype=np.int64)
    capacity = np.array(capacities, dtype=np.int64)
    max_volume_size = (
        capacity if max_volume_sizes is None else np.minimum(capacity, np.array(max_volume_sizes, dtype=np.int64))
    )
    return PackingPools(
        max_volume_size=max_volume_size, capacity=capacity, group=group, group_capacity=group_capacity, group_free=room
    )


def candidates(*rows: Sequence[int]) -> node_packing.Ints:
    return np.array(rows, dtype=np.int64)


def pack(pools: PackingPools, volumes: Sequence[PackingVolume], nodes: int = 1) -> list[bool]:
    found = node_packing.pack(pools, volumes, nodes)
    assert found.exact.all()
    return [bool(each) for each in found.fits]


@pytest.mark.parametrize(("sizes", "fits"), [((6, 6), False), ((6, 4), True), ((10,), True), ((11,), False)])
def test_volumes_in_one_pool_share_its_capacity(sizes: tuple[int, ...], fits: bool) -> None:
    here = candidates([0])
    assert pack(packing_pools([10 * GI]), [PackingVolume(size * GI, here) for size in sizes]) == [fits]


def test_claims_largest_volumes_and_shared_disks_are_respected() -> None:
    one, other = candidates([0]), candidates([1])
    both = [PackingVolume(3, one), PackingVolume(3, other)]
    assert pack(packing_pools([10, 10]), both) == [True]
    assert pack(packing_pools([10, 10], groups=[0, 0], claimed=[5]), both) == [False]
    assert pack(packing_pools([10, 10], groups=[0, 0], claimed=[4]), both) == [True]
    assert pack(packing_pools([10, 10], max_volume_sizes=[2, 10]), both) == [False]
    # A mirrored class has half the capacity of a plain one on the same disks: 3 bytes take 6 bytes of the disks.
    assert pack(packing_pools([5, 10], groups=[0, 0], claimed=[1]), both) == [True]
    assert pack(packing_pools([5, 10], groups=[0, 0], claimed=[2]), both) == [False]


def test_a_node_without_pools_takes_no_volume_and_no_volumes_fit_every_node() -> None:
    assert pack(packing_pools([10]), [PackingVolume(0, candidates([-1], [0]))], 2) == [False, True]
    assert pack(packing_pools([10]), [PackingVolume(0, np.empty((2, 0), dtype=np.int64))], 2) == [False, False]
    assert pack(packing_pools([10]), [], 2) == [True, True]


def test_large_numbers_are_exact() -> None:
    most = node_packing.MAX_CAPACITY
    here = candidates([0])
    assert pack(packing_pools([most]), [PackingVolume(most - 1, here), PackingVolume(1, here)]) == [True]
    assert pack(packing_pools([most]), [PackingVolume(most, here), PackingVolume(1, here)]) == [False]
    third = packing_pools([most // 3, most], groups=[0, 0])
    assert pack(third, [PackingVolume(most // 3, here), PackingVolume(1, here)]) == [False]


@st.composite
def cases(draw: st.DrawFn) -> tuple[PackingPools, list[PackingVolume], int]:
    pools = draw(st.integers(1, 5))
    nodes = draw(st.integers(1, 3))
    numbers = st.integers(0, 12)
    groups = draw(st.lists(st.integers(0, pools - 1), min_size=pools, max_size=pools))
    claimed = draw(st.lists(st.integers(0, 4), max_size=max(groups) + 1))
    available = packing_pools(
        draw(st.lists(numbers, min_size=pools, max_size=pools)),
        max_volume_sizes=draw(st.lists(st.integers(-1, 12), min_size=pools, max_size=pools)),
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
    # Up to the documented limit, where brute force does not take too long.
    most = node_packing.EXACT_VOLUMES if width <= 2 else 6
    volumes = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, kinds - 1)), min_size=1, max_size=most))
    return available, [PackingVolume(size, arrays[kind]) for size, kind in volumes], nodes


def is_valid_placement(available: PackingPools, sizes: Sequence[int], pools: Sequence[int]) -> bool:
    """Return whether this placement is valid, computed with fractions."""
    used = [0] * len(available.group_capacity)
    for size, pool in zip(sizes, pools, strict=True):
        if pool < 0 or size > available.max_volume_size[pool]:
            return False
        group, capacity = available.group[pool], int(available.capacity[pool])
        exactly = Fraction(size * int(available.group_capacity[group]), capacity) if capacity else Fraction(size)
        used[group] += -(-exactly.numerator // exactly.denominator)
    return all(used[group] <= available.group_free[group] for group in {available.group[pool] for pool in pools})


@settings(max_examples=400, deadline=None)
@given(case=cases())
def test_the_search_agrees_with_brute_force(case: tuple[PackingPools, list[PackingVolume], int]) -> None:
    pools, volumes, nodes = case
    sizes = [one.size for one in volumes]
    found = node_packing.pack(pools, volumes, nodes)
    greedy = node_packing.pack(pools, volumes, nodes, exact_volumes=0)
    assert found.exact.all()
    for node in range(nodes):
        ways = itertools.product(*(one.candidates[node].tolist() for one in volumes))
        assert found.fits[node] == any(is_valid_placement(pools, sizes, way) for way in ways)
        assert found.fits_alone[node].tolist() == [
            any(is_valid_placement(pools, [one.size], [pool]) for pool in one.candidates[node].tolist())
            for one in volumes
        ]
        assert not found.fits[node] or is_valid_placement(pools, sizes, found.pools[node].tolist())
        assert not greedy.fits[node] or is_valid_placement(pools, sizes, greedy.pools[node].tolist())
        assert found.fits[node] == greedy.fits[node] or not greedy.exact[node]


numbers = st.integers(1, node_packing.MAX_CAPACITY) | st.integers(1, 2**30).map(lambda number: number * GI)


@given(pairs=st.lists(st.tuples(numbers, numbers).map(sorted), min_size=1, max_size=4), data=st.data())
def test_costs_are_exact_for_all_sizes(pairs: list[list[int]], data: st.DataObject) -> None:
    least = min(capacity for capacity, _ in pairs)
    size = data.draw(st.integers(0, least) | st.just(least))
    capacities = [number for pair in pairs for number in pair]
    pools = packing_pools(capacities, groups=[row // 2 for row in range(len(capacities))])
    exactly = [-(-size * pair[1] // capacity) for pair in pairs for capacity in pair]
    assert pools.cost(size).tolist() == exactly


@settings(max_examples=200)
@given(pools=st.lists(st.tuples(numbers, st.integers(0, 2)), min_size=1, max_size=5), claimed=st.integers(0, 2**62))
def test_headroom_is_exact_for_all_sizes(pools: list[tuple[int, int]], claimed: int) -> None:
    capacities, groups = zip(*pools, strict=True)
    available = packing_pools(capacities, groups=groups, claimed=[claimed])
    for pool, (capacity, group) in enumerate(pools):
        group_capacity, free = int(available.group_capacity[group]), max(0, int(available.group_free[group]))
        assert int(available.headroom()[pool]) == (free * capacity // group_capacity if group_capacity else 0)


def test_many_volumes_are_packed_greedily_and_marked_inexact() -> None:
    """4 + 4 fit into 9 and 3 + 3 into 6, which filling the fullest or the emptiest pool first misses."""
    here, nowhere = candidates([0, 1]), candidates([2])
    volumes = [PackingVolume(size, here) for size in (4, 4, 3, 3)]
    assert pack(packing_pools([9, 6]), volumes) == [True]
    few = node_packing.EXACT_VOLUMES - len(volumes)
    empty = [PackingVolume(0, nowhere)] * few
    assert pack(packing_pools([9, 6, 0]), [*volumes, *empty]) == [True]
    found = node_packing.pack(packing_pools([9, 6, 0]), [*volumes, *empty, PackingVolume(0, nowhere)], 1)
    assert (found.fits.tolist(), found.exact.tolist()) == ([False], [False])


def test_a_search_beyond_the_step_limit_is_abandoned_and_marked_inexact() -> None:
    here = candidates([0, 1])
    volumes = [PackingVolume(size, here) for size in (4, 4, 3, 3)]
    found = node_packing.pack(packing_pools([9, 6]), volumes, 1, max_steps=3)
    assert (found.fits.tolist(), found.exact.tolist()) == ([False], [False])
