# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this package is for
"""Volumes are taken over from elsewhere."""

import dataclasses

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Terms, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import MakeDriver, Storage


class Migrating(Storage):
    """Tests of drivers that declare ``supports_migrate``."""

    def test_every_pool_says_where_it_is(self, origin: Driver, driver: Driver) -> None:
        for stats in (*observations.all_stats(driver), *observations.all_stats(origin)):
            location = stats.capabilities.get("location_info")
            assert isinstance(location, str)
            assert location

    def test_a_migrated_volume_is_there_and_its_source_too(
        self, origin: Driver, volume: Volume, driver: Driver
    ) -> None:
        there = self._made_at(origin, volume)
        before, untouched = observations.stats_of(driver, volume.pool), observations.figures(origin)
        driver.migrate(volume, test_data.source_of(origin, there))
        after = observations.stats_of(driver, volume.pool)
        assert observations.sizes(driver) == {volume.id: 1}
        observations.assert_grown(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            observations.assert_grown(after.free, before.free, 1)
        assert observations.sizes(origin) == {volume.id: 1}
        assert observations.figures(origin) == untouched

    def test_migrating_again_succeeds_and_changes_nothing(
        self, origin: Driver, volume: Volume, driver: Driver, make_driver: MakeDriver
    ) -> None:
        there = self._made_at(origin, volume)
        self._fill(origin, there, 0)
        source = test_data.source_of(origin, there)
        driver.migrate(volume, source)
        before = observations.figures(driver)
        driver.migrate(volume, source)
        restarted = make_driver()
        restarted.check()
        restarted.migrate(volume, source)
        assert observations.figures(restarted) == before
        assert observations.sizes(restarted) == {volume.id: 1}

    def test_a_volume_that_was_migrated_can_be_worked_on(self, origin: Driver, volume: Volume, driver: Driver) -> None:
        before = observations.figures(driver)
        there = self._made_at(origin, volume)
        driver.migrate(volume, test_data.source_of(origin, there))
        origin.delete(there)
        if driver.supports_extend:
            driver.extend(volume, 2)
            assert observations.sizes(driver) == {volume.id: 2}
        driver.delete(volume)
        assert observations.figures(driver) == before

    def test_a_source_that_is_out_of_reach(self, origin: Driver, volume: Volume, driver: Driver) -> None:
        source = dataclasses.replace(
            test_data.source_of(origin, self._made_at(origin, volume)), location="nowhere:at:all"
        )
        with pytest.raises(errors.DriverError, match="nowhere") as caught:
            driver.migrate(volume, source)
        assert caught.value.clean
        assert observations.sizes(driver) == {}

    @pytest.mark.parametrize("terms", test_data.TERMS)
    def test_a_migrated_volume_is_admitted_as_a_new_one_is(
        self, origin: Driver, provisioning: Provisioning, driver: Driver, terms: Terms
    ) -> None:
        volume = test_data.new_volume(driver, provisioning, terms=terms)
        source, largest = (
            test_data.source_of(origin, self._made_at(origin, volume)),
            observations.headroom(driver, volume),
        )
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            driver.migrate(test_data.resized(volume, largest + 1), source)
        assert observations.sizes(driver) == {}, "a refused migration left something behind"
        driver.migrate(test_data.resized(volume, largest), source)
        assert observations.sizes(driver) == {volume.id: largest}

    def test_a_migrated_volume_has_the_content(self, origin: Driver, volume: Volume, driver: Driver) -> None:
        there = self._made_at(origin, volume)
        self._write(origin, there, 0)
        driver.migrate(volume, test_data.source_of(origin, there))
        self._assert_holds(driver, volume, 0)
        self._assert_holds(origin, there, 0)
        origin.delete(there)
        self._assert_holds(driver, volume, 0)

    def test_another_content_is_not_taken_for_the_volume(self, origin: Driver, volume: Volume, driver: Driver) -> None:
        """Its source would be deleted."""
        there = self._made_at(origin, volume)
        self._write(origin, there, 0)
        driver.create(volume)
        self._write(driver, volume, 1)
        with pytest.raises(errors.DriverError) as caught:
            driver.migrate(volume, test_data.source_of(origin, there))
        assert not caught.value.clean
        self._assert_holds(driver, volume, 1)
        self._assert_holds(origin, there, 0)
