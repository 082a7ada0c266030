# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this package is for
"""Volumes grow."""

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver
from tonnage.drivers.base import Terms
from tonnage.drivers.base import Volume
from tonnage.drivers.contract import looking
from tonnage.drivers.contract import making
from tonnage.drivers.contract.storage import Storage


class Extending(Storage):
    """Tests of drivers that declare ``supports_extend``."""

    def test_an_extended_volume_is_in_the_next_report(self, extendable: Driver, volume: Volume) -> None:
        extendable.create(volume)
        before = looking.stats_of(extendable, volume.pool)
        extendable.extend(volume, 2)
        after = looking.stats_of(extendable, volume.pool)
        assert looking.sizes(extendable) == {volume.id: 2}
        looking.assert_grown(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            looking.assert_grown(after.free, before.free, 1)

    def test_extending_again_succeeds_and_changes_nothing(self, extendable: Driver, volume: Volume) -> None:
        extendable.create(volume)
        extendable.extend(volume, 2)
        before = looking.figures(extendable)
        extendable.extend(volume, 2)
        assert looking.figures(extendable) == before

    def test_extending_never_shrinks(self, extendable: Driver, provisioning: Provisioning) -> None:
        volume = making.new_volume(extendable, provisioning, size_gb=2)
        extendable.create(volume)
        extendable.extend(volume, 1)
        assert looking.sizes(extendable) == {volume.id: 2}

    def test_extending_what_is_not_there(self, extendable: Driver, volume: Volume) -> None:
        with pytest.raises(errors.NotFound, match=volume.id):
            extendable.extend(volume, 2)
        assert looking.sizes(extendable) == {}

    @pytest.mark.parametrize("terms", making.TERMS)
    def test_growth_is_admitted_up_to_the_headroom(
        self, extendable: Driver, provisioning: Provisioning, terms: Terms
    ) -> None:
        volume = making.new_volume(extendable, provisioning, terms=terms)
        extendable.create(volume)
        largest = 1 + looking.headroom(extendable, volume)
        before = looking.figures(extendable)
        with pytest.raises(errors.CapacityExceeded):
            extendable.extend(volume, largest + 1)
        assert looking.figures(extendable) == before, "a refused extend changed something"
        extendable.extend(volume, largest)
        assert looking.sizes(extendable) == {volume.id: largest}

    @pytest.fixture
    def extendable(self, declared: Driver, request: pytest.FixtureRequest) -> Driver:
        """The driver, if it declares that it can extend volumes."""
        making.declares(declared, "supports_extend")
        driver: Driver = request.getfixturevalue("driver")
        return driver
