# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of managing existing objects on the storage as volumes."""

import dataclasses
import uuid

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import MakeDriver, StorageFixtures


class ManageTests(StorageFixtures):
    """Tests of drivers that declare ``supports_manage``."""

    def test_a_managed_volume_is_listed_under_its_new_id(self, manageable: Driver, volume: Volume) -> None:
        reference = self._create_unmanaged(manageable, volume)
        before = observations.figures(manageable)
        managed = test_data.new_volume(manageable, volume.provisioning, size_gb=0)
        assert manageable.manage(managed, reference) == 1
        assert observations.sizes(manageable) == {managed.id: 1}
        assert observations.figures(manageable) == before

    def test_managing_again_succeeds_and_changes_nothing(
        self, manageable: Driver, volume: Volume, make_driver: MakeDriver
    ) -> None:
        reference = self._create_unmanaged(manageable, volume)
        managed = test_data.new_volume(manageable, volume.provisioning, size_gb=0)
        manageable.manage(managed, reference)
        before = observations.figures(manageable)
        assert manageable.manage(managed, reference) == 1
        restarted = make_driver()
        restarted.check()
        assert restarted.manage(managed, reference) == 1
        assert observations.sizes(restarted) == {managed.id: 1}
        assert observations.figures(restarted) == before

    def test_managing_a_missing_reference_fails(self, manageable: Driver, volume: Volume) -> None:
        with pytest.raises(errors.DriverError, match="no-such-thing") as caught:
            manageable.manage(volume, "no-such-thing")
        assert caught.value.clean
        assert observations.sizes(manageable) == {}

    def test_managing_under_a_taken_id_fails(self, manageable: Driver, volume: Volume) -> None:
        reference = self._create_unmanaged(manageable, volume)
        taken = test_data.new_volume(manageable, volume.provisioning)
        manageable.create(taken)
        with pytest.raises(errors.DriverError, match=taken.id):
            manageable.manage(taken, reference)
        assert observations.sizes(manageable) == {volume.id: 1, taken.id: 1}

    def test_a_volume_can_be_managed_in_a_full_pool(self, manageable: Driver, provisioning: Provisioning) -> None:
        volume = test_data.new_volume(manageable, provisioning)
        volume = test_data.resized(volume, observations.headroom(manageable, volume))
        reference = self._create_unmanaged(manageable, volume)
        managed = dataclasses.replace(volume, id=str(uuid.uuid4()), size_gb=0)
        assert manageable.manage(managed, reference) == volume.size_gb

    def test_a_managed_volume_can_be_extended_and_deleted(self, manageable: Driver, volume: Volume) -> None:
        empty = observations.figures(manageable)
        reference = self._create_unmanaged(manageable, volume)
        written = self._write_content(manageable, volume, 0)
        managed = test_data.new_volume(manageable, volume.provisioning)
        manageable.manage(managed, reference)
        if written:
            self._assert_content(manageable, managed, 0)
        if manageable.supports_extend:
            manageable.extend(managed, 2)
            assert observations.sizes(manageable) == {managed.id: 2}
        manageable.delete(managed)
        assert observations.figures(manageable) == empty

    @pytest.fixture
    def manageable(self, declared: Driver, request: pytest.FixtureRequest) -> Driver:
        """The driver, if it declares ``supports_manage``; skips otherwise."""
        test_data.skip_unless_declared(declared, "supports_manage")
        driver: Driver = request.getfixturevalue("driver")
        return driver
