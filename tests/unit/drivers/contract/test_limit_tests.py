# SPDX-License-Identifier: Apache-2.0
"""Drivers that take too much or too little do not pass the contract."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity import errors
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract.limit_tests import LimitTests
from tonnage.drivers.memory.driver import MemoryDriver


class Unlimited(MemoryDriver):
    """Takes each volume."""

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None: ...


class Stingy(MemoryDriver):
    """Keeps 1 GiB more than the report tells."""

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None:
        super().admit(figures, volume, size_gb + 1)


class Untidy(MemoryDriver):
    """Refuses a volume, and lists it all the same."""

    def __init__(self, backend: str, conf: Any) -> None:
        super().__init__(backend, conf)
        self._is_refusing = False

    def create(self, volume: Volume) -> None:
        try:
            super().create(volume)
        except errors.CapacityExceeded:
            self._is_refusing = False
            self._is_refusing = True
            super().create(volume)
            raise

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None:
        if not self._is_refusing:
            super().admit(figures, volume, size_gb)


class Hasty(MemoryDriver):
    """Compares a volume with the room that there was before other threads took theirs."""

    def __init__(self, backend: str, conf: Any) -> None:
        super().__init__(backend, conf)
        self._together = threading.Barrier(2)

    def create(self, volume: Volume) -> None:
        [figures] = self.report()
        super().admit(figures, volume, volume.size_gb)
        try:
            self._together.wait(0.2)
        except threading.BrokenBarrierError:
            self._together.reset()
        super().create(volume)

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None: ...


FAULTS: contract_runs.Faults = {
    Unlimited: "test_the_limit_holds_without_a_scheduler",
    Stingy: "test_the_headroom_is_admitted_and_one_gib_more_is_not",
    Untidy: "test_the_headroom_is_admitted_and_one_gib_more_is_not",
    Hasty: "test_threads_fill_a_pool_exactly",
}

caught = contract_runs.caught(LimitTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
