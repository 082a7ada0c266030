# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of creating and deleting volumes, and of a restart of the driver."""

import dataclasses

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import MakeDriver, StorageFixtures


class CreationTests(StorageFixtures):
    """Tests of creating and deleting volumes."""

    def test_a_created_volume_is_listed(self, volume: Volume, driver: Driver) -> None:
        driver.create(volume)
        (stored,) = driver.list_volumes()
        assert (stored.id, stored.pool, stored.size_gb) == (volume.id, volume.pool, 1)

    def test_a_created_volume_is_in_the_next_report(self, volume: Volume, driver: Driver) -> None:
        before = observations.stats_of(driver, volume.pool)
        driver.create(volume)
        after = observations.stats_of(driver, volume.pool)
        assert after.total == before.total
        observations.assert_growth(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            observations.assert_growth(after.free, before.free, 1)
        else:
            assert before.free - after.free < 0.5, "a thin volume takes up nothing until it is written"

    def test_creating_again_succeeds_and_changes_nothing(self, volume: Volume, driver: Driver) -> None:
        driver.create(volume)
        before = observations.figures(driver)
        driver.create(volume)
        assert observations.figures(driver) == before
        assert observations.sizes(driver) == {volume.id: 1}

    def test_creating_again_succeeds_in_a_full_pool(self, provisioning: Provisioning, driver: Driver) -> None:
        volume = test_data.new_volume(driver, provisioning)
        volume = test_data.resized(volume, observations.headroom(driver, volume))
        driver.create(volume)
        driver.create(volume)
        assert observations.sizes(driver) == {volume.id: volume.size_gb}

    def test_creating_in_another_size_fails_and_changes_nothing(self, volume: Volume, driver: Driver) -> None:
        driver.create(volume)
        # Conflict, as a volume is in the place of the other, or any other failure of the storage.
        with pytest.raises((errors.Conflict, errors.DriverError)):
            driver.create(test_data.resized(volume, 2))
        assert observations.sizes(driver) == {volume.id: 1}

    def test_an_unknown_pool_is_an_error(self, volume: Volume, driver: Driver) -> None:
        elsewhere = dataclasses.replace(volume, pool="no-such-pool")
        for operation in (driver.create, driver.delete, lambda volume: driver.extend(volume, 2)):
            with pytest.raises(errors.TonnageError, match="no-such-pool"):
                operation(elsewhere)
        assert observations.sizes(driver) == {}

    def test_deleting_restores_the_figures(self, volume: Volume, driver: Driver) -> None:
        before = observations.figures(driver)
        driver.create(volume)
        driver.delete(volume)
        assert observations.sizes(driver) == {}
        assert observations.figures(driver) == before

    def test_deleting_a_missing_volume_succeeds(self, volume: Volume, driver: Driver) -> None:
        driver.delete(volume)
        driver.create(volume)
        driver.delete(volume)
        driver.delete(volume)
        assert observations.sizes(driver) == {}

    def test_a_deleted_volume_can_be_created_again_in_a_full_pool(self, volume: Volume, driver: Driver) -> None:
        full = test_data.resized(volume, observations.headroom(driver, volume))
        driver.create(full)
        driver.delete(full)
        driver.create(full)
        assert observations.sizes(driver) == {full.id: full.size_gb}

    def test_a_restart_changes_neither_volumes_nor_figures(
        self, volume: Volume, driver: Driver, make_driver: MakeDriver
    ) -> None:
        driver.create(volume)
        gone = test_data.new_volume(driver, volume.provisioning)
        driver.create(gone)
        driver.delete(gone)
        before = observations.figures(driver)
        restarted = make_driver()
        restarted.check()
        assert observations.sizes(restarted) == {volume.id: 1}
        assert observations.figures(restarted) == before
        restarted.create(volume)
        restarted.delete(volume)
        assert observations.sizes(restarted) == {}

    def test_a_driver_can_be_constructed_without_a_check(self, driver: Driver, make_driver: MakeDriver) -> None:
        """The agent constructs all drivers, and reports their configuration errors, before it uses a storage."""
        assert type(make_driver()) is type(driver)
