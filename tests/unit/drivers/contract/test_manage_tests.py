# SPDX-License-Identifier: Apache-2.0
"""Drivers that manage existing objects wrongly do not pass the contract."""

import dataclasses

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity import errors
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract.manage_tests import ManageTests
from tonnage.drivers.memory.driver import MemoryDriver


class Copying(MemoryDriver):
    """Leaves the object under its old name beside the volume."""

    def manage(self, volume: Volume, reference: str) -> float:
        size_gb = super().manage(volume, reference)
        self.create(dataclasses.replace(volume, id=reference, size_gb=int(size_gb)))
        return size_gb


class Once(MemoryDriver):
    """Refuses to manage a volume whose old name is gone."""

    def manage(self, volume: Volume, reference: str) -> float:
        if all(stored.id != reference for stored in self.list_volumes()):
            raise errors.DriverError(f"{reference} does not exist", clean=True)
        return super().manage(volume, reference)


class Credulous(MemoryDriver):
    """Makes a volume where there is nothing to manage."""

    def manage(self, volume: Volume, reference: str) -> float:
        if all(stored.id != reference for stored in self.list_volumes()):
            self.create(volume)
            return volume.size_gb
        return super().manage(volume, reference)


class Replacing(MemoryDriver):
    """Deletes the volume that has the id already."""

    def manage(self, volume: Volume, reference: str) -> float:
        self.delete(volume)
        return super().manage(volume, reference)


class Strict(MemoryDriver):
    """Manages a volume only if there is room for another one of its size."""

    def manage(self, volume: Volume, reference: str) -> float:
        [size_gb] = [stored.size_gb for stored in self.list_volumes() if stored.id == reference]
        self.admit(self.report()[0], volume, size_gb)
        return super().manage(volume, reference)


class Fixed(MemoryDriver):
    """Does not extend what it has not made."""

    def extend(self, volume: Volume, new_size_gb: int) -> None: ...


FAULTS: contract_runs.Faults = {
    Copying: "test_a_managed_volume_is_listed_under_its_new_id",
    Once: "test_managing_again_succeeds_and_changes_nothing",
    Credulous: "test_managing_a_missing_reference_fails",
    Replacing: "test_managing_under_a_taken_id_fails",
    Strict: "test_a_volume_can_be_managed_in_a_full_pool",
    Fixed: "test_a_managed_volume_can_be_extended_and_deleted",
}

caught = contract_runs.caught(ManageTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
