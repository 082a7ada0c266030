# SPDX-License-Identifier: Apache-2.0
"""Random selection: probabilities in proportion to the weights, the same selection in every scheduler."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.weighers.test_chain import Gives, everything, table
from tonnage.capacity import errors
from tonnage.capacity.request import Request
from tonnage.weighers import selection
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.selection import Ordered, Stochastic

NAN, INF = math.nan, math.inf
DRAWS = 1500


def chain(*weighers: Gives) -> WeigherChain:
    return WeigherChain(weighers, Stochastic())


def shares(lots: WeigherChain, count: int) -> list[float]:
    """Return the share of requests for which each pool is selected."""
    pools = table(count)
    drawn = Counter(lots.rank(pools, Request(f"request-{i}", 1), everything(pools)) for i in range(DRAWS))
    return [drawn[row] / DRAWS for row in range(count)]


@pytest.mark.parametrize(
    ("weights", "multiplier", "expected"),
    [
        ([100, 300, 600], 1.0, [0.1, 0.3, 0.6]),
        ([100, 300, 600], 7.0, [0.1, 0.3, 0.6]),
        ([0, 1, 1], 1.0, [0, 0.5, 0.5]),
        ([5, 5], 1.0, [0.5, 0.5]),
        ([0, 0], 1.0, [0.5, 0.5]),
        ([-10, 0, 10], 1.0, [0, 1 / 3, 2 / 3]),
        ([100, 300, 600], -1.0, [0.545, 0.364, 0.091]),
        ([0, 10], -1.0, [1, 0]),
        ([1, 3], 0.0, [0.5, 0.5]),
        ([1e300, 3e300], 1.0, [0.5, 0.5]),
        ([NAN, 1, 3], 1.0, [0, 0.25, 0.75]),
    ],
)
def test_probabilities_are_shares_of_the_weights(
    weights: Sequence[float], multiplier: float, expected: list[float]
) -> None:
    # Five standard deviations.
    found = shares(chain(Gives(weights, multiplier)), len(weights))
    for share, wanted in zip(found, expected, strict=True):
        assert share == pytest.approx(wanted, abs=5 * math.sqrt(max(wanted * (1 - wanted), 1e-4) / DRAWS))
        assert share > 0 or wanted == 0


def test_multipliers_are_the_parts_of_several_weighers() -> None:
    found = shares(chain(Gives([900, 100], 1.0, "GiB"), Gives([0.0, 0.5], 3.0, "points")), 2)
    assert found[0] == pytest.approx((1 * 0.9 + 3 * 0) / 4, abs=0.04)


def test_pools_that_cannot_be_ranked_come_last() -> None:
    lots, pools = chain(Gives([NAN, 0, 5, INF])), table(4)
    for i in range(100):
        assert set(lots.order(pools, Request(f"r{i}", 1), everything(pools)).tolist()[:2]) == {1, 2}


def test_the_second_of_an_order_is_selected_from_the_rest() -> None:
    lots, pools = chain(Gives([8, 1, 1])), table(3)
    orders = Counter(tuple(lots.order(pools, Request(f"r{i}", 1), everything(pools)).tolist()) for i in range(DRAWS))
    assert orders[0, 1, 2] / DRAWS == pytest.approx(0.4, abs=0.04)
    assert orders[1, 0, 2] / DRAWS == pytest.approx(0.1 * 8 / 9, abs=0.03)


def test_explanations_show_shares_and_repeat_the_selection() -> None:
    lots, pools = chain(Gives([1, 3], -2.0)), table(2)
    request = Request("r", 1)
    weights = lots.weights(pools, request, everything(pools))
    assert [(each.raw, each.scaled, each.multiplier) for each in weights["h@b#0"][0]] == [(1.0, 0.75, -2.0)]
    assert [total for _, total in weights.values()] == [1.5, 0.5]
    assert lots.rank(pools, request, everything(pools)) == lots.rank(pools, request, everything(pools))


@given(
    weights=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8),
    multiplier=st.floats(-100, 100),
    request_id=st.text(max_size=5),
)
def test_for_any_weights_the_selected_pool_is_the_first_of_the_order(
    weights: list[float], multiplier: float, request_id: str
) -> None:
    lots, pools = chain(Gives(weights, multiplier)), table(len(weights))
    request = Request(request_id, 1)
    order = lots.order(pools, request, everything(pools)).tolist()
    assert sorted(order) == list(range(len(weights)))
    assert lots.rank(pools, request, everything(pools)) == order[0]
    found = [weight for _, weight in lots.weights(pools, request, everything(pools)).values()]
    assert np.isfinite(found).all()
    assert sum(found) == pytest.approx(abs(multiplier) if np.isfinite(weights).any() else 0, abs=1e-9)


@pytest.mark.parametrize("before", ["", "cinder.scheduler.weights.", "cinder.scheduler.weights.stochastic."])
def test_selections_have_the_names_of_cinder(before: str) -> None:
    assert isinstance(selection.named(f"{before}OrderedHostWeightHandler"), Ordered)
    assert isinstance(selection.named(f"{before}StochasticHostWeightHandler"), Stochastic)


def test_an_unknown_selection_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        selection.named("Lottery")
    assert caught.value.message == (
        "scheduler_weight_handler names 'Lottery', which is unknown; known are OrderedHostWeightHandler, "
        "StochasticHostWeightHandler"
    )
