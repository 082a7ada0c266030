# SPDX-License-Identifier: Apache-2.0
"""Payloads of announcements."""

import datetime
import math

import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.extensions.announcements import payloads
from tonnage.extensions.announcements.options import Thresholds
from tonnage.extensions.announcements.payloads import ThresholdCrossing, Usage
from tonnage.extensions.announcements.threshold_crossings import Reason

NOON = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
USAGE = Usage("h@b#p", 100.0, 20.0, 50.0, 120.456, 30.0)


def table(*pools: Pool) -> PoolTable:
    pool_table = PoolTable()
    pool_table.put_all(list(pools))
    return pool_table


def test_the_payload_of_a_pool_has_its_figures_and_the_time() -> None:
    assert USAGE.payload(NOON) == {
        "name_to_id": "h@b#p",
        "total": 100.0,
        "free": 20.0,
        "allocated": 50.0,
        "provisioned": 120.46,
        "virtual_free": 30.0,
        "reported_at": "2026-11-21T12:00:00.000000",
    }


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_capacity_that_is_no_number_is_null(value: float) -> None:
    usage = Usage("h@b#p", 100.0, value, 1.0, 1.0, value)
    assert not usage.is_finite
    payload = usage.payload(NOON)
    assert (payload["total"], payload["free"], payload["virtual_free"]) == (100.0, None, None)


def test_times_are_in_utc_whatever_their_zone() -> None:
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    assert USAGE.payload(NOON.astimezone(berlin))["reported_at"] == "2026-11-21T12:00:00.000000"
    # Times of the ledger have no zone.
    assert USAGE.payload(NOON.replace(tzinfo=None))["reported_at"] == "2026-11-21T12:00:00.000000"


def test_a_pool_without_provisioned_capacity_has_that_of_its_volumes() -> None:
    pools = table(
        Pool(name="h@b#a", total=100.0, free=60.0, provisioned=70.0, allocated=30.0, claimed=5.0, ratio=2.0),
        Pool(name="h@b#b", total=100.0, free=60.0, allocated=30.0, external=8.0, ratio=2.0),
    )
    assert payloads.provisioned(pools).tolist() == [70.0, 38.0]
    usages = payloads.usages(pools, Calculation.STANDARD)
    assert [(usage.name, usage.total, usage.allocated, usage.provisioned) for usage in usages] == [
        ("h@b#a", 100.0, 30.0, 70.0),
        ("h@b#b", 100.0, 30.0, 38.0),
    ]


def test_a_backend_has_the_sums_of_its_pools_with_finite_capacities() -> None:
    pools = [USAGE, Usage("h@b#q", 0.1, 0.2, 1.0, 1.0, 1.0), Usage("h@b#r", math.inf, 5.0, 9.0, 9.0, 9.0)]
    assert payloads.backend_usage("h@b", pools) == Usage("h@b", 100.1, 20.2, 51.0, 121.46, 31.0)
    assert payloads.backend_usage("h@b", []) == Usage("h@b", 0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_pool_over_its_thresholds_is_announced_with_the_reasons() -> None:
    crossing = ThresholdCrossing(USAGE, 80.0, 200.0, 2.0, [Reason.PHYSICAL, Reason.PROVISIONED])
    assert crossing.event_type == "capacity.pool.exceeded"
    payload = crossing.payload(NOON, Thresholds(percent=75.0))
    assert payload.items() >= USAGE.payload(NOON).items()
    assert (payload["backend"], payload["reasons"]) == ("h@b", ["physical", "provisioned"])
    assert (payload["used_percent"], payload["exceeded_percent"], payload["provisioned_limit"]) == (80.0, 75.0, 200.0)
    assert (payload["max_over_subscription_ratio"], payload["exceeded_at"]) == (2.0, None)


def test_a_pool_that_has_recovered_is_announced_with_the_begin() -> None:
    begin = NOON - datetime.timedelta(hours=1)
    crossing = ThresholdCrossing(USAGE, math.nan, math.inf, 2.0, [], since=begin)
    assert crossing.event_type == "capacity.pool.recovered"
    payload = crossing.payload(NOON, Thresholds())
    assert (payload["used_percent"], payload["provisioned_limit"]) == (None, None)
    assert payload["exceeded_at"] == "2026-11-21T11:00:00.000000"
