# SPDX-License-Identifier: Apache-2.0
"""Drivers that lose sight of their ledger do not pass the contract."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.drivers.base import Driver, StoredVolume, Volume
from tonnage.drivers.contract.mark_tests import MarkTests
from tonnage.drivers.memory.driver import MemoryDriver


class Fickle(MemoryDriver):
    """Has the mark of whoever came last, and forgets it with the process."""

    def __init__(self, backend: str, conf: Any) -> None:
        super().__init__(backend, conf)
        self._mark: str | None = None

    def ledger_marks(self) -> Mapping[str, str | None]:
        return dict.fromkeys(super().ledger_marks(), self._mark)

    def mark_ledger(self, mark: str) -> None:
        self._mark = mark


class Forgetful(Fickle):
    """Forgets its mark with the process."""


class Partial(MemoryDriver):
    """Has marks, but not for its pools."""

    def ledger_marks(self) -> Mapping[str, str | None]:
        return {"elsewhere": None}


class Rash(MemoryDriver):
    """Marks its storage without a scheduler."""

    def create(self, volume: Volume) -> None:
        super().create(volume)
        self.mark_ledger("a mark of its own")


class Blind(MemoryDriver):
    """Lists nothing where the storage is gone."""

    def list_volumes(self) -> list[StoredVolume]:
        try:
            return list(super().list_volumes())
        except Exception:
            return []


class Stubborn(MemoryDriver):
    """Marks whatever storage it finds at its start."""

    def check(self) -> None:
        super().check()
        marks = set(self.ledger_marks().values())
        if marks == {None} and self.conf.memory_seed is None:
            self.mark_ledger("a mark of its own")


FAULTS: contract_runs.Faults = {
    Fickle: "test_the_first_mark_of_a_ledger_stays",
    Partial: "test_all_pools_have_marks_or_none_has",
    Rash: "test_no_other_method_marks_the_storage",
    Forgetful: "test_a_mark_survives_a_restart",
    Blind: "test_storage_that_lost_its_mark_is_not_used",
    Stubborn: "test_no_other_method_marks_the_storage",
}

caught = contract_runs.caught(MarkTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
