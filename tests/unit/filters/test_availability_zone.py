# SPDX-License-Identifier: Apache-2.0
"""Tests of AvailabilityZoneFilter."""

from types import SimpleNamespace

import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.availability_zone import AvailabilityZoneFilter

POOLS = PoolTable(Pool(name=f"h@b#{i}", total=1.0, free=1.0, availability_zone=zone) for i, zone in enumerate("abab"))


@pytest.mark.parametrize(
    ("zone", "accepted"),
    [
        (None, [True, True, True, True]),
        ("", [True, True, True, True]),
        ("a", [True, False, True, False]),
        ("b", [False, True, False, True]),
        ("elsewhere", [False, False, False, False]),
    ],
)
def test_pools_are_accepted_by_their_zone(zone: str | None, accepted: list[bool]) -> None:
    mask = AvailabilityZoneFilter(SimpleNamespace()).accepts(POOLS, Request("r", 1, availability_zone=zone))
    assert mask.tolist() == accepted


def test_reason() -> None:
    rejection = AvailabilityZoneFilter(SimpleNamespace()).reason(POOLS.row(0), Request("r", 1, availability_zone="b"))
    assert rejection.code == "wrong_zone"
    assert rejection.message == "is in availability zone 'a', not 'b'"
