# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tonnage.capacity.reports import audit_columns, audit_rules

HONEST: dict[str, Any] = {
    "pool_name": "p",
    "total_capacity_gb": 1024,
    "free_capacity_gb": 500.25,
    "provisioned_capacity_gb": 924.0,
    "reserved_percentage": 5,
    "max_over_subscription_ratio": 2.5,
    "thin_provisioning_support": True,
    "thick_provisioning_support": False,
    "storage_free_capacity_gb": 700.1,
    "media": "ssd",
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2000),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.5, 1.005, 20.125, 10**400, "auto", "unknown", "infinite", "5", [], {}]),
)
FIELDS = (*HONEST, "allocated_capacity_gb", "total_used_capacity_gb", "cinder_used_capacity_gb")
#: What pools report beside, or in place of, what an honest one does; a field may be left out.
CHANGES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3)
LEFT_OUT = st.sets(st.sampled_from(FIELDS), max_size=2)


@given(st.lists(st.tuples(CHANGES, LEFT_OUT), max_size=5), st.sampled_from([True, False, None]))
@example([({"max_over_subscription_ratio": "auto"}, set())] * 2, False)
@example([({"reserved_percentage": 10**400, "total_capacity_gb": 10**400}, set())], False)
@example([({}, {"max_over_subscription_ratio"})] * 2, True)
def test_whoever_breaks_something_is_looked_at(
    pools: list[tuple[dict[str, Any], set[str]]], supports_auto: bool | None
) -> None:
    report = [
        {field: value for field, value in {**HONEST, **changes}.items() if field not in left_out}
        for changes, left_out in pools
    ]
    guilty = {place for place, pool in enumerate(report) if audit_rules.by_itself(pool, supports_auto)}
    assert guilty <= set(audit_columns.suspects(report, supports_auto))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_over_subscription_ratio": None},
        {"max_over_subscription_ratio": "auto"},
        {"thin_provisioning_support": None, "thick_provisioning_support": True, "provisioned_capacity_gb": None},
        {"reserved_percentage": None, "allocated_capacity_gb": None},
        {"total_capacity_gb": 0, "free_capacity_gb": 0},
        {"total_used_capacity_gb": 12.34},
    ],
)
def test_nobody_honest_is(changes: dict[str, Any]) -> None:
    report = [{**HONEST, **changes}, HONEST, {**HONEST, "provisioned_capacity_gb": 1, "new": True}]
    assert audit_columns.suspects(report, True) == []
