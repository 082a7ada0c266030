# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of extending volumes."""

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Terms, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import StorageFixtures


class ExtensionTests(StorageFixtures):
    """Tests of drivers that declare ``supports_extend``."""

    def test_an_extended_volume_is_in_the_next_report(self, extendable: Driver, volume: Volume) -> None:
        extendable.create(volume)
        before = observations.stats_of(extendable, volume.pool)
        extendable.extend(volume, 2)
        after = observations.stats_of(extendable, volume.pool)
        assert observations.sizes(extendable) == {volume.id: 2}
        observations.assert_growth(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            observations.assert_growth(after.free, before.free, 1)

    def test_extending_again_succeeds_and_changes_nothing(self, extendable: Driver, volume: Volume) -> None:
        extendable.create(volume)
        extendable.extend(volume, 2)
        before = observations.figures(extendable)
        extendable.extend(volume, 2)
        assert observations.figures(extendable) == before

    def test_extending_never_shrinks(self, extendable: Driver, provisioning: Provisioning) -> None:
        volume = test_data.new_volume(extendable, provisioning, size_gb=2)
        extendable.create(volume)
        extendable.extend(volume, 1)
        assert observations.sizes(extendable) == {volume.id: 2}

    def test_extending_a_missing_volume_raises_not_found(self, extendable: Driver, volume: Volume) -> None:
        with pytest.raises(errors.NotFound, match=volume.id):
            extendable.extend(volume, 2)
        assert observations.sizes(extendable) == {}

    @pytest.mark.parametrize("terms", test_data.TERMS)
    def test_growth_is_admitted_up_to_the_headroom(
        self, extendable: Driver, provisioning: Provisioning, terms: Terms
    ) -> None:
        volume = test_data.new_volume(extendable, provisioning, terms=terms)
        extendable.create(volume)
        largest = 1 + observations.headroom(extendable, volume)
        before = observations.figures(extendable)
        with pytest.raises(errors.CapacityExceeded):
            extendable.extend(volume, largest + 1)
        assert observations.figures(extendable) == before, "a refused extend changed something"
        extendable.extend(volume, largest)
        assert observations.sizes(extendable) == {volume.id: largest}

    @pytest.fixture
    def extendable(self, declared: Driver, request: pytest.FixtureRequest) -> Driver:
        """The driver, if it declares ``supports_extend``; skips otherwise."""
        test_data.skip_unless_declared(declared, "supports_extend")
        driver: Driver = request.getfixturevalue("driver")
        return driver
