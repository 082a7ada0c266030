# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this package is for
"""What fits is made, and what does not is refused."""

import functools

import pytest

from tonnage.capacity import arithmetic
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver
from tonnage.drivers.base import Terms
from tonnage.drivers.base import Volume
from tonnage.drivers.contract import looking
from tonnage.drivers.contract import making
from tonnage.drivers.contract.storage import Storage


class Limits(Storage):
    """Tests of the limits of a pool."""

    @pytest.mark.parametrize("terms", making.TERMS)
    def test_the_headroom_is_admitted_and_one_gib_more_is_not(
        self, provisioning: Provisioning, driver: Driver, terms: Terms
    ) -> None:
        volume = making.new_volume(driver, provisioning, terms=terms)
        largest = looking.headroom(driver, volume)
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            driver.create(making.resized(volume, largest + 1))
        assert looking.sizes(driver) == {}, "a refused volume left something behind"
        driver.create(making.resized(volume, largest))
        left = looking.headroom(driver, volume)
        with pytest.raises(errors.CapacityExceeded):
            driver.create(making.resized(making.new_volume(driver, provisioning, terms=terms), left + 1))
        assert looking.sizes(driver) == {volume.id: largest}

    def test_the_limit_holds_without_a_scheduler(self, volume: Volume, driver: Driver) -> None:
        with pytest.raises(errors.CapacityExceeded):
            driver.create(making.resized(volume, 1_000_000))
        assert looking.sizes(driver) == {}

    def test_threads_fill_a_pool_exactly(self, provisioning: Provisioning, driver: Driver) -> None:
        # An automatic ratio would change under way: a scheduler fixes it with the request.
        terms = Terms(ratio=1.5, calculation=arithmetic.Calculation.CINDER)
        first = making.new_volume(driver, provisioning, terms=terms)
        room = looking.room_for_single_gibs(driver, first)
        volumes = [making.new_volume(driver, provisioning, terms=terms) for _ in range(room + self.surplus)]
        made = making.run_together([functools.partial(driver.create, volume) for volume in volumes])
        assert all(error is None or isinstance(error, errors.CapacityExceeded) for error in made), made
        assert sum(error is None for error in made) == room
        assert looking.sizes(driver) == {
            volume.id: 1 for volume, error in zip(volumes, made, strict=True) if error is None
        }
        assert looking.headroom(driver, first) == 0
