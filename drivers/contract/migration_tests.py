# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of migrating volumes from another backend."""

import dataclasses

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Terms, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import MakeDriver, StorageFixtures


class MigrationTests(StorageFixtures):
    """Tests of drivers that declare ``supports_migrate``."""

    def test_every_pool_reports_its_location(self, origin: Driver, driver: Driver) -> None:
        for stats in (*observations.all_stats(driver), *observations.all_stats(origin)):
            location = stats.capabilities.get("location_info")
            assert isinstance(location, str)
            assert location

    def test_a_migration_creates_the_volume_and_keeps_its_source(
        self, origin: Driver, volume: Volume, driver: Driver
    ) -> None:
        there = self._create_at_origin(origin, volume)
        before, untouched = observations.stats_of(driver, volume.pool), observations.figures(origin)
        driver.migrate(volume, test_data.source_of(origin, there))
        after = observations.stats_of(driver, volume.pool)
        assert observations.sizes(driver) == {volume.id: 1}
        observations.assert_growth(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            observations.assert_growth(after.free, before.free, 1)
        assert observations.sizes(origin) == {volume.id: 1}
        assert observations.figures(origin) == untouched

    def test_migrating_again_succeeds_and_changes_nothing(
        self, origin: Driver, volume: Volume, driver: Driver, make_driver: MakeDriver
    ) -> None:
        there = self._create_at_origin(origin, volume)
        self._write_content(origin, there, 0)
        source = test_data.source_of(origin, there)
        driver.migrate(volume, source)
        before = observations.figures(driver)
        driver.migrate(volume, source)
        restarted = make_driver()
        restarted.check()
        restarted.migrate(volume, source)
        assert observations.figures(restarted) == before
        assert observations.sizes(restarted) == {volume.id: 1}

    def test_a_migrated_volume_can_be_extended_and_deleted(
        self, origin: Driver, volume: Volume, driver: Driver
    ) -> None:
        before = observations.figures(driver)
        there = self._create_at_origin(origin, volume)
        driver.migrate(volume, test_data.source_of(origin, there))
        origin.delete(there)
        if driver.supports_extend:
            driver.extend(volume, 2)
            assert observations.sizes(driver) == {volume.id: 2}
        driver.delete(volume)
        assert observations.figures(driver) == before

    def test_migrating_an_unreachable_source_fails(self, origin: Driver, volume: Volume, driver: Driver) -> None:
        source = dataclasses.replace(
            test_data.source_of(origin, self._create_at_origin(origin, volume)), location="nowhere:at:all"
        )
        with pytest.raises(errors.DriverError, match="nowhere") as caught:
            driver.migrate(volume, source)
        assert caught.value.clean
        assert observations.sizes(driver) == {}

    @pytest.mark.parametrize("terms", test_data.TERMS)
    def test_a_migrated_volume_is_admitted_like_a_new_volume(
        self, origin: Driver, provisioning: Provisioning, driver: Driver, terms: Terms
    ) -> None:
        volume = test_data.new_volume(driver, provisioning, terms=terms)
        source, largest = (
            test_data.source_of(origin, self._create_at_origin(origin, volume)),
            observations.headroom(driver, volume),
        )
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            driver.migrate(test_data.resized(volume, largest + 1), source)
        assert observations.sizes(driver) == {}, "a refused migration left something behind"
        driver.migrate(test_data.resized(volume, largest), source)
        assert observations.sizes(driver) == {volume.id: largest}

    def test_a_migrated_volume_has_the_content_of_its_source(
        self, origin: Driver, volume: Volume, driver: Driver
    ) -> None:
        there = self._create_at_origin(origin, volume)
        self._write_or_skip(origin, there, 0)
        driver.migrate(volume, test_data.source_of(origin, there))
        self._assert_content(driver, volume, 0)
        self._assert_content(origin, there, 0)
        origin.delete(there)
        self._assert_content(driver, volume, 0)

    def test_migrating_onto_a_volume_with_other_content_fails(
        self, origin: Driver, volume: Volume, driver: Driver
    ) -> None:
        """The migration would delete the source after such a success."""
        there = self._create_at_origin(origin, volume)
        self._write_or_skip(origin, there, 0)
        driver.create(volume)
        self._write_or_skip(driver, volume, 1)
        with pytest.raises(errors.DriverError) as caught:
            driver.migrate(volume, test_data.source_of(origin, there))
        assert not caught.value.clean
        self._assert_content(driver, volume, 1)
        self._assert_content(origin, there, 0)
