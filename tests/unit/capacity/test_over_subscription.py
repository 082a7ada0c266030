# SPDX-License-Identifier: Apache-2.0
"""Configured ratios, and the inputs of ``auto`` ratios."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity import arithmetic, over_subscription
from tonnage.capacity.over_subscription import AUTO, describe_auto_ratio, parse_ratio
from tonnage.capacity.pool_stats import PoolStats


@pytest.mark.parametrize(
    ("value", "ratio"), [("auto", AUTO), (" AUTO ", AUTO), ("1", 1.0), (20, 20.0), ("1e6", 1e6), (" 2.5", 2.5)]
)
def test_a_ratio_is_auto_or_a_number_from_one_to_a_million(value: object, ratio: float | str) -> None:
    assert parse_ratio(value) == ratio


@pytest.mark.parametrize("value", ["", "automatic", "0.99", 0, "-2", "nan", "inf", "1000001", None, "1,5"])
def test_any_other_ratio_is_refused_by_its_value(value: object) -> None:
    with pytest.raises(ValueError, match="is neither a number of at least 1") as caught:
        parse_ratio(value)
    assert str(caught.value).startswith(repr(value))


@given(st.floats(1, over_subscription.MAX_RATIO))
def test_a_ratio_is_the_number_that_its_text_spells(ratio: float) -> None:
    assert parse_ratio(repr(ratio)) == ratio


def auto_stats(**figures: float) -> PoolStats:
    return PoolStats(name="p", ratio=AUTO, **{"total": 100.0, "free": 40.0, "provisioned": 122.0} | figures)


def test_a_computed_ratio_names_its_formula_and_figures() -> None:
    auto_ratio = describe_auto_ratio(auto_stats(), 3.0, 20.0)
    assert auto_ratio is not None
    assert auto_ratio.formula == "1 + 122 / (100 - 40 + 1)"
    assert (auto_ratio.provisioned_capacity_gb, auto_ratio.allocated_capacity_gb) == (122.0, None)


def test_the_allocated_capacity_is_computed_back_from_the_ratio() -> None:
    auto_ratio = describe_auto_ratio(auto_stats(provisioned=math.nan), 3.0, 20.0)
    assert auto_ratio is not None
    assert (auto_ratio.provisioned_capacity_gb, auto_ratio.allocated_capacity_gb) == (None, 122.0)


def test_a_pool_without_provisioned_capacity_has_the_default_ratio() -> None:
    auto_ratio = describe_auto_ratio(auto_stats(provisioned=0.0), arithmetic.DEFAULT_RATIO, 1.0)
    assert auto_ratio is not None
    assert (auto_ratio.formula, auto_ratio.provisioned_capacity_gb) == ("20 while nothing is provisioned", 0.0)


@pytest.mark.parametrize("open_figure", [{"total": math.inf}, {"free": math.nan}])
def test_an_unknown_or_infinite_figure_leaves_no_inputs(open_figure: dict[str, float]) -> None:
    auto_ratio = describe_auto_ratio(auto_stats(**open_figure), 20.0, 1.0)
    assert auto_ratio is not None
    assert auto_ratio.formula == "20 where total or free is unknown or infinite"
    assert auto_ratio.provisioned_capacity_gb is None
    assert {auto_ratio.total_capacity_gb, auto_ratio.free_capacity_gb} & {"unknown", "infinite"}


@pytest.mark.parametrize(
    ("reported", "default", "is_auto"), [(AUTO, 2.0, True), (None, AUTO, True), (None, 2.0, False), (3.0, AUTO, False)]
)
def test_the_default_counts_for_pools_that_report_no_ratio(
    reported: float | str | None, default: float | str, is_auto: bool
) -> None:
    stats = auto_stats()._replace(ratio=reported)
    assert (describe_auto_ratio(stats, 3.0, default) is not None) is is_auto
