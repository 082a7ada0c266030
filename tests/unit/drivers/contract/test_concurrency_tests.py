# SPDX-License-Identifier: Apache-2.0
"""Drivers that fail if two threads use them do not pass the contract."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity import errors
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract.concurrency_tests import ConcurrencyTests
from tonnage.drivers.memory.driver import MemoryDriver


class Exclusive(MemoryDriver):
    """Fails while another thread creates a volume, which takes some milliseconds."""

    def __init__(self, backend: str, conf: Any) -> None:
        super().__init__(backend, conf)
        self._busy = threading.Lock()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise errors.DriverError("the storage is busy")
        try:
            yield
        finally:
            self._busy.release()

    def create(self, volume: Volume) -> None:
        with self.alone():
            time.sleep(0.005)
            super().create(volume)


class ExclusiveReport(Exclusive):
    """Makes no reports meanwhile."""

    def report(self) -> list[dict[str, Any]]:
        with self.alone():
            return [dict(pool) for pool in super().report()]


FAULTS: contract_runs.Faults = {
    Exclusive: "test_threads_can_work_on_different_volumes",
    ExclusiveReport: "test_reports_are_valid_while_volumes_are_created_and_deleted",
}

caught = contract_runs.caught(ConcurrencyTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
