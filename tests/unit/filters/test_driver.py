# SPDX-License-Identifier: Apache-2.0
"""Tests of DriverFilter."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tonnage.capacity.expressions import parser
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request
from tonnage.filters.chain import FilterChain
from tonnage.filters.driver import DriverFilter

PLUGIN = DriverFilter(SimpleNamespace())
REQUEST = Request("r", 50, volume_type="gold", extra_specs={"tier": "2"}, qos_specs={"iops": "500"}, project_id="p")


def pool(function: object, name: str = "h@b#gold", **changes: Any) -> Pool:
    capabilities = {"filter_function": function, "vendor_name": "ACME", "latency": 2.5, "qos": {"most": 900}}
    figures: dict[str, Any] = {
        "total": 1000.0,
        "free": 400.0,
        "provisioned": 700.0,
        "allocated": 300.0,
        "claimed": 30.0,
        "claimed_physical": 25.0,
        "reserved_percentage": 5.0,
        "ratio": 2.0,
        "thin": True,
    }
    return Pool(name=name, capabilities=capabilities | changes.pop("capabilities", {}), **figures | changes)


def accepts(function: object, request: Request = REQUEST, **changes: Any) -> bool:
    return bool(PLUGIN.accepts(PoolTable([pool(function, **changes)]), request)[0])


@pytest.mark.parametrize(
    "function",
    [
        "volume.size == 50 and volume.operation == create and volume.volume_type == gold",
        "extra.tier == 2 && qos.iops >= 500",
        "stats.total_capacity_gb == 1000 and stats.reserved_percentage == 5",
        "stats.free_capacity_gb == 375",
        "stats.provisioned_capacity_gb == 730",
        "stats.in_flight_capacity_gb == 30",
        "stats.host == 'h@b#gold' && stats.backend_id == stats.host",
        "stats.vendor_name == ACME",
        "stats.thin_provisioning_support and not stats.thick_provisioning_support",
        "stats.max_over_subscription_ratio * 2 == 4",
        "not stats.QoS_support",
        "capabilities.free_capacity_gb == 400 and capabilities.provisioned_capacity_gb == 700",
        "capabilities.thin_provisioning_support",
        "capabilities.latency < 2.6",
        "capabilities.qos.most > 899",
        "capabilities.pool_name == gold",
        1,
    ],
)
def test_the_values_of_variables(function: object) -> None:
    assert accepts(function)


@pytest.mark.parametrize(
    "function", ["0", "volume.size > 50", "1 +", "'yes'", "stats.none", "capabilities.none < 3", 0]
)
def test_a_false_or_invalid_function_refuses_the_pool(function: object) -> None:
    assert not accepts(function)


def test_an_invalid_function_refuses_only_its_own_pool() -> None:
    functions = [None, "1", "))", "1 / 0", "volume.size < 100"]
    pools = PoolTable(pool(function, name=f"h@b#{i}") for i, function in enumerate(functions))
    result = FilterChain([PLUGIN]).run(pools, REQUEST)
    assert result.remaining.tolist() == [True, True, False, False, True]
    assert result.failures == {}


def test_pools_that_report_no_function_are_accepted() -> None:
    assert PLUGIN.accepts(PoolTable([Pool(name="h@b#1", total=1.0, free=1.0)]), REQUEST).tolist() == [True]


def test_unknown_and_infinite_capacities_are_texts() -> None:
    infinite = {"free": float("inf"), "total": float("nan")}
    assert accepts("stats.free_capacity_gb == infinite and stats.total_capacity_gb == unknown", **infinite)
    assert not accepts("stats.free_capacity_gb > 100", **infinite)
    assert not accepts("stats.storage_free_capacity_gb or 1")
    assert not accepts("capabilities.storage_free_capacity_gb > 0 ? 1 : 1")


def test_a_function_is_true_if_it_is_true_for_one_of_several_protocols() -> None:
    several = {"storage_protocol": ["FC", "fibre_channel"]}
    assert accepts("capabilities.storage_protocol == fibre_channel", capabilities=several)
    assert accepts("stats.storage_protocol == capabilities.storage_protocol", capabilities=several)
    assert not accepts("stats.storage_protocol == iSCSI", capabilities=several)
    assert not accepts("stats.storage_protocol == iSCSI", capabilities={"storage_protocol": "FC"})
    assert not accepts("stats.storage_protocol == iSCSI", capabilities={"storage_protocol": []})
    assert accepts("stats.storage_protocol == iscsi", capabilities={"storage_protocol": "iSCSI"})


def test_a_function_can_distinguish_extends_from_creates() -> None:
    function = "volume.operation == extend ? stats.free_capacity_gb > 100 : stats.free_capacity_gb > 500"
    assert not accepts(function)
    assert accepts(function, Request("r", 50, operation=Operation.EXTEND))


def test_the_cached_results_follow_changes_of_pools_and_requests() -> None:
    """The verdicts equal the verdicts on a table without a cache after each change."""
    function = "volume.size < 60 and stats.free_capacity_gb > volume.size * 7"
    pools = PoolTable(pool(function, name=f"h@b#{i}", free=300.0 + 10 * i) for i in range(40))

    def check(size: int) -> int:
        verdicts = PLUGIN.accepts(pools, Request("r", size))
        assert verdicts.tolist() == PLUGIN.accepts(PoolTable(pools), Request("r", size)).tolist()
        return int(verdicts.sum())

    first = check(50)
    pools.claim(39, 500.0, 500.0)
    assert check(50) == first - 1
    assert check(30) > first
    assert check(60) == 0
    pools.put(pool("volume.size < 80", name="h@b#3"))
    assert check(60) == 1
    pools.put(pool("volume.project_id == p", name="h@b#4"))
    assert check(60) == 1
    assert PLUGIN.accepts(pools, Request("r", 60, project_id="p")).sum() == 2
    pools.remove("h@b#3")
    assert check(60) == 0


def test_verdicts_on_a_few_pools_equal_the_verdicts_on_all() -> None:
    pools = PoolTable(pool(f"volume.size < {i}", name=f"h@b#{i}") for i in range(100))
    few = np.zeros(100, dtype=np.bool_)
    few[[20, 50, 51, 90]] = True
    assert (PLUGIN.narrow(pools, REQUEST, few) & few).nonzero()[0].tolist() == [51, 90]
    assert (PLUGIN.narrow(pools, REQUEST, ~few) & few).nonzero()[0].tolist() == [51, 90]


def test_a_function_of_many_pools_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = PoolTable(pool("stats.free_capacity_gb > volume.size * 7.5", name=f"h@b#{i}") for i in range(500))
    parsed = []
    expression = parser.Expression
    monkeypatch.setattr(parser, "Expression", lambda text: (parsed.append(text), expression(text))[1])
    assert PLUGIN.accepts(pools, REQUEST).all() == (375 > 50 * 7.5)
    assert parsed == ["stats.free_capacity_gb > volume.size * 7.5"]


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        (
            "volume.size < 10",
            "filter_function",
            "has the filter_function 'volume.size < 10', which does not hold (volume.size is 50)",
        ),
        (
            "stats.free_capacity_gb > 500 and capabilities.latency < 2",
            "filter_function",
            "has the filter_function 'stats.free_capacity_gb > 500 and capabilities.latency < 2', which does not hold "
            "(stats.free_capacity_gb is 375, capabilities.latency is 2.5)",
        ),
        ("0", "filter_function", "has the filter_function '0', which does not hold"),
        (
            "volume.size <",
            "filter_function_wrong",
            "has the filter_function 'volume.size <', which ends where something is missing",
        ),
        (
            "volume.colour == red",
            "filter_function_wrong",
            "has the filter_function 'volume.colour == red', which wants volume.colour, and there is none",
        ),
        ("'yes'", "filter_function_wrong", "has the filter_function ''yes'', which is the text 'yes' and no yes or no"),
    ],
)
def test_reasons_quote_the_function_with_its_values(function: str, code: str, message: str) -> None:
    rejection = PLUGIN.reason(pool(function), REQUEST)
    assert (rejection.code, rejection.message) == (code, message)
    assert rejection.numbers["filter_function"] == function


def test_the_numbers_of_a_reason_include_the_values() -> None:
    rejection = PLUGIN.reason(pool("volume.size < 10 and stats.vendor_name == X"), REQUEST)
    assert rejection.numbers["volume.size"] == 50
    assert rejection.numbers["stats.vendor_name"] == "ACME"


def test_a_long_function_is_truncated_in_the_reason() -> None:
    message = PLUGIN.reason(pool("0 + " * 400 + "0"), REQUEST).message
    assert len(message) < 300
    assert "...'" in message
