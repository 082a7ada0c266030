# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""The fixtures of the tested storage, which authors override, and operations that the tests share."""

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


class StorageFixtures:
    """The common fixtures and operations of the tests; an author overrides those that say "override"."""

    #: The kinds of provisioning of the tested pools. Override if they are fewer than the driver declares.
    made: Collection[Provisioning] = frozenset(Provisioning)

    #: Number of volumes of 1 GiB that the concurrency tests request beyond the capacity.
    surplus = 4

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        """Override: return a function whose every call returns a new driver over the same storage, empty at first.

        Each pool should have 3 to 10 GiB, some of it free for thick volumes if the driver supports them. A call stands
        for a restart: it must not clean up after the previous driver, nor notify it.
        """
        raise NotImplementedError("a contract test overrides the fixture make_driver")

    @pytest.fixture
    def make_origin(self) -> MakeDriver:
        """Override if the driver declares ``supports_migrate``: return a function like that of :meth:`make_driver`.

        Its driver has another backend name and another empty storage, from which the tested driver can migrate volumes.
        Pools of 3 to 10 GiB suffice here as well.
        """
        raise NotImplementedError("a contract test of a driver with supports_migrate overrides the fixture make_origin")

    def take_storage_away(self, driver: Driver) -> None:
        """Override if the driver marks its storage: leave empty storage without a mark in the place of the tested one.

        The usual case is a file system that is not mounted. The next :meth:`make_driver` uses that storage.
        """
        raise NotImplementedError("a contract test of a driver with ledger_marks() overrides take_storage_away()")

    def open_volume(self, driver: Driver, stored: StoredVolume) -> contextlib.AbstractContextManager[BinaryIO] | None:
        """Override if possible: open a volume for reading and writing, as its user would.

        None skips the tests of content.
        """
        return None

    def reference_to(self, stored: StoredVolume) -> str:
        """Override if :meth:`Driver.manage` needs another reference than the volume's id."""
        return stored.id

    @pytest.fixture
    def driver(self, make_driver: MakeDriver) -> Driver:
        """A driver that has been checked and has no volumes."""
        driver = make_driver()
        driver.check()
        assert list(driver.list_volumes()) == [], "the contract needs an empty storage"
        return driver

    @pytest.fixture
    def declared(self, make_driver: MakeDriver) -> Driver:
        """A driver for its declarations alone: tests that they skip do not touch the storage."""
        return make_driver()

    @pytest.fixture(params=list(Provisioning))
    def provisioning(self, request: pytest.FixtureRequest, declared: Driver) -> Provisioning:
        """Each kind of provisioning that the driver declares and the configured pools support."""
        provisioning = Provisioning(request.param)
        test_data.skip_unless_declared(declared, f"supports_{provisioning}")
        if provisioning not in self.made:
            pytest.skip(f"{type(self).__name__} is about pools that make no {provisioning} volumes")
        return provisioning

    @pytest.fixture
    def volume(self, provisioning: Provisioning, driver: Driver) -> Volume:
        """A volume of 1 GiB that does not exist yet."""
        return test_data.new_volume(driver, provisioning)

    @pytest.fixture
    def origin(self, declared: Driver, request: pytest.FixtureRequest) -> Driver:
        """A driver of another backend, the origin of migrations; skips if the tested driver does not support them."""
        test_data.skip_unless_declared(declared, "supports_migrate")
        origin: Driver = request.getfixturevalue("make_origin")()
        origin.check()
        assert origin.backend != declared.backend
        assert list(origin.list_volumes()) == [], "the contract needs an empty storage"
        return origin

    # Operations of the tests

    def _create_at_origin(self, origin: Driver, volume: Volume) -> Volume:
        """Create the volume at the origin of a migration; return the origin's volume."""
        provisioning = Provisioning.THIN if origin.supports_thin else Provisioning.THICK
        there = dataclasses.replace(test_data.new_volume(origin, provisioning), id=volume.id)
        origin.create(there)
        return there

    def _create_unmanaged(self, driver: Driver, volume: Volume) -> str:
        """Create an object to manage; return its reference."""
        driver.create(volume)
        return self.reference_to(observations.listed_volume(driver, volume.id))

    def _write_or_skip(self, driver: Driver, volume: Volume, seed: int) -> None:
        """Write to a volume; skip the test if that is not possible."""
        if not self._write_content(driver, volume, seed):
            pytest.skip("the tests of this driver do not override open_volume, so no content can be compared")

    def _write_content(self, driver: Driver, volume: Volume, seed: int) -> bool:
        """Write chunks to the first GiB of a volume; return whether that is possible."""
        opened = self.open_volume(driver, observations.listed_volume(driver, volume.id))
        if opened is None:
            return False
        with opened as file:
            for offset, data in test_data.content_chunks(seed).items():
                file.seek(offset)
                file.write(data)
        return True

    def _assert_content(self, driver: Driver, volume: Volume, *seeds: int) -> None:
        """Assert that the first GiB of a volume has the content of these seeds, written in this order."""
        expected = {offset: data for seed in seeds for offset, data in test_data.content_chunks(seed).items()}
        opened = self.open_volume(driver, observations.listed_volume(driver, volume.id))
        assert opened is not None
        with opened as file:
            for offset in range(0, GIB, test_data.CHUNK_INTERVAL):
                file.seek(offset)
                expected_chunk = expected.get(offset, bytes(test_data.CHUNK_BYTES))
                # The description of the differences between two chunks would take minutes.
                is_equal = file.read(test_data.CHUNK_BYTES) == expected_chunk
                assert is_equal, f"{volume.id} differs at {offset}"
