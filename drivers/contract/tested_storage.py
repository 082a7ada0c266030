# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this package is for
"""The storage that is tested: what its author says of it, and what the tests do to it."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection
from typing import BinaryIO, TypeAlias

import pytest

from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, StoredVolume, Volume
from tonnage.drivers.contract import observations, test_data

MakeDriver: TypeAlias = Callable[[], Driver]


class Storage:
    """What the tests of one driver share; the fixtures and methods that say "override" are for its author."""

    #: How the pools make volumes. Override if it is only one of the ways that the driver declares.
    made: Collection[Provisioning] = frozenset(Provisioning)

    #: How many volumes of 1 GiB the concurrency tests try to make beyond what fits.
    surplus = 4

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        """Override: return a function whose every call returns a new driver over the same storage, empty at first.

        Each pool should have 3 to 10 GiB, some of it free for thick volumes where the driver makes them. A call stands
        for a restart: it must not tidy up what the driver before it has left, nor tell that driver.
        """
        raise NotImplementedError("a contract test overrides the fixture make_driver")

    @pytest.fixture
    def make_origin(self) -> MakeDriver:
        """Override if the driver declares ``supports_migrate``: return a function like that of :meth:`make_driver`.

        Its driver has another backend name and another storage, empty too, from which the one under test can take
        volumes over. Pools of 3 to 10 GiB will do here as well.
        """
        raise NotImplementedError("a contract test of a driver with supports_migrate overrides the fixture make_origin")

    def open_volume(self, driver: Driver, stored: StoredVolume) -> contextlib.AbstractContextManager[BinaryIO] | None:
        """Override if there is a way: open a volume for reading and writing, as its user would; None if it has none."""
        return None

    def reference_to(self, stored: StoredVolume) -> str:
        """Override if it is something else than the volume's id: how :meth:`Driver.manage` is told of a volume."""
        return stored.id

    @pytest.fixture
    def driver(self, make_driver: MakeDriver) -> Driver:
        """A driver that has been checked and holds no volumes."""
        driver = make_driver()
        driver.check()
        assert list(driver.list_volumes()) == [], "the contract needs an empty storage"
        return driver

    @pytest.fixture
    def declared(self, make_driver: MakeDriver) -> Driver:
        """A driver to see what it declares: tests that are skipped for that do not touch the storage."""
        return make_driver()

    @pytest.fixture(params=list(Provisioning))
    def provisioning(self, request: pytest.FixtureRequest, declared: Driver) -> Provisioning:
        """Each way of making volumes that the driver declares and that its pools, as configured here, have."""
        provisioning = Provisioning(request.param)
        test_data.declares(declared, f"supports_{provisioning}")
        if provisioning not in self.made:
            pytest.skip(f"{type(self).__name__} is about pools that make no {provisioning} volumes")
        return provisioning

    @pytest.fixture
    def volume(self, provisioning: Provisioning, driver: Driver) -> Volume:
        """A volume of 1 GiB that has not been made yet."""
        return test_data.new_volume(driver, provisioning)

    @pytest.fixture
    def origin(self, declared: Driver, request: pytest.FixtureRequest) -> Driver:
        """A driver of another backend, from which volumes are taken over; skips if none can be."""
        test_data.declares(declared, "supports_migrate")
        origin: Driver = request.getfixturevalue("make_origin")()
        origin.check()
        assert origin.backend != declared.backend
        assert list(origin.list_volumes()) == [], "the contract needs an empty storage"
        return origin

    # What the tests do to volumes

    def _made_at(self, origin: Driver, volume: Volume) -> Volume:
        """Make the volume at a place from which it is taken over, and return it as it is there."""
        kind = Provisioning.THIN if origin.supports_thin else Provisioning.THICK
        there = dataclasses.replace(test_data.new_volume(origin, kind), id=volume.id)
        origin.create(there)
        return there

    def _unmanaged(self, driver: Driver, volume: Volume) -> str:
        """Make something that is to be managed, and return how it is called."""
        driver.create(volume)
        return self.reference_to(observations.stored_as(driver, volume.id))

    def _write(self, driver: Driver, volume: Volume, seed: int) -> None:
        """Write to a volume; skips where the suite cannot."""
        if not self._fill(driver, volume, seed):
            pytest.skip("the tests of this driver do not override open_volume, so no content can be compared")

    def _fill(self, driver: Driver, volume: Volume, seed: int) -> bool:
        """Write here and there to the first GiB of a volume; tell whether that can be done."""
        opened = self.open_volume(driver, observations.stored_as(driver, volume.id))
        if opened is None:
            return False
        with opened as file:
            for offset, data in test_data.pieces(seed).items():
                file.seek(offset)
                file.write(data)
        return True

    def _assert_holds(self, driver: Driver, volume: Volume, *seeds: int) -> None:
        """See that the first GiB of a volume is as if these had been written to it in this order."""
        expected = {offset: data for seed in seeds for offset, data in test_data.pieces(seed).items()}
        opened = self.open_volume(driver, observations.stored_as(driver, volume.id))
        assert opened is not None
        with opened as file:
            for offset in range(0, GIB, test_data.PLACE):
                file.seek(offset)
                wanted = expected.get(offset, bytes(test_data.PIECE))
                assert file.read(test_data.PIECE) == wanted, f"{volume.id} differs at {offset}"
