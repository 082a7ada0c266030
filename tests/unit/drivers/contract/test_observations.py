# SPDX-License-Identifier: Apache-2.0
"""The values that tests of drivers derive from reports and lists."""

import pathlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, StoredVolume, Terms
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.memory.driver import MemoryDriver

TERMS = Terms(ratio=2.0, calculation=Calculation.CINDER)


@pytest.fixture
def driver(tmp_path: pathlib.Path) -> Driver:
    """A driver with a pool of 5 GiB, 1 GiB of which is reserved."""
    driver = contract_runs.make_memory_driver(tmp_path)()
    driver.check()
    return driver


class Twice(MemoryDriver):
    """Lists each volume twice, and reports a pool that no scheduler takes."""

    def list_volumes(self) -> Sequence[StoredVolume]:
        return [*super().list_volumes(), *super().list_volumes()]

    def report(self) -> Sequence[Mapping[str, Any]]:
        return [{**pool, "total_capacity_gb": "much"} for pool in super().report()]


def test_sizes_are_those_of_the_list(driver: Driver) -> None:
    volumes = [test_data.new_volume(driver, Provisioning.THIN, size_gb) for size_gb in (1, 2)]
    for volume in volumes:
        driver.create(volume)
    assert observations.sizes(driver) == {volumes[0].id: 1, volumes[1].id: 2}
    assert observations.listed_volume(driver, volumes[1].id).size_gb == 2
    with pytest.raises(StopIteration):
        observations.listed_volume(driver, "another")


def test_a_volume_in_two_rows_and_an_invalid_report_are_failures(driver: Driver, tmp_path: pathlib.Path) -> None:
    driver.create(test_data.new_volume(driver, Provisioning.THIN))
    twice = contract_runs.make_memory_driver(tmp_path, Twice)()
    twice.check()
    with pytest.raises(AssertionError, match="a volume is listed twice"):
        observations.sizes(twice)
    with pytest.raises(AssertionError):
        observations.all_stats(twice)


@pytest.mark.parametrize(
    ("provisioning", "headroom", "number"), [(Provisioning.THIN, 8, 10), (Provisioning.THICK, 4, 4)]
)
def test_the_headroom_follows_from_the_report_and_the_terms(
    driver: Driver, provisioning: Provisioning, headroom: int, number: int
) -> None:
    """The calculation ``cinder`` admits small volumes beyond the largest one, up to the ratio."""
    volume = test_data.new_volume(driver, provisioning, terms=TERMS)
    assert observations.headroom(driver, volume) == headroom
    assert observations.capacity_in_1gib_volumes(driver, volume) == number


def test_without_terms_those_of_the_driver_hold(driver: Driver) -> None:
    volume = test_data.new_volume(driver, Provisioning.THIN)
    pool, terms = observations.pool_and_terms(driver, volume)
    assert terms == driver.default_terms(observations.stats_of(driver, volume.pool))
    assert (pool.total, pool.free, pool.reserved_percentage) == (5, 5, 20)


@pytest.mark.parametrize("after", [3.0, 3.01, 2.99])
def test_a_growth_is_exact_apart_from_two_decimals(after: float) -> None:
    observations.assert_growth(1.0, after, 2)


@pytest.mark.parametrize("after", [3.02, 2.98, 1.0])
def test_another_growth_is_a_failure(after: float) -> None:
    with pytest.raises(AssertionError, match="expected a growth of 2"):
        observations.assert_growth(1.0, after, 2)


@pytest.mark.parametrize("value", [None, 1, 1.5, True, "a", [], {"a": [{"b": None}]}])
def test_plain_values_can_be_serialized(value: Any) -> None:
    observations.assert_plain(value)


@pytest.mark.parametrize("value", [(1,), {1: "a"}, {"a": {"b": Decimal(1)}}, [b"a"], Provisioning.THIN])
def test_other_values_are_failures(value: Any) -> None:
    with pytest.raises(AssertionError):
        observations.assert_plain(value)
