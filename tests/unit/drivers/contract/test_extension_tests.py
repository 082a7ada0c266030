# SPDX-License-Identifier: Apache-2.0
"""Drivers that extend volumes wrongly do not pass the contract."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract.extension_tests import ExtensionTests
from tonnage.drivers.memory.driver import MemoryDriver


class Inert(MemoryDriver):
    """Extends nothing."""

    def extend(self, volume: Volume, new_size_gb: int) -> None: ...


class Adding(MemoryDriver):
    """Takes the new size for the growth."""

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        [size_gb] = [stored.size_gb for stored in self.list_volumes() if stored.id == volume.id]
        super().extend(volume, int(size_gb) + new_size_gb - 1)


class Shrinking(MemoryDriver):
    """Makes a volume smaller if it is told to."""

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        self.delete(volume)
        self.create(dataclasses.replace(volume, size_gb=new_size_gb))


class Generous(MemoryDriver):
    """Creates the volume that it shall extend."""

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        self.create(volume)
        super().extend(volume, new_size_gb)


class Unlimited(MemoryDriver):
    """Lets volumes grow beyond the pool."""

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None: ...


FAULTS: contract_runs.Faults = {
    Inert: "test_an_extended_volume_is_in_the_next_report",
    Adding: "test_extending_again_succeeds_and_changes_nothing",
    Shrinking: "test_extending_never_shrinks",
    Generous: "test_extending_a_missing_volume_raises_not_found",
    Unlimited: "test_growth_is_admitted_up_to_the_headroom",
}

caught = contract_runs.caught(ExtensionTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
