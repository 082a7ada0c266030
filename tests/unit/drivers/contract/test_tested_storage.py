# SPDX-License-Identifier: Apache-2.0
"""What authors of contract tests are told if they leave a fixture out, and which tests are skipped then."""

import pathlib
from typing import Any

import pytest

from tests.unit.drivers.contract import contract_runs
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract import test_data
from tonnage.drivers.contract.clone_tests import CloneTests
from tonnage.drivers.contract.creation_tests import CreationTests
from tonnage.drivers.contract.manage_tests import ManageTests
from tonnage.drivers.contract.mark_tests import MarkTests
from tonnage.drivers.contract.migration_tests import MigrationTests
from tonnage.drivers.contract.tested_storage import MakeDriver, StorageFixtures
from tonnage.drivers.memory.driver import MemoryDriver


class Littered(MemoryDriver):
    """Has a volume that nobody has asked for."""

    def check(self) -> None:
        super().check()
        self.create(Volume(id="litter", pool="pool1", size_gb=1, provisioning=Provisioning.THIN))


class Plain(MemoryDriver):
    """Declares no features, and has no marks."""

    supports_thick = supports_clone = supports_migrate = supports_manage = False

    def ledger_marks(self) -> dict[str, str | None]:
        return {}

    def mark_ledger(self, mark: str) -> None: ...


def without(tests: type[StorageFixtures], name: str) -> type[StorageFixtures]:
    """Return the tests of the driver ``memory`` without an override of its author."""

    class Incomplete(contract_runs.suite(tests, MemoryDriver)):  # type: ignore[misc]
        pass

    setattr(Incomplete, name, getattr(StorageFixtures, name))
    return Incomplete


@pytest.mark.parametrize(
    ("tests", "test", "name", "message"),
    [
        (CreationTests, "test_a_created_volume_is_listed", "make_driver", "overrides the fixture make_driver"),
        (MigrationTests, "test_every_pool_reports_its_location", "make_origin", "overrides the fixture make_origin"),
        (
            MarkTests,
            "test_storage_that_lost_its_mark_is_not_used",
            "take_storage_away",
            "overrides take_storage_away()",
        ),
    ],
)
def test_an_author_is_told_what_to_override(
    tmp_path: pathlib.Path, tests: type[StorageFixtures], test: str, name: str, message: str
) -> None:
    reports = contract_runs.run(tmp_path, {"Incomplete": without(tests, name)}, {"Incomplete": {test}})
    assert reports.outcomes("call", "passed") == set()
    assert any(message in reason for reason in reports.reasons())


def test_the_contract_needs_an_empty_storage(tmp_path: pathlib.Path) -> None:
    suites = {"Littered": contract_runs.suite(CreationTests, Littered)}
    reports = contract_runs.run(tmp_path, suites, {"Littered": {"test_a_created_volume_is_listed"}})
    assert reports.outcomes("setup", "failed") == {("Littered", "test_a_created_volume_is_listed")}
    assert any("the contract needs an empty storage" in reason for reason in reports.reasons())


def test_tests_of_undeclared_features_are_skipped_with_the_reason(tmp_path: pathlib.Path) -> None:
    kinds: dict[str, type[StorageFixtures]] = {
        "supports_clone": CloneTests,
        "supports_migrate": MigrationTests,
        "supports_manage": ManageTests,
    }
    suites = {flag: contract_runs.suite(tests, Plain) for flag, tests in kinds.items()}
    selected = {
        "supports_clone": {"test_a_clone_may_be_larger"},
        "supports_migrate": {"test_every_pool_reports_its_location"},
        "supports_manage": {"test_managing_a_missing_reference_fails"},
    }
    reports = contract_runs.run(tmp_path, suites, selected)
    assert reports.outcomes("call", "passed") == reports.outcomes("call", "failed") == set()
    assert {flag for flag, _ in reports.outcomes("setup", "skipped")} == kinds.keys()
    for flag in kinds:
        assert any(f"Plain does not declare {flag}" in reason for reason in reports.reasons())


def test_a_driver_without_marks_skips_the_tests_of_lost_marks_alone(tmp_path: pathlib.Path) -> None:
    tests = {name for name in vars(MarkTests) if name.startswith("test_")}
    reports = contract_runs.run(tmp_path, {"Plain": contract_runs.suite(MarkTests, Plain)}, {"Plain": tests})
    assert reports.outcomes("call", "failed") == set()
    assert len(reports.outcomes("call", "passed")) == 3
    assert any("the driver cannot mark its storage" in reason for reason in reports.reasons())


def test_content_is_compared_if_volumes_can_be_opened(tmp_path: pathlib.Path) -> None:
    test = "test_a_clone_has_the_content_and_is_independent_of_its_source"
    reports = contract_runs.run(tmp_path, {"Memory": contract_runs.suite(CloneTests, MemoryDriver)}, {"Memory": {test}})
    assert reports.outcomes("call", "skipped") == {("Memory", test)}
    assert any("do not override open_volume" in reason for reason in reports.reasons())


def test_volumes_of_a_kind_that_the_tested_pools_do_not_make_are_left_out(tmp_path: pathlib.Path) -> None:
    class ThickPools(contract_runs.suite(CreationTests, MemoryDriver)):  # type: ignore[misc]
        made = frozenset({Provisioning.THICK})

    reports = contract_runs.run(
        tmp_path, {"ThickPools": ThickPools}, {"ThickPools": {"test_a_created_volume_is_listed"}}
    )
    assert reports.outcomes("call", "passed") == set()
    assert any("ThickPools is about pools that make no thin volumes" in reason for reason in reports.reasons())


def test_content_is_what_was_written_last(tmp_path: pathlib.Path) -> None:
    """The suite compares the chunks of all seeds in the order in which they were written."""
    disk = tmp_path / "disk"
    disk.touch()

    class OnFile(contract_runs.suite(CloneTests, MemoryDriver)):  # type: ignore[misc]
        def open_volume(self, driver: Driver, stored: Any) -> Any:
            return disk.open("r+b")

        def test_content(self, make_driver: MakeDriver) -> None:
            driver = make_driver()
            driver.check()
            volume = test_data.new_volume(driver, Provisioning.THIN)
            driver.create(volume)
            for seed in (0, 1):
                assert self._write_content(driver, volume, seed)
            self._assert_content(driver, volume, 0, 1)
            with pytest.raises(AssertionError):
                self._assert_content(driver, volume, 1, 0)

    reports = contract_runs.run(tmp_path, {"OnFile": OnFile}, {"OnFile": {"test_content"}})
    assert reports.outcomes("call", "passed") == {("OnFile", "test_content")}, reports.reasons()
