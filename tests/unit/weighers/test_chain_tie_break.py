# SPDX-License-Identifier: Apache-2.0
"""Random numbers that are the same in every scheduler."""

import numpy as np

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers import selection

POOLS = PoolTable(Pool(name=f"h@b#{i}", total=1.0, free=1.0) for i in range(200))
ROWS = np.arange(200)


def test_the_same_request_has_the_same_numbers_for_any_order_of_the_rows() -> None:
    turned = PoolTable(reversed(list(POOLS)))
    drawn = selection.chances(POOLS, Request("r", 1), ROWS, "x")
    assert drawn.tolist() == selection.chances(turned, Request("r", 9), ROWS[::-1], "x").tolist()
    assert drawn[[5, 7]].tolist() == selection.chances(POOLS, Request("r", 1), ROWS[[5, 7]], "x").tolist()


def test_other_requests_and_purposes_have_other_numbers() -> None:
    drawn = [
        selection.chances(POOLS, Request(request, 1), ROWS, purpose) for request in ("r", "s") for purpose in ("x", "y")
    ]
    for number, one in enumerate(drawn):
        for other in drawn[number + 1 :]:
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.3


def test_random_numbers_are_uniform_between_0_and_1() -> None:
    drawn = np.concatenate([selection.chances(POOLS, Request(f"r{i}", 1), ROWS, "x") for i in range(200)])
    assert 0 < drawn.min() < drawn.max() < 1
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    # 2,000 expected in each, with a standard deviation of 44.
    assert np.abs(counts - 2000).max() < 250
