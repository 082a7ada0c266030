# SPDX-License-Identifier: Apache-2.0
"""Validation of reports."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.capacity.strategies import PROPERTY
from tonnage.capacity import units
from tonnage.capacity.pool_stats import PoolStats
from tonnage.capacity.reports import validation

GOOD: dict[str, Any] = {
    "pool_name": "gold",
    "total_capacity_gb": 1024,
    "free_capacity_gb": 500.0,
    "provisioned_capacity_gb": 924,
    "reserved_percentage": 5,
    "max_over_subscription_ratio": 2.0,
    "thin_provisioning_support": True,
    "thick_provisioning_support": False,
    "volume_backend_name": "ssd",
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.sampled_from([*GOOD, "allocated_capacity_gb", "storage_id", "storage_free_capacity_gb"])
VALUES = JSON | st.sampled_from(
    ["infinite", "unknown", "auto", "10", "", -1, 101, 10**400, -0.0, math.nan, math.inf, 1e308, "\ud800", "a#b"]
)


def of(**changes: Any) -> validation.Report:
    return validation.validate([GOOD | changes])


def only(**changes: Any) -> PoolStats:
    checked = of(**changes)
    assert not checked.errors
    (stats,) = checked.pools
    return stats


def test_a_valid_pool_is_accepted() -> None:
    expected = PoolStats(
        name="gold",
        total=1024.0,
        free=500.0,
        provisioned=924.0,
        reserved_percentage=5.0,
        ratio=2.0,
        thin=True,
        thick=False,
        capabilities=MappingProxyType({"volume_backend_name": "ssd"}),
    )
    checked = of()
    assert not checked.errors
    assert repr(checked.pools) == repr((expected,)), "a storage's free capacity that is not reported is nan"


def test_missing_and_null_fields_have_the_same_defaults() -> None:
    required = {"pool_name": "p", "total_capacity_gb": 1, "free_capacity_gb": 1}
    nulls = dict.fromkeys(set(GOOD) - set(required)) | required | {"allocated_capacity_gb": None, "storage_id": None}
    for pool in (required, nulls):
        (stats,) = validation.validate([pool]).pools
        assert math.isnan(stats.provisioned)
        assert math.isnan(stats.storage_free)
        assert stats.ratio is None
        assert (stats.reserved_percentage, stats.thin, stats.thick, stats.storage_id) == (0.0, False, False, None)
        assert stats.capabilities == {}


@pytest.mark.parametrize("field", ["total_capacity_gb", "free_capacity_gb"])
@pytest.mark.parametrize("value", [None, -0.01, -5, "-5"])
def test_a_physical_capacity_that_is_missing_or_negative_is_zero(field: str, value: object) -> None:
    checked = of(**{field: value})
    (stats,) = checked.pools
    assert {"total_capacity_gb": stats.total, "free_capacity_gb": stats.free}[field] == 0
    assert any(f"{field} is" in str(remark) and "taken as 0" in str(remark) for remark in checked.remarks)


@pytest.mark.parametrize(("value", "taken"), [(-1, 0.0), (101, 100.0), ("101", 100.0), (100.5, 100.0)])
def test_a_reserve_out_of_range_is_the_nearest_within(value: object, taken: float) -> None:
    checked = of(reserved_percentage=value)
    assert checked.pools[0].reserved_percentage == taken
    assert [remark.code for remark in checked.remarks][:1] == ["reserved_out_of_range"]


@pytest.mark.parametrize(("value", "taken"), [(0, None), ("0", None), (1e7, 1e6), (math.inf, 1e6)])
def test_a_ratio_out_of_range(value: object, taken: float | None) -> None:
    """A ratio of 0 leaves it to the scheduler, as in Cinder."""
    checked = of(max_over_subscription_ratio=value)
    assert checked.pools[0].ratio == taken
    assert any("max_over_subscription_ratio is" in str(remark) for remark in checked.remarks)


@pytest.mark.parametrize(("value", "taken"), [(1, True), (0, False), ("yes", True), ("maybe", False), ([], False)])
def test_flags_that_are_not_true_or_false(value: object, taken: bool) -> None:
    assert of(thick_provisioning_support=value).pools[0].thick is taken


@pytest.mark.parametrize(("field", "value"), [("total_used_capacity_gb", -1), ("cinder_used_capacity_gb", "much")])
def test_a_shown_capacity_that_is_no_capacity_is_not_shown(field: str, value: object) -> None:
    checked = of(**{field: value})
    assert field not in checked.pools[0].capabilities
    assert [remark.code for remark in checked.remarks] == [f"unusable_{field}"]


@pytest.mark.parametrize("name", [None, "", "  ", 7, "a#b", "x" * 256, "a\nb", "\ud800", ["a"]])
def test_names(name: object) -> None:
    (error,) = of(pool_name=name).errors
    assert (error.pool, error.field, error.value) == ("number 0", "pool_name", name)


def test_capacities_have_two_decimals() -> None:
    stats = only(
        total_capacity_gb=1000.126,
        free_capacity_gb=0.999,
        provisioned_capacity_gb=10.014,
        storage_free_capacity_gb=3.333,
        storage_id="array-1",
        total_used_capacity_gb=1.23456,
        cinder_used_capacity_gb="unknown",
        provisioned_capacity_precission="exact",
    )
    assert (stats.total, stats.free, stats.provisioned, stats.storage_free) == (1000.13, 1.0, 10.01, 3.33)
    assert stats.storage_id == "array-1"
    assert stats.capabilities == {
        "volume_backend_name": "ssd",
        "total_used_capacity_gb": 1.23,
        "cinder_used_capacity_gb": "unknown",
        "provisioned_capacity_precission": "exact",
    }


def test_unknown_and_infinite_capacities_are_accepted_with_a_warning() -> None:
    checked = of(total_capacity_gb="infinite", free_capacity_gb="unknown")
    (stats,) = checked.pools
    assert stats.total == math.inf
    assert math.isnan(stats.free)
    assert tuple(map(str, checked.remarks)) == (
        "pool 'gold': total_capacity_gb infinite, free_capacity_gb unknown: limits that need them are not checked",
    )


def test_reported_allocated_capacity_is_ignored_with_a_remark() -> None:
    checked = of(allocated_capacity_gb="anything at all")
    (remark,) = checked.remarks
    assert (remark.pool, remark.code) == ("gold", "allocated_reported")
    assert str(remark) == "pool 'gold': allocated_capacity_gb is kept by the ledger; the value of a driver is ignored"
    assert "allocated_capacity_gb" not in checked.pools[0].capabilities


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"free_capacity_gb": 1025}, "free_capacity_gb 1025.0 is more than total_capacity_gb 1024.0; taken as 1024.0"),
        ({"thin_provisioning_support": False}, "reports neither thin_provisioning_support nor"),
        ({"max_over_subscription_ratio": 0.5}, "max_over_subscription_ratio 0.5 is less than 1"),
    ],
)
def test_remarks(changes: dict[str, Any], warning: str) -> None:
    checked = of(**changes)
    assert len(checked.pools) == 1
    assert any(warning in str(remark) for remark in checked.remarks)


def test_a_rule_that_no_plugin_can_read_is_a_remark() -> None:
    checked = of(filter_function="volume.size <", goodness_function="50", node_name="n1")
    (remark,) = checked.remarks
    assert (remark.pool, remark.code) == ("gold", "unreadable_filter_function")
    assert remark.text == (
        "filter_function 'volume.size <' ends where something is missing; DriverFilter excludes the pool"
    )
    assert checked.pools[0].capabilities["filter_function"] == "volume.size <"


def test_free_is_never_more_than_total() -> None:
    assert only(free_capacity_gb=5000).free == 1024.0


def test_auto_ratio() -> None:
    assert only(max_over_subscription_ratio="auto").ratio == "auto"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total_capacity_gb", "much"),
        ("total_capacity_gb", "inf"),
        ("total_capacity_gb", "nan"),
        ("total_capacity_gb", ""),
        ("total_capacity_gb", True),
        ("total_capacity_gb", math.nan),
        ("total_capacity_gb", 10**400),
        ("total_capacity_gb", 2.0**41),
        ("total_capacity_gb", {}),
        ("free_capacity_gb", [1]),
        ("provisioned_capacity_gb", -1),
        ("provisioned_capacity_gb", "infinite"),
        ("reserved_percentage", "auto"),
        ("reserved_percentage", math.nan),
        ("max_over_subscription_ratio", "unknown"),
        ("max_over_subscription_ratio", math.nan),
        ("storage_id", ""),
        ("storage_id", 5),
        ("storage_free_capacity_gb", "infinite"),
    ],
)
def test_a_bad_value_excludes_only_its_pool(field: str, value: object) -> None:
    checked = validation.validate([GOOD, GOOD | {"pool_name": "bad", field: value}, GOOD | {"pool_name": "silver"}])
    assert [stats.name for stats in checked.pools] == ["gold", "silver"]
    (error,) = checked.errors
    assert (error.pool, error.field) == ("bad", field)
    assert error.value is value
    assert str(error).startswith(f"pool 'bad': {field} is {value!r}: ")


@pytest.mark.parametrize(
    ("field", "text", "taken"),
    [
        ("total_capacity_gb", "2000.5", "2000.5"),
        ("free_capacity_gb", "7", "7.0"),
        ("provisioned_capacity_gb", "930", "930.0"),
        ("reserved_percentage", "5", "5.0"),
        ("max_over_subscription_ratio", "20.0", "20.0"),
        ("thin_provisioning_support", "True", "True"),
        ("thick_provisioning_support", "false", "False"),
        ("storage_free_capacity_gb", "3.333", "3.33"),
    ],
)
def test_the_text_of_a_number_or_flag_is_taken_as_its_value_with_a_remark(field: str, text: str, taken: str) -> None:
    (remark,) = of(storage_id="array-1", **{field: text}).remarks
    assert remark.code == f"text_{field}"
    assert str(remark) == f"pool 'gold': {field} is the text {text!r}; taken as {taken}"


def test_the_first_of_two_pools_with_one_name_counts() -> None:
    checked = validation.validate([GOOD, GOOD | {"free_capacity_gb": 1}])
    assert [stats.free for stats in checked.pools] == [500.0]
    assert checked.errors[0].problem == "another pool of this report has that name"


@pytest.mark.parametrize("pools", [None, {"pools": "gold"}, "pools", 5])
def test_a_report_carries_a_list(pools: object) -> None:
    assert validation.validate(pools).errors[0].problem == "a report carries a list of pools"


@PROPERTY
@given(JSON)
def test_no_input_raises(junk: object) -> None:
    validation.validate(junk)
    validation.validate([junk])


@PROPERTY
@given(st.lists(st.dictionaries(FIELDS, VALUES), max_size=4))
def test_no_value_of_a_known_field_raises_or_affects_another_pool(junk: list[dict[str, Any]]) -> None:
    mine = GOOD | {"pool_name": "the good one"}
    bad = [GOOD | pool for pool in junk if pool.get("pool_name") != "the good one"]
    checked = validation.validate([*bad, mine])
    assert repr(checked.pools[-1]) == repr(validation.validate([mine]).pools[0])
    assert len(checked.pools) + len(checked.errors) == len(bad) + 1
    for error in checked.errors:
        assert error.field in str(error)
    for stats in checked.pools:
        assert math.isnan(stats.total) or 0 <= stats.total <= units.MAX_CAPACITY_GB or math.isinf(stats.total)
        assert math.isinf(stats.free) or not stats.free > stats.total
        assert 0 <= stats.reserved_percentage <= 100


@PROPERTY
@given(st.dictionaries(FIELDS, VALUES, max_size=3), st.dictionaries(st.text(max_size=5), VALUES, max_size=2))
def test_usual_reports_are_validated_like_others(changes: dict[str, Any], others: dict[str, Any]) -> None:
    raw = {**others, **GOOD, **changes}
    usual = validation._usual_stats("gold", raw)
    if usual is not None:
        assert repr(usual) == repr(validation._stats("gold", raw))
        assert usual.capabilities is validation._stats("gold", raw).capabilities


def test_a_usual_report_is_recognized() -> None:
    assert validation._usual_stats("gold", GOOD) == only()
    assert validation._usual_stats("gold", GOOD | {"tier": True}) == only(tier=True)
    assert validation._usual_stats("gold", GOOD | {"free_capacity_gb": 2000}) is None
    assert validation._usual_stats("gold", GOOD | {"filter_function": "("}) is None


def test_pools_of_a_kind_share_the_memory_of_their_capabilities() -> None:
    pools = validation.validate(
        [GOOD | {"pool_name": f"p{number}", "tier": number % 2 == 0} for number in range(20)]
    ).pools
    assert len({id(stats.capabilities) for stats in pools}) == 2


def test_reports_share_capabilities_but_not_for_equal_values_of_other_types() -> None:
    def reported(tier: object) -> Mapping[str, Any]:
        pools = [GOOD | {"pool_name": f"p{number}", "tier": tier} for number in range(20)]
        return validation.validate(pools).pools[0].capabilities

    assert reported(True) is reported(True)
    assert [type(reported(tier)["tier"]) for tier in (True, 1, 1.0)] == [bool, int, float]
