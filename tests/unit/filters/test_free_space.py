# SPDX-License-Identifier: Apache-2.0
"""Tests of FreeSpaceFilter."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Provisioning, Request
from tonnage.filters.free_space import FreeSpaceFilter


def plugin(minimum: float = 10.0, for_extend: float | None = None) -> FreeSpaceFilter:
    return FreeSpaceFilter(
        SimpleNamespace(min_free_capacity_percentage=minimum, min_free_capacity_extend_percentage=for_extend)
    )


def pool(**changes: Any) -> Pool:
    defaults: dict[str, Any] = {"name": "h@b#p", "total": 1000.0, "free": 160.0, "thin": True, "ratio": 20.0}
    return Pool(**defaults | changes)


def accepts(one: Pool, size: int = 50, *, minimum: float = 10.0, **asked: Any) -> bool:
    return bool(plugin(minimum).accepts(PoolTable([one]), Request("r", size, **asked))[0])


def test_a_thin_volume_takes_no_physical_space_at_once() -> None:
    assert accepts(pool(free=100.0), 5000)
    assert not accepts(pool(free=99.0), 1)


def test_the_minimum_share_stays_free_after_a_thick_volume() -> None:
    thick = {"thin": False, "thick": True}
    assert accepts(pool(**thick), 60)
    assert not accepts(pool(**thick), 61)
    assert not accepts(pool(thick=True), 61, provisioning=Provisioning.THICK)
    assert accepts(pool(thick=True), 61, provisioning=Provisioning.THIN)


def test_in_flight_claims_count() -> None:
    assert accepts(pool(claimed=500.0, claimed_physical=60.0))
    assert not accepts(pool(claimed=500.0, claimed_physical=61.0))


def test_in_flight_claims_on_shared_storage_count() -> None:
    assert not accepts(pool(storage_id="array", shared_in_flight_physical=61.0))
    assert not accepts(pool(storage_id="array", storage_free=99.0))
    assert accepts(pool(storage_id="array", storage_free=100.0))


@pytest.mark.parametrize("free", [math.nan, math.inf])
def test_pools_with_unknown_or_infinite_free_capacity_are_accepted(free: float) -> None:
    assert accepts(pool(free=free))
    assert accepts(pool(free=free, total=math.nan))


@pytest.mark.parametrize("total", [math.nan, math.inf, 0.0])
def test_pools_with_an_unusable_total_capacity_are_refused(total: float) -> None:
    assert not accepts(pool(total=total))
    text = {"nan": "unknown", "inf": "infinite", "0.0": "0.0"}[str(total)]
    rejection = plugin().reason(pool(total=total), Request("r", 1))
    assert rejection.code == "total_unknown"
    assert rejection.message == f"has a total capacity of {text}, of which 10 % cannot be kept free"


def test_a_minimum_of_zero_accepts_every_pool() -> None:
    assert accepts(pool(free=0.0, total=math.nan), minimum=0.0)


def test_extends_can_have_a_minimum_of_their_own() -> None:
    extend, create = Request("r", 1, operation=Operation.EXTEND), Request("r", 1)
    pools = PoolTable([pool(free=60.0)])
    assert not plugin(10.0).accepts(pools, extend)[0]
    assert plugin(10.0, 5.0).accepts(pools, extend)[0]
    assert not plugin(10.0, 5.0).accepts(pools, create)[0]
    assert plugin(10.0, 0.0).accepts(PoolTable([pool(free=0.0)]), extend)[0]


EXTEND = "min_free_capacity_extend_percentage"
CREATE = "min_free_capacity_percentage"


@pytest.mark.parametrize(
    ("options", "reported", "create", "extend"),
    [
        # The pool's own minimum precedes the configured one ...
        ((10.0, None), {CREATE: 30}, 30, 30),
        ((10.0, 5.0), {CREATE: "30"}, 30, 5),
        ((10.0, None), {EXTEND: 5.5}, 10, 5.5),
        ((10.0, 40.0), {CREATE: 0, EXTEND: 20}, 0, 20),
        # ... and the configured one applies if the pool reports none.
        ((10.0, 5.0), {CREATE: None, "other": 70}, 10, 5),
    ],
)
def test_a_reported_minimum_precedes_the_option(
    options: tuple[float, float | None], reported: dict[str, Any], create: float, extend: float
) -> None:
    asked = {Operation.CREATE: create, Operation.EXTEND: extend}
    for operation, minimum in asked.items():
        request = Request("r", 1, operation=operation)
        for free in (minimum * 10, minimum * 10 - 0.1):
            one = pool(free=free, capabilities=reported)
            # Another pool reports a different minimum.
            table = PoolTable([pool(name="h@b#other", free=1000.0, capabilities={CREATE: 99}), one])
            accepted = bool(plugin(*options).accepts(table, request)[1])
            assert accepted is (minimum == 0 or free >= minimum * 10)
            if not accepted:
                assert plugin(*options).reason(one, request).numbers["least_percentage"] == minimum


@pytest.mark.parametrize("value", ["much", -1, 101, True, [10], math.nan, math.inf, "nan"])
def test_an_invalid_minimum_refuses_the_pool_that_reports_it(value: object) -> None:
    wrong = pool(free=1000.0, capabilities={CREATE: value})
    for operation in (Operation.CREATE, Operation.EXTEND):
        request = Request("r", 1, operation=operation)
        accepted = plugin().accepts(PoolTable([wrong, pool(name="h@b#right")]), request)
        assert accepted.tolist() == [False, True]
        rejection = plugin().reason(wrong, request)
        assert rejection.code == "free_space_wrong"
        assert rejection.message == f"reports {CREATE} = {value!r}, which is no percentage from 0 to 100"


def test_the_reason_names_the_shares() -> None:
    one = PoolTable([pool(free=130.0, claimed_physical=40.0)]).row(0)
    rejection = plugin(12.5).reason(one, Request("r", 50))
    assert rejection.message == (
        "would have 90.00 GiB free, 9.00 % of its 1000, and has to keep 12.5 % (free 130, in flight 40)"
    )
    assert rejection.numbers == {
        "total": 1000.0,
        "free": 130.0,
        "in_flight": 40.0,
        "left": 90.0,
        "least_percentage": 12.5,
    }


@given(
    total=st.integers(1, 10**6),
    free=st.integers(0, 10**6),
    in_flight=st.integers(0, 10**6),
    size=st.integers(1, 10**6),
    minimum=st.integers(1, 100),
    thin=st.booleans(),
)
def test_accepted_pools_keep_the_minimum_free(
    total: int, free: int, in_flight: int, size: int, minimum: int, thin: bool
) -> None:
    one = pool(total=float(total), free=float(free), claimed_physical=float(in_flight), thin=thin, thick=not thin)
    left = max(0, free - in_flight) - (0 if thin else size)
    assert accepts(one, size, minimum=float(minimum)) is (100 * left >= minimum * total)
