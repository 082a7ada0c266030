# SPDX-License-Identifier: Apache-2.0
"""GoodnessWeigher."""

import logging
import uuid
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.goodness import GoodnessWeigher

PLUGIN = GoodnessWeigher(SimpleNamespace())
REQUEST = Request("r", 50)


def table(*functions: object, **capabilities: Any) -> PoolTable:
    return PoolTable(
        Pool(name=f"h@b#{i}", total=1000.0, free=400.0, capabilities={"goodness_function": function} | capabilities)
        for i, function in enumerate(functions)
    )


@pytest.mark.parametrize(
    ("function", "goodness"),
    [
        ("100", 100),
        ("0", 0),
        (42, 42),
        ("volume.size * 1.5", 75),
        ("stats.free_capacity_gb > volume.size ? 80 : 20", 80),
        ("volume.size < 100", 100),
        ("volume.size > 100", 0),
        (None, 0),
    ],
)
def test_results_of_functions_are_weights(function: object, goodness: float) -> None:
    assert PLUGIN.weigh(table(function), REQUEST).tolist() == [goodness]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("101", "comes to 101, not to 0 to 100"),
        ("-1", "comes to -1, not to 0 to 100"),
        ("'good'", "comes to 'good', not to 0 to 100"),
        ("volume.size +", "ends where something is missing"),
        ("stats.none", "wants stats.none, and there is none"),
    ],
)
def test_invalid_functions_count_as_poor_and_are_logged_once(
    function: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Each run has a backend of its own, since what was said before is not said again.
    backend = f"h@{uuid.uuid4().hex}"
    capabilities = {"goodness_function": function}
    pools = PoolTable(Pool(name=f"{backend}#{i}", total=1.0, free=1.0, capabilities=capabilities) for i in range(3))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert PLUGIN.weigh(pools, REQUEST).tolist() == [0, 0, 0]
    [record] = [record for record in caplog.records if backend in record.message]
    assert said in record.message
    assert repr(function) in record.message


@pytest.mark.parametrize("text", ["x" * 100_000, "capabilities.long < 1"])
def test_the_log_of_a_long_function_is_short(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert PLUGIN.weigh(table(text, long=f"{uuid.uuid4()} {'y' * 100_000}"), REQUEST).tolist() == [0]
    [record] = caplog.records
    assert len(record.message) < 700
    assert text[:20] in record.message


def test_the_best_of_several_protocols_counts() -> None:
    function = "stats.storage_protocol == fibre_channel ? 90 : 10"
    assert PLUGIN.weigh(table(function, storage_protocol=["FC", "fibre_channel"]), REQUEST).tolist() == [90]
    assert PLUGIN.weigh(table(function, storage_protocol="iSCSI"), REQUEST).tolist() == [10]
    assert PLUGIN.weigh(table(function, storage_protocol="fc"), REQUEST).tolist() == [90]
    assert PLUGIN.weigh(table(function, storage_protocol=[]), REQUEST).tolist() == [0]


def test_only_functions_of_candidates_are_evaluated() -> None:
    pools = table("90", "40", "60")
    candidates = np.array([False, True, True])
    assert PLUGIN.weigh_candidates(pools, REQUEST, candidates).tolist()[1:] == [40, 60]
    assert WeigherChain([PLUGIN]).order(pools, REQUEST, candidates).tolist() == [2, 1]


def test_cached_results_follow_changes_of_pools_and_requests() -> None:
    pools = table(*["volume.size + stats.free_capacity_gb / 100"] * 40)
    assert PLUGIN.weigh(pools, REQUEST).tolist() == [54.0] * 40
    pools.claim(7, 100.0, 100.0)
    assert PLUGIN.weigh(pools, REQUEST).tolist() == [54.0] * 7 + [53.0] + [54.0] * 32
    assert PLUGIN.weigh(pools, Request("r", 20))[7] == 23
    few = np.zeros(40, dtype=np.bool_)
    few[7] = True
    assert PLUGIN.weigh_candidates(pools, REQUEST, few)[7] == 53
