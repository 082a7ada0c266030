# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of the mark that names the ledger with the volumes, and of storage that has lost it."""

import dataclasses
import uuid
from collections.abc import Callable

import pytest

from tonnage.capacity import errors
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract import observations
from tonnage.drivers.contract.test_data import LEDGER_MARK
from tonnage.drivers.contract.tested_storage import MakeDriver, StorageFixtures


class MarkTests(StorageFixtures):
    """Tests of ledger marks. A driver without marks passes the tests of marked storage, and skips those of lost one."""

    @pytest.fixture
    def marked(self, driver: Driver, volume: Volume) -> Driver:
        """A driver whose storage is marked and has the volume; skips if the driver cannot mark its storage."""
        if not driver.ledger_marks():
            pytest.skip("the driver cannot mark its storage, so a scheduler compares the first listing with the ledger")
        driver.mark_ledger(LEDGER_MARK)
        driver.create(volume)
        return driver

    def test_the_first_mark_of_a_ledger_stays(self, driver: Driver) -> None:
        pools = list(driver.ledger_marks())
        listed = driver.list_volumes()
        for mark in (LEDGER_MARK, "another-mark"):
            driver.mark_ledger(mark)
            assert driver.ledger_marks() == dict.fromkeys(pools, LEDGER_MARK)
        assert driver.list_volumes() == listed

    def test_all_pools_have_marks_or_none_has(self, driver: Driver) -> None:
        marks = driver.ledger_marks()
        assert not marks or {stats.name for stats in observations.all_stats(driver)} <= marks.keys()

    def test_no_other_method_marks_the_storage(self, volume: Volume, driver: Driver, make_driver: MakeDriver) -> None:
        """Only a scheduler knows whether storage without a mark is new."""
        driver.create(volume)
        driver.report()
        driver.list_volumes()
        driver.delete(volume)
        driver.check()
        restarted = make_driver()
        restarted.check()
        assert not any(restarted.ledger_marks().values())

    def test_a_mark_survives_a_restart(self, marked: Driver, make_driver: MakeDriver, volume: Volume) -> None:
        restarted = make_driver()
        restarted.check()
        assert restarted.ledger_marks() == dict.fromkeys(marked.ledger_marks(), LEDGER_MARK)
        assert observations.sizes(restarted) == {volume.id: 1}

    def test_storage_that_lost_its_mark_is_not_used(self, marked: Driver, volume: Volume) -> None:
        """Nothing is created there, and a volume that is missing there is not deleted."""
        self.take_storage_away(marked)
        operations: list[Callable[[], object]] = [
            lambda: marked.create(dataclasses.replace(volume, id=str(uuid.uuid4()))),
            lambda: marked.delete(volume),
            marked.list_volumes,
        ]
        for operation in operations:
            with pytest.raises(errors.DriverError):
                operation()
        try:
            pools = [pool["pool_name"] for pool in marked.report()]
        except errors.DriverError:
            pools = []
        assert volume.pool not in pools, "a pool whose storage is elsewhere is not reported"

    def test_a_restart_does_not_mark_other_storage(
        self, marked: Driver, make_driver: MakeDriver, volume: Volume
    ) -> None:
        """A restarted driver finds no mark, or refuses to start."""
        self.take_storage_away(marked)
        restarted = make_driver()
        try:
            restarted.check()
        except errors.ConfigurationError:
            return
        assert restarted.ledger_marks()[volume.pool] is None
