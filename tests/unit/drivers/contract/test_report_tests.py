# SPDX-License-Identifier: Apache-2.0
"""Drivers that report wrongly do not pass the contract."""

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Source, Volume
from tonnage.drivers.contract.report_tests import ReportTests
from tonnage.drivers.memory.driver import MemoryDriver


class Changed(MemoryDriver):
    """Changes fields of each pool in its reports."""

    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {}

    def report(self) -> list[dict[str, Any]]:
        return [{**pool, **self.change(dict(pool))} for pool in super().report()]


class Negative(Changed):
    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {"total_capacity_gb": -1}


class Rich(Changed):
    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {"serial_number": Decimal(1)}


class Exact(Changed):
    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {"free_capacity_gb": 3.14159}


class Stale(Changed):
    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {"provisioned_capacity_gb": 0}


class Counting(Changed):
    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {"allocated_capacity_gb": 0}


class Undecided(Changed):
    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {"thin_provisioning_support": False, "thick_provisioning_support": False}


class Automatic(Changed):
    def change(self, pool: dict[str, Any]) -> dict[str, Any]:
        return {"max_over_subscription_ratio": "auto"}


class Torn(MemoryDriver):
    """Promises one look, and looks twice."""

    @contextlib.contextmanager
    def one_look(self) -> Iterator[bool]:
        yield True


class Cleaning(MemoryDriver):
    """Deletes what it finds when it is checked."""

    def check(self) -> None:
        super().check()
        for stored in self.list_volumes():
            self.delete(Volume(id=stored.id, pool=stored.pool, size_gb=1, provisioning=Provisioning.THIN))


class Daring(MemoryDriver):
    """Does what it does not declare."""

    supports_clone = False

    def clone(self, volume: Volume, source: Source) -> None: ...


FAULTS: contract_runs.Faults = {
    Negative: "test_a_report_is_valid",
    Rich: "test_a_report_is_made_of_plain_values",
    Exact: "test_capacities_have_two_decimals",
    Stale: "test_reports_follow_the_definitions",
    Torn: "test_report_and_list_of_one_look_agree",
    Counting: "test_no_driver_reports_allocated_capacity",
    Undecided: "test_every_pool_reports_its_provisioning",
    Automatic: "test_the_ratio_auto_is_reported_only_if_declared",
    Cleaning: "test_checking_again_changes_nothing",
    Daring: "test_an_undeclared_operation_is_refused_cleanly",
}

caught = contract_runs.caught(ReportTests, FAULTS)


@pytest.mark.parametrize("driver", FAULTS)
def test_a_faulty_driver_does_not_pass(caught: set[str], driver: type[Driver]) -> None:
    assert driver.__name__ in caught
