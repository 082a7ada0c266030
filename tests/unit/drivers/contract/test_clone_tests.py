# SPDX-License-Identifier: Apache-2.0
"""Drivers that clone wrongly do not pass the contract."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity import errors
from tonnage.drivers.base import Driver, Source, Volume
from tonnage.drivers.contract.clone_tests import CloneTests
from tonnage.drivers.memory.driver import MemoryDriver


class Moving(MemoryDriver):
    """Turns the source into the clone."""

    def clone(self, volume: Volume, source: Source) -> None:
        super().clone(volume, source)
        self.delete(dataclasses.replace(volume, id=source.id))


class SameSize(MemoryDriver):
    """Gives each clone the size of its source."""

    def clone(self, volume: Volume, source: Source) -> None:
        super().clone(dataclasses.replace(volume, size_gb=source.size_gb), source)


class Truncating(MemoryDriver):
    """Copies the first part of a source that is too large."""

    def clone(self, volume: Volume, source: Source) -> None:
        self.create(volume)


class Once(MemoryDriver):
    """Refuses a clone that was delivered twice."""

    def clone(self, volume: Volume, source: Source) -> None:
        if any(stored.id == volume.id for stored in self.list_volumes()):
            raise errors.DriverError(f"{volume.id} exists")
        super().clone(volume, source)


class InDoubt(MemoryDriver):
    """Does not tell that a failed clone has left nothing behind."""

    def clone(self, volume: Volume, source: Source) -> None:
        try:
            super().clone(volume, source)
        except errors.DriverError as error:
            raise errors.DriverError(error.message) from None


class Unlimited(MemoryDriver):
    """Takes each clone."""

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None: ...


FAULTS: contract_runs.Faults = {
    Moving: "test_a_clone_is_listed_and_in_the_next_report",
    SameSize: "test_a_clone_may_be_larger",
    Truncating: "test_a_clone_smaller_than_its_source_is_refused",
    Once: "test_cloning_again_succeeds_and_changes_nothing",
    InDoubt: "test_cloning_a_missing_source_fails",
    Unlimited: "test_a_clone_is_admitted_like_a_new_volume",
}

caught = contract_runs.caught(CloneTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
