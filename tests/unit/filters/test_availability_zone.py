# SPDX-License-Identifier: Apache-2.0
"""Tests of AvailabilityZoneFilter."""

from types import SimpleNamespace

import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.chain import FilterChain

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


@pytest.mark.parametrize(
    ("listed", "zone", "accepted"),
    [
        ("a", None, "a"),
        ("a,b", None, "ab"),
        (" b , c", None, "b"),
        ("a, b", "a", "a"),
        ("b", "a", ""),
        ("c,d", None, ""),
        ("A", None, ""),
    ],
)
def test_pools_are_accepted_by_the_zones_of_the_volume_type(listed: str, zone: str | None, accepted: str) -> None:
    request = Request("r", 1, availability_zone=zone, extra_specs={"RESKEY:availability_zones": listed})
    mask = AvailabilityZoneFilter(SimpleNamespace()).accepts(POOLS, request)
    assert mask.tolist() == [pool.availability_zone in tuple(accepted) for pool in POOLS]


def test_a_growing_volume_stays_where_it_is() -> None:
    specs = {"RESKEY:availability_zones": "elsewhere"}
    for operation, accepted in ((Operation.EXTEND, True), (Operation.MIGRATE, False), (Operation.CREATE, False)):
        request = Request("r", 1, operation=operation, extra_specs=specs)
        assert AvailabilityZoneFilter(SimpleNamespace()).accepts(POOLS, request).tolist() == [accepted] * 4


def test_the_verdicts_of_a_chain_depend_on_the_zones_of_the_type() -> None:
    chain = FilterChain([AvailabilityZoneFilter(SimpleNamespace())])
    for listed, accepted in (("a", "a"), ("b", "b"), (None, "ab"), ("a", "a")):
        specs = {} if listed is None else {"RESKEY:availability_zones": listed}
        mask = chain.candidates(POOLS, Request("r", 1, extra_specs=specs))
        assert mask.tolist() == [pool.availability_zone in accepted for pool in POOLS]


def test_the_reason_names_the_zones_of_the_type() -> None:
    request = Request("r", 1, extra_specs={"RESKEY:availability_zones": "north, south"})
    rejection = AvailabilityZoneFilter(SimpleNamespace()).reason(POOLS.row(0), request)
    assert rejection.message == "is in availability zone 'a', and the volume type takes 'north' or 'south'"
    assert rejection.numbers == {"availability_zone": "a", "asked": "north, south"}


def test_reason() -> None:
    rejection = AvailabilityZoneFilter(SimpleNamespace()).reason(POOLS.row(0), Request("r", 1, availability_zone="b"))
    assert rejection.code == "wrong_zone"
    assert rejection.message == "is in availability zone 'a', not 'b'"
