# SPDX-License-Identifier: Apache-2.0
"""Drivers that migrate wrongly do not pass the contract."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity import errors
from tonnage.drivers.base import Driver, Source, Volume
from tonnage.drivers.contract.migration_tests import MigrationTests
from tonnage.drivers.memory.driver import MemoryDriver


class Nowhere(MemoryDriver):
    """Does not tell where its pools are."""

    def report(self) -> list[dict[str, Any]]:
        return [{key: value for key, value in pool.items() if key != "location_info"} for pool in super().report()]


class Inert(MemoryDriver):
    """Migrates nothing."""

    def migrate(self, volume: Volume, source: Source) -> None: ...


class Once(MemoryDriver):
    """Refuses a migration that was delivered twice."""

    def migrate(self, volume: Volume, source: Source) -> None:
        if any(stored.id == volume.id for stored in self.list_volumes()):
            raise errors.DriverError(f"{volume.id} exists")
        super().migrate(volume, source)


class Hoarder(MemoryDriver):
    """Deletes nothing."""

    def delete(self, volume: Volume) -> None: ...


class Credulous(MemoryDriver):
    """Makes an empty volume from a source that it cannot reach."""

    def migrate(self, volume: Volume, source: Source) -> None:
        self.create(volume)


class Unlimited(MemoryDriver):
    """Takes each volume."""

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None: ...


FAULTS: contract_runs.Faults = {
    Nowhere: "test_every_pool_reports_its_location",
    Inert: "test_a_migration_creates_the_volume_and_keeps_its_source",
    Once: "test_migrating_again_succeeds_and_changes_nothing",
    Hoarder: "test_a_migrated_volume_can_be_extended_and_deleted",
    Credulous: "test_migrating_an_unreachable_source_fails",
    Unlimited: "test_a_migrated_volume_is_admitted_like_a_new_volume",
}

caught = contract_runs.caught(MigrationTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
