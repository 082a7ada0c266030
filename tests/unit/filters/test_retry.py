# SPDX-License-Identifier: Apache-2.0
"""Tests of RetryFilter."""

from types import SimpleNamespace

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.retry import RetryFilter

POOLS = PoolTable(Pool(name=f"h@b#{i}", total=10.0, free=10.0) for i in range(3))
PLUGIN = RetryFilter(SimpleNamespace())


def test_without_attempts_every_pool_is_accepted() -> None:
    assert PLUGIN.accepts(POOLS, Request("r", 1)).all()


def test_attempted_pools_are_refused() -> None:
    request = Request("r", 1, attempted=frozenset(["h@b#1", "h@gone#1"]))
    assert PLUGIN.accepts(POOLS, request).tolist() == [True, False, True]
    rejection = PLUGIN.reason(POOLS.row(1), request)
    assert rejection.message == "was tried for this volume before (one of 2 pools tried)"
    assert rejection.numbers == {"attempted": 2}
