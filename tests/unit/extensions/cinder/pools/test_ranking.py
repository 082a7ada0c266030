# SPDX-License-Identifier: Apache-2.0
"""The order of pools by their weights."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

from tonnage.extensions.cinder.pools.ranking import Ranking, scaled


@dataclass(frozen=True)
class Weighed:
    place: int
    weight: float


def ranking(*totals: float) -> Ranking[Weighed]:
    return Ranking(np.array(totals), Weighed)


def test_the_order_is_that_of_a_stable_sort() -> None:
    chance = random.Random(1)
    for _ in range(200):
        totals = [float(chance.randrange(4)) for _ in range(chance.randrange(8))]
        expected = sorted(map(Weighed, range(len(totals)), totals), key=lambda each: each.weight, reverse=True)
        found = ranking(*totals)
        assert list(found) == expected
        assert found[::-1] == expected[::-1]
        assert list(found) == expected
        assert len(found) == len(totals)


def test_only_the_pools_that_are_asked_for_are_made() -> None:
    made = []

    def make(place: int, weight: float) -> Weighed:
        made.append(place)
        return Weighed(place, weight)

    assert next(iter(Ranking(np.array([1.0, 3.0, 2.0]), make))) == Weighed(1, 3.0)
    assert made == [1]


def test_a_removed_pool_is_left_out() -> None:
    found = ranking(1, 3, 2)
    for each in found[::-1]:
        if each.place != 2:
            found.remove(each)
    assert list(found) == [Weighed(2, 2.0)]
    assert found[0] == Weighed(2, 2.0)
    assert len(found) == 1


@pytest.mark.parametrize(("raw", "expected"), [([1.0, 3.0, 2.0], [0, 1, 0.5]), ([2.0, 2.0], [0, 0])])
def test_weights_are_scaled_between_the_least_and_the_largest(raw: list[float], expected: list[float]) -> None:
    assert scaled(np.array(raw), min(raw), max(raw)).tolist() == expected
