# SPDX-License-Identifier: Apache-2.0
"""The reasons why filters of Cinder refuse a pool."""

import operator
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.capacity.decision import Rejection
from tonnage.extensions.cinder.pools.rejections import Reasons

NO_ROOM = Rejection("no_capacity", "has headroom 0.00 GiB")
REASONS = Reasons(operator.eq, lambda *_: NO_ROOM)


def pool(**more: Any) -> Any:
    capabilities = {"media": "hdd", "tiers": ["a", "b"], "nested": {"depth": 2}, "online_extend_support": False}
    base = {"capabilities": capabilities, "service": {"availability_zone": "nova"}, "filter_function": None}
    return SimpleNamespace(**base | more)


def reason(filter_name: str, properties: dict[str, Any] | None = None, **more: Any) -> tuple[str, str]:
    found = REASONS.reason(filter_name, pool(**more), properties or {})
    return found.code, found.message


def of_type(**extra_specs: Any) -> dict[str, Any]:
    return {"resource_type": {"extra_specs": extra_specs}}


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ({"media": "ssd"}, ("capability_mismatch", "reports media 'hdd', which has to be 'ssd'")),
        ({"media": "hdd", "tiers": "c"}, ("capability_mismatch", "reports tiers ['a', 'b'], which has to be 'c'")),
        (
            {"capabilities:nested:depth": 3},
            ("capability_mismatch", "reports nested:depth 2, which has to be '3'"),
        ),
        ({"colour": "red"}, ("capability_missing", "does not report colour, which has to be 'red'")),
        ({"media": "hdd", "other:scope": "x"}, ("refused", "is refused")),
    ],
)
def test_the_first_extra_spec_that_does_not_match_is_named(specs: dict[str, Any], expected: tuple[str, str]) -> None:
    assert reason("CapabilitiesFilter", of_type(**specs)) == expected


def test_a_pool_that_extends_no_volume_in_use_is_named() -> None:
    spec = {"operation": "extend_volume", "volume_properties": {"attach_status": "attached"}}
    found = reason("CapabilitiesFilter", {"request_spec": spec})
    assert found == ("no_online_extend", "extends no volume that is in use")


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"availability_zones": ["north", "south"]}, "'north' or 'south'"),
        ({"resource_properties": {"availability_zone": "north"}}, "'north'"),
    ],
)
def test_zones(spec: dict[str, Any], asked: str) -> None:
    found = reason("AvailabilityZoneFilter", {"request_spec": spec})
    assert found == ("wrong_zone", f"is in availability zone 'nova', not {asked}")


@pytest.mark.parametrize(("tried", "text"), [(["p"], "one of 1 pool tried"), (["p", "q", "p"], "one of 2 pools tried")])
def test_attempts(tried: list[str], text: str) -> None:
    found = reason("RetryFilter", {"retry": {"backends": tried}})
    assert found == ("attempted", f"was tried for this volume before ({text})")


def test_functions_and_capacities() -> None:
    found = reason("DriverFilter", filter_function="volume.size < 10")
    assert found == ("filter_function", "has the filter_function 'volume.size < 10', which does not hold")
    assert reason("CapacityFilter") == (NO_ROOM.code, NO_ROOM.message)


@pytest.mark.parametrize("name", ["MaintenanceFilter", "DriverFilter"])
def test_a_filter_without_figures_only_refuses(name: str) -> None:
    assert reason(name) == ("refused", "is refused")
