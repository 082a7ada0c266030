# SPDX-License-Identifier: Apache-2.0
"""The arithmetic, against the examples of the specs, by properties, and against exact fractions."""

import dataclasses
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.capacity import strategies
from tests.unit.capacity.strategies import PROPERTY
from tonnage.capacity import arithmetic
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool

CINDER, STANDARD = Calculation.CINDER, Calculation.STANDARD
CALCULATIONS = st.sampled_from(Calculation)
NAN, INF = math.nan, math.inf


def pool(**figures: Any) -> Pool:
    defaults: dict[str, Any] = {"name": "host@backend#pool", "total": 100.0, "free": 100.0, "provisioned": 0.0}
    return Pool(**defaults | figures)


# Examples of the specs


def test_virtual_free_grows_with_the_ratio_and_falls_with_provisioned() -> None:
    assert arithmetic.virtual_free(pool(ratio=2.0), True, CINDER) == 200
    assert arithmetic.virtual_free(pool(ratio=2.0, provisioned=50.0), True, CINDER) == 150


def test_thick_volumes_are_limited_by_free_less_the_reserve_of_total() -> None:
    written = pool(free=80.0, reserved_percentage=10.0, provisioned=30.0)
    assert arithmetic.virtual_free(written, False, CINDER) == 70
    assert arithmetic.admits(written, 70, False, CINDER)
    assert not arithmetic.admits(written, 71, False, CINDER)


@pytest.mark.parametrize(("ratio", "limit"), [(1.0, 1024), (5.0, 5 * 1024)])
def test_provisioned_may_reach_but_not_exceed_the_ratio(ratio: float, limit: int) -> None:
    empty = pool(total=1024.0, free=1024.0, ratio=ratio)
    assert arithmetic.admits(empty, limit, True, STANDARD)
    assert not arithmetic.admits(empty, limit + 1, True, STANDARD)
    assert arithmetic.admits(empty, limit, True, CINDER)
    assert not arithmetic.admits(empty, limit + 1, True, CINDER)


def test_an_array_limited_to_a_terabyte_is_limited_by_its_total() -> None:
    # 1 TB, of which 400 GB are used by the service and 124 GB by others; 924 GB are promised.
    limited = pool(total=1024.0, free=500.0, provisioned=924.0, ratio=1.0)
    assert arithmetic.headroom(limited, True, STANDARD) == 100
    assert arithmetic.headroom(limited, True, CINDER) == 100
    assert arithmetic.headroom(limited, False, CINDER) == 500


def test_the_two_calculations_differ() -> None:
    nearly_full = pool(total=100.0, free=10.0, provisioned=90.0, reserved_percentage=5.0, ratio=4.0)
    assert arithmetic.headroom(nearly_full, True, STANDARD) == (100 - 5) * 4 - 90
    assert arithmetic.headroom(nearly_full, True, CINDER) == (10 - 5) * 4


@pytest.mark.parametrize(
    ("total", "free", "provisioned", "allocated", "ratio"),
    [
        (100.0, 100.0, 0.0, 0.0, 20.0),
        (1024.0, 500.0, 924.0, 800.0, 1 + 924 / 525),
        (1024.0, 500.0, NAN, 800.0, 1 + 800 / 525),
        (1024.0, 500.0, NAN, 0.0, 20.0),
        (100.0, 101.0, 10.0, 0.0, 11.0),
        (100.0, 100.0, 10.0, 0.0, 11.0),
        (INF, 100.0, 10.0, 0.0, 20.0),
        (100.0, NAN, 10.0, 0.0, 20.0),
        (INF, INF, 10.0, 0.0, 20.0),
    ],
)
def test_auto_ratio(total: float, free: float, provisioned: float, allocated: float, ratio: float) -> None:
    assert arithmetic.auto_ratio(total, free, provisioned, allocated) == pytest.approx(ratio)


# Single rules


def test_in_flight_counts_for_thin_and_only_its_thick_part_counts_physically() -> None:
    busy = pool(in_flight=30.0, in_flight_physical=10.0, ratio=1.0)
    assert arithmetic.headroom(busy, True, STANDARD) == 70
    assert arithmetic.headroom(busy, False, STANDARD) == 90
    assert arithmetic.virtual_free(busy, False, STANDARD) == 90


def test_allocated_replaces_a_missing_provisioned_and_contains_in_flight() -> None:
    silent = pool(provisioned=NAN, allocated=40.0, in_flight=15.0, ratio=1.0)
    assert arithmetic.promised(silent) == 40
    assert arithmetic.headroom(silent, True, STANDARD) == 60


def test_the_reserve_is_floored_once() -> None:
    assert arithmetic.reserve(pool(total=1024.0, reserved_percentage=5.0)) == 51
    # In binary 1500 * 8.2 / 100 is a little less than 123.
    assert arithmetic.reserve(pool(total=1500.0, reserved_percentage=8.2)) == 123
    assert arithmetic.reserve(pool(total=INF, reserved_percentage=0.0)) == 0


def test_a_pool_without_thin_volumes_promises_no_more_than_it_has() -> None:
    figures = {"ratio": 2.0, "reserved_percentage": 10.0}
    assert [arithmetic.promise_limit(pool(**figures, thin=True), kind) for kind in (CINDER, STANDARD)] == [200, 180]
    assert [arithmetic.promise_limit(pool(**figures, thin=False), kind) for kind in (CINDER, STANDARD)] == [90, 90]
    assert [arithmetic.promise_limit(pool(total=total, thin=False), CINDER) for total in (NAN, INF)] == [INF, INF]


@given(strategies.pools(known=True), CALCULATIONS)
def test_no_volume_is_admitted_above_the_limit_of_promises(figures: Pool, calculation: Calculation) -> None:
    headroom = arithmetic.headroom(figures, figures.thin, calculation)
    limit = arithmetic.promise_limit(figures, calculation)
    promised = arithmetic.promised(figures) if figures.thin else figures.total - figures.free
    assert headroom == 0 or promised + headroom <= limit + arithmetic.TOLERANCE_GB


def test_shared_storage_bounds_the_physical_room() -> None:
    shared = pool(storage_room=20.0, ratio=2.0)
    assert arithmetic.headroom(shared, False, CINDER) == 20
    assert arithmetic.headroom(shared, True, CINDER) == 40


@pytest.mark.parametrize("calculation", Calculation)
@pytest.mark.parametrize(
    ("figures", "thin", "headroom"),
    [
        ({"reserved_percentage": 100.0, "ratio": 2.0}, True, 0),
        ({"reserved_percentage": 100.0}, False, 0),
        ({"total": 0.0, "free": 0.0, "ratio": 20.0}, True, 0),
        ({"total": 0.0, "free": 0.0}, False, 0),
        ({"total": 0.0, "free": NAN}, False, 0),
        ({"ratio": 0.99}, True, 0),
        ({"ratio": 0.99}, False, 100),
        ({"free": NAN, "ratio": 2.0}, True, 200),
        ({"free": INF, "ratio": 2.0}, True, 200),
        ({"free": NAN}, False, INF),
        ({"total": NAN, "free": NAN, "ratio": 2.0}, True, INF),
        ({"total": INF, "free": INF}, False, INF),
        ({"total": NAN, "free": 50.0}, False, 50),
        ({"total": INF, "reserved_percentage": 1.0, "ratio": 2.0}, True, 0),
        ({"total": NAN, "reserved_percentage": 1.0}, False, 0),
        ({"total": INF, "free": INF, "reserved_percentage": 1.0, "ratio": 2.0}, True, INF),
        ({"total": INF, "free": NAN, "reserved_percentage": 100.0}, False, INF),
        ({"total": NAN, "free": NAN, "reserved_percentage": 1.0}, False, INF),
        ({"provisioned": 500.0, "ratio": 2.0}, True, 0),
    ],
)
def test_unknown_infinite_and_zero_capacities_have_defined_verdicts(
    figures: dict[str, float], thin: bool, headroom: float, calculation: Calculation
) -> None:
    assert arithmetic.headroom(pool(**figures), thin, calculation) == headroom
    assert bool(arithmetic.admits(pool(**figures), 1, thin, calculation)) == (headroom >= 1)


@pytest.mark.parametrize("figures", [{"total": NAN}, {"total": INF}, {"free": NAN}, {"free": INF}])
@pytest.mark.parametrize("thin", [True, False])
def test_unknown_and_infinite_capacities_are_not_ranked(figures: dict[str, float], thin: bool) -> None:
    assert math.isnan(arithmetic.virtual_free(pool(**figures), thin, CINDER))


def test_virtual_free_follows_the_calculation() -> None:
    figures = pool(total=1000.0, free=700.0, provisioned=1400.0, in_flight=20.0, reserved_percentage=10.0, ratio=2.0)
    assert arithmetic.virtual_free(figures, True, CINDER) == 1000 * 2 - 1420 - 100
    assert arithmetic.virtual_free(figures, True, STANDARD) == (1000 - 100) * 2 - 1420


# Properties


@PROPERTY
@given(strategies.pools(), strategies.SIZES, st.booleans(), CALCULATIONS)
def test_no_figures_raise(figures: Pool, size: int, thin: bool, calculation: Calculation) -> None:
    assert arithmetic.admits(figures, size, thin, calculation) in (True, False)
    assert arithmetic.headroom(figures, thin, calculation) >= 0
    arithmetic.virtual_free(figures, thin, calculation)
    assert arithmetic.auto_ratio(figures.total, figures.free, figures.provisioned, figures.allocated) >= 1


@PROPERTY
@given(strategies.pools(), st.booleans(), CALCULATIONS)
def test_the_headroom_is_admitted_and_one_more_gib_is_not(figures: Pool, thin: bool, calculation: Calculation) -> None:
    headroom = float(arithmetic.headroom(figures, thin, calculation))
    if headroom == INF:
        assert arithmetic.admits(figures, 10**15, thin, calculation)
        return
    assert headroom == math.floor(headroom)
    if headroom >= 1:
        assert arithmetic.admits(figures, headroom, thin, calculation)
    assert not arithmetic.admits(figures, headroom + 1, thin, calculation)


@PROPERTY
@given(strategies.pools(), strategies.SIZES, st.booleans(), CALCULATIONS, strategies.capacities())
def test_more_free_space_never_causes_a_refusal(
    figures: Pool, size: int, thin: bool, calculation: Calculation, more: float
) -> None:
    if arithmetic.admits(figures, size, thin, calculation):
        freer = dataclasses.replace(figures, free=figures.free + more)
        assert arithmetic.admits(freer, size, thin, calculation)


@PROPERTY
@given(strategies.pools(), strategies.SIZES, st.booleans(), CALCULATIONS)
def test_more_in_flight_capacity_never_admits_a_volume(
    figures: Pool, size: int, thin: bool, calculation: Calculation
) -> None:
    if arithmetic.admits(figures, size, thin, calculation):
        quiet = dataclasses.replace(figures, in_flight=0.0, in_flight_physical=0.0)
        assert arithmetic.admits(quiet, size, thin, calculation)


@settings(PROPERTY, max_examples=50)
@given(st.lists(strategies.pools(), min_size=1, max_size=5), strategies.SIZES, CALCULATIONS)
def test_columns_have_the_same_results_as_single_pools(
    figures: list[Pool], size: int, calculation: Calculation
) -> None:
    # Not a table: that works out for itself what claims and shared storage mean.
    table = SimpleNamespace(
        **{each.name: np.array([getattr(one, each.name) for one in figures]) for each in dataclasses.fields(Pool)}
    )
    thin = table.thin
    columns = (
        arithmetic.admits(table, size, thin, calculation),
        arithmetic.headroom(table, thin, calculation),
        arithmetic.virtual_free(table, thin, calculation),
        arithmetic.auto_ratio(table.total, table.free, table.provisioned, table.allocated),
        arithmetic.promise_limit(table, calculation),
    )
    for i, one in enumerate(figures):
        single = (
            arithmetic.admits(one, size, one.thin, calculation),
            arithmetic.headroom(one, one.thin, calculation),
            arithmetic.virtual_free(one, one.thin, calculation),
            arithmetic.auto_ratio(one.total, one.free, one.provisioned, one.allocated),
            arithmetic.promise_limit(one, calculation),
        )
        np.testing.assert_array_equal([np.asarray(column)[i] for column in columns], single)


def _exact_headroom(figures: Pool, thin: bool, calculation: Calculation) -> int:
    """Return the headroom by the design's table, in fractions; for known figures."""

    def exact(value: float) -> Fraction:
        return Fraction(str(value))

    reserve = math.floor(exact(figures.total) * exact(figures.reserved_percentage) / 100)
    room = exact(figures.free) - exact(figures.in_flight_physical) - reserve
    if math.isfinite(figures.storage_room):
        room = min(room, exact(figures.storage_room))
    largest = room
    if thin:
        promised = exact(figures.provisioned) + exact(figures.in_flight)
        ratio = exact(figures.ratio)
        if calculation is STANDARD:
            largest = (exact(figures.total) - reserve) * ratio - promised
        else:
            largest = min(exact(figures.total) * ratio - promised, room * ratio)
    if figures.total == 0 or (thin and figures.ratio < 1):
        return 0
    return max(0, math.floor(largest))


@PROPERTY
@given(strategies.pools(known=True, largest=1e6), st.booleans(), CALCULATIONS, st.data())
def test_floats_decide_as_exact_fractions_do(
    figures: Pool, thin: bool, calculation: Calculation, data: st.DataObject
) -> None:
    headroom = _exact_headroom(figures, thin, calculation)
    assert arithmetic.headroom(figures, thin, calculation) == headroom
    size = data.draw(st.one_of(strategies.SIZES, st.integers(max(1, headroom - 1), headroom + 2)))
    assert bool(arithmetic.admits(figures, size, thin, calculation)) == (size <= headroom)
