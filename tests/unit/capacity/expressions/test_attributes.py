# SPDX-License-Identifier: Apache-2.0
"""Names in expressions are read a column at a time, for the rows that are needed."""

import math
from typing import Any

import numpy as np
import pytest

from tonnage.capacity.expressions import attributes
from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request

POOLS = PoolTable(
    [
        Pool(
            name="h@b#full",
            total=100.0,
            free=40.0,
            provisioned=50.0,
            allocated=7.0,
            claimed=5.0,
            claimed_physical=3.0,
            thin=True,
            availability_zone="nova",
            ratio=2.0,
            capabilities={"vendor_name": "Acme", "qos": {"iops": 500}, "storage_protocol": None},
        ),
        Pool(name="h@b#open", total=math.nan, free=math.inf, thick=True),
    ]
)
BOTH = np.arange(2)
REQUEST = Request(
    request_id="r",
    size_gb=8,
    project_id="demo",
    extra_specs={"capabilities": "x"},
    qos_specs={"limit": {"iops": 3}},
)


def column(name: str, rows: Any = BOTH) -> list[Any]:
    return attributes.column(POOLS, REQUEST, rows, name.split("."))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("stats.host", ["h@b#full", "h@b#open"]),
        ("stats.pool_name", ["full", "open"]),
        ("stats.availability_zone", ["nova", ""]),
        ("stats.total_capacity_gb", [100.0, "unknown"]),
        ("stats.allocated_capacity_gb", [7.0, 0.0]),
        ("stats.in_flight_capacity_gb", [5.0, 0.0]),
        ("stats.thin_provisioning_support", [True, False]),
        ("stats.vendor_name", ["Acme", MISSING]),
        ("stats.multiattach", [False, False]),
        ("stats.qos", [MISSING, MISSING]),
    ],
)
def test_stats_are_computed_figures_and_some_reported_capabilities(name: str, values: list[Any]) -> None:
    assert column(name) == values


def test_stats_contain_the_claims_since_the_report_and_capabilities_do_not() -> None:
    assert column("stats.free_capacity_gb") == [37.0, "infinite"]
    assert column("capabilities.free_capacity_gb") == [40.0, "infinite"]
    assert column("stats.provisioned_capacity_gb", np.array([0])) == [55.0]
    assert column("capabilities.provisioned_capacity_gb") == [50.0, MISSING]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("capabilities.qos.iops", [500, MISSING]),
        ("capabilities.vendor_name", ["Acme", MISSING]),
        ("capabilities.storage_protocol", [None, MISSING]),
        ("capabilities.thick_provisioning_support", [False, True]),
        ("capabilities.max_over_subscription_ratio", [2.0, 1.0]),
        ("capabilities.pool_name", ["full", "open"]),
        ("capabilities.total_capacity_gb.deep", [MISSING, MISSING]),
    ],
)
def test_capabilities_are_what_the_pools_report(name: str, values: list[Any]) -> None:
    assert column(name) == values


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("volume.size", 8),
        ("volume.operation", "create"),
        ("volume.project_id", "demo"),
        ("volume.volume_type", MISSING),
        ("volume.colour", MISSING),
        ("volume.size.deep", MISSING),
        ("qos.limit.iops", 3),
        ("extra.capabilities", "x"),
        ("elsewhere.name", MISSING),
    ],
)
def test_values_of_the_request_are_the_same_for_each_row(name: str, value: object) -> None:
    assert attributes.of_request(REQUEST, name.split(".")) == value
    assert column(name) == [value, value]


def test_only_the_wanted_rows_are_read() -> None:
    assert column("stats.pool_name", np.array([1])) == ["open"]
    assert column("stats.vendor_name", np.array([], dtype=np.intp)) == []
