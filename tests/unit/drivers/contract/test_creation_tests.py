# SPDX-License-Identifier: Apache-2.0
"""Drivers that create and delete wrongly do not pass the contract."""

import dataclasses
import pathlib
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity import errors
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract.creation_tests import CreationTests
from tonnage.drivers.memory.driver import MemoryDriver


class Forgetful(MemoryDriver):
    """Creates nothing."""

    def create(self, volume: Volume) -> None: ...


class Once(MemoryDriver):
    """Refuses a create that was delivered twice."""

    def create(self, volume: Volume) -> None:
        if any(stored.id == volume.id for stored in self.list_volumes()):
            raise errors.DriverError(f"{volume.id} exists")
        super().create(volume)


class Careless(MemoryDriver):
    """Takes a volume of another size for the right one."""

    def create(self, volume: Volume) -> None:
        if all(stored.id != volume.id for stored in self.list_volumes()):
            super().create(volume)


class Anywhere(MemoryDriver):
    """Takes an unknown pool for its first one."""

    def create(self, volume: Volume) -> None:
        super().create(dataclasses.replace(volume, pool=self.report()[0]["pool_name"]))


class Hoarder(MemoryDriver):
    """Deletes nothing."""

    def delete(self, volume: Volume) -> None: ...


class Strict(MemoryDriver):
    """Refuses to delete a volume that is gone."""

    def delete(self, volume: Volume) -> None:
        if all(stored.id != volume.id for stored in self.list_volumes()):
            raise errors.NotFound(f"{volume.id} does not exist")
        super().delete(volume)


class Amnesiac(MemoryDriver):
    """Begins with an empty storage after each restart."""

    def __init__(self, backend: str, conf: Any) -> None:
        pathlib.Path(conf.memory_state_file).unlink(missing_ok=True)
        super().__init__(backend, conf)


class Rounding(MemoryDriver):
    """Reports less provisioned capacity than there is."""

    def report(self) -> list[dict[str, Any]]:
        return [{**pool, "provisioned_capacity_gb": pool["provisioned_capacity_gb"] // 2} for pool in super().report()]


FAULTS: contract_runs.Faults = {
    Forgetful: "test_a_created_volume_is_listed",
    Rounding: "test_a_created_volume_is_in_the_next_report",
    Once: "test_creating_again_succeeds_and_changes_nothing",
    Careless: "test_creating_in_another_size_fails_and_changes_nothing",
    Anywhere: "test_an_unknown_pool_is_an_error",
    Hoarder: "test_deleting_restores_the_figures",
    Strict: "test_deleting_a_missing_volume_succeeds",
    Amnesiac: "test_a_restart_changes_neither_volumes_nor_figures",
}

caught = contract_runs.caught(CreationTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
