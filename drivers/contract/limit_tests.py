# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of the limits of a pool: a volume that fits is created, and any other is refused."""

import functools

import pytest

from tonnage.capacity import arithmetic, errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Terms, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import StorageFixtures


class LimitTests(StorageFixtures):
    """Tests of the limits of a pool."""

    @pytest.mark.parametrize("terms", test_data.TERMS)
    def test_the_headroom_is_admitted_and_one_gib_more_is_not(
        self, provisioning: Provisioning, driver: Driver, terms: Terms
    ) -> None:
        volume = test_data.new_volume(driver, provisioning, terms=terms)
        largest = observations.headroom(driver, volume)
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            driver.create(test_data.resized(volume, largest + 1))
        assert observations.sizes(driver) == {}, "a refused volume left something behind"
        driver.create(test_data.resized(volume, largest))
        remaining = observations.headroom(driver, volume)
        with pytest.raises(errors.CapacityExceeded):
            driver.create(test_data.resized(test_data.new_volume(driver, provisioning, terms=terms), remaining + 1))
        assert observations.sizes(driver) == {volume.id: largest}

    def test_the_limit_holds_without_a_scheduler(self, volume: Volume, driver: Driver) -> None:
        with pytest.raises(errors.CapacityExceeded):
            driver.create(test_data.resized(volume, 1_000_000))
        assert observations.sizes(driver) == {}

    def test_threads_fill_a_pool_exactly(self, provisioning: Provisioning, driver: Driver) -> None:
        # An automatic ratio would change between the creates: a scheduler fixes it with the request.
        terms = Terms(ratio=1.5, calculation=arithmetic.Calculation.CINDER)
        first = test_data.new_volume(driver, provisioning, terms=terms)
        capacity = observations.capacity_in_1gib_volumes(driver, first)
        volumes = [test_data.new_volume(driver, provisioning, terms=terms) for _ in range(capacity + self.surplus)]
        outcomes = test_data.run_concurrently([functools.partial(driver.create, volume) for volume in volumes])
        assert all(error is None or isinstance(error, errors.CapacityExceeded) for error in outcomes), outcomes
        assert sum(error is None for error in outcomes) == capacity
        assert observations.sizes(driver) == {
            volume.id: 1 for volume, error in zip(volumes, outcomes, strict=True) if error is None
        }
        assert observations.headroom(driver, first) == 0
