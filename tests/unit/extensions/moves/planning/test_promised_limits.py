# SPDX-License-Identifier: Apache-2.0
"""Moves that bring pools to limits of their promises."""

import numpy as np

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.extensions.moves.planning import promised_limits

A, B, C = "h@a#p", "h@b#p", "h@c#p"


def test_a_pool_without_a_limit_takes_nothing() -> None:
    cloud = Cloud().add("a", 100, [20, 20]).add("b", 100).add("c", 50)
    model = cloud.model()
    ceilings = promised_limits.ceilings_of(model, {A: 20.0, C: 50.0})
    assert dict(zip(model.pools.names, ceilings.gb.tolist(), strict=True)) == {A: 20.0, B: -np.inf, C: 50.0}
    demands = [promised_limits.demand(A, 20.0, ceilings)]
    assert promised_limits.free_all(model, demands, [None]) == {}
    assert moves_of(model.plan("", "", is_reached=True)) == [(20, "a", "c")]


def test_the_volumes_that_stay_are_named_by_their_pool() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 20)
    model = cloud.model()
    ceilings = promised_limits.ceilings_of(model, {A: 20.0, B: 20.0})
    stuck = promised_limits.free_all(model, [promised_limits.demand(A, 10.0, ceilings)], [None])
    assert {pool: [volume.size_gb for volume in volumes] for pool, volumes in stuck.items()} == {A: [30]}
    assert len(model) == 0


def test_a_pool_passes_volumes_on_that_it_has_no_limit_for() -> None:
    """The volume of 30 GiB goes nowhere but to the second pool, which gives others away for it."""
    cloud = Cloud().add("a", 100, [30, 30], volume={"requested_zone": "nova"})
    model = cloud.add("b", 100, [20, 15]).add("c", 40, zone="other").model()
    assert promised_limits.free_through_others(model, {A: 35.0, B: 45.0, C: 40.0})
    promised = dict(zip(model.pools.names, model.promises()[0].tolist(), strict=True))
    assert promised[A] <= 35
    assert promised[B] <= 45
    assert not promised_limits.free_through_others(model, {A: 1.0, B: 1.0, C: 1.0})
