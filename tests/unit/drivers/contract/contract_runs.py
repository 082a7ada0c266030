# SPDX-License-Identifier: Apache-2.0
"""Runs of tests of the contract suite on drivers with a fault, within the process of the test."""

import functools
import itertools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.unit.drivers import configured
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.drivers import loader
from tonnage.drivers.base import Driver, Terms
from tonnage.drivers.contract.tested_storage import MakeDriver, StorageFixtures
from tonnage.drivers.memory.driver import MemoryDriver

#: The suites of the current run, by the names of their classes. The file of the run imports them.
current: dict[str, type[StorageFixtures]] = {}

_FILE = "from tests.unit.drivers.contract import contract_runs\n\nglobals().update(contract_runs.current)\n"

_numbers = itertools.count()

_TERMS = Terms(ratio=1.5, calculation=Calculation.CINDER)

#: Each faulty driver with the test that has to fail with it.
Faults = Mapping[type[Driver], str]


def make_memory_driver(
    folder: pathlib.Path, driver_class: type[Driver] = MemoryDriver, name: str = "mem"
) -> MakeDriver:
    """Return a function that makes drivers of a pool of 5 GiB, 1 GiB of which is reserved, in a file of the folder."""
    folder.mkdir(exist_ok=True)
    section = f"[{name}]\nmemory_pool_size_gb = 5\nreserved_percentage = 20\nmemory_state_file = {folder}/state.json\n"
    return functools.partial(loader.build, driver_class, f"host@{name}", name, configured.conf(folder, section))


def suite(tests: type[StorageFixtures], driver_class: type[Driver]) -> type[StorageFixtures]:
    """Return these tests of the contract suite for a driver that is derived from ``memory``."""

    class Suite(tests):  # type: ignore[misc,valid-type]
        @pytest.fixture
        def make_driver(self, tmp_path: pathlib.Path) -> MakeDriver:
            return make_memory_driver(tmp_path, driver_class)

        @pytest.fixture
        def make_origin(self, tmp_path: pathlib.Path) -> MakeDriver:
            return make_memory_driver(tmp_path / "far", name="far")

        def take_storage_away(self, driver: Driver) -> None:
            file = pathlib.Path(driver.conf.memory_state_file)
            file.unlink()
            file.with_name(f"{file.name}.ledger").unlink(missing_ok=True)

    return Suite


class Reports:
    """A plug-in of pytest that runs selected tests of each suite, and keeps their reports."""

    def __init__(self, selected: Mapping[str, set[str]] | None = None) -> None:
        self._selected = selected
        self.reports: list[pytest.TestReport] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Leave out the tests that are not selected."""
        if self._selected is not None:
            items[:] = [item for item in items if self._is_selected(item)]

    def _is_selected(self, item: pytest.Function) -> bool:
        """Return whether a test is selected; of its kinds of volumes and terms some are enough."""
        assert self._selected is not None
        values = item.callspec.params if hasattr(item, "callspec") else {}
        is_usual = values.get("provisioning", Provisioning.THIN) == Provisioning.THIN
        is_usual &= values.get("terms", _TERMS) == _TERMS
        return is_usual and item.originalname in self._selected[_suite_of(item.nodeid)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a report."""
        self.reports.append(report)

    def outcomes(self, when: str, outcome: str) -> set[tuple[str, str]]:
        """Return the suites and tests of which a phase (``setup``, ``call``) had this outcome."""
        return {
            (_suite_of(report.nodeid), report.nodeid.rpartition("::")[2].partition("[")[0])
            for report in self.reports
            if (report.when, report.outcome) == (when, outcome)
        }

    def reasons(self) -> set[str]:
        """Return the texts of skips and errors."""
        return {str(report.longrepr) for report in self.reports if report.outcome != "passed"}


def _suite_of(nodeid: str) -> str:
    return nodeid.split("::")[1]


def run(
    folder: pathlib.Path,
    suites: Mapping[str, type[StorageFixtures]],
    selected: Mapping[str, set[str]] | None = None,
) -> Reports:
    """Run suites by the names of their classes, all tests or for each suite the selected ones."""
    # pytest keeps the modules that it has imported.
    file, settings = folder / f"test_run_{next(_numbers)}.py", folder / "pytest.ini"
    file.write_text(_FILE)
    settings.write_text("[pytest]\npython_classes = *\n")
    reports = Reports(selected)
    current.clear()
    current.update(suites)
    arguments = ["--disable-plugin-autoload", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:terminal"]
    pytest.main([*arguments, "-c", str(settings), f"--basetemp={folder / 'runs'}", str(file)], plugins=[reports])
    return reports


def caught(tests: type[StorageFixtures], faults: Faults) -> Callable[..., Any]:
    """Return a module's fixture: the names of the faulty drivers with which their tests fail.

    The same tests must pass with the driver ``memory`` itself.
    """

    @pytest.fixture(scope="module")
    def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
        selected = {driver.__name__: {test} for driver, test in faults.items()}
        selected[MemoryDriver.__name__] = set(faults.values())
        suites = {driver.__name__: suite(tests, driver) for driver in (*faults, MemoryDriver)}
        reports = run(tmp_path_factory.mktemp("contract"), suites, selected)
        assert reports.outcomes("setup", "failed") == set(), reports.reasons()
        failed = reports.outcomes("call", "failed")
        sound = {(MemoryDriver.__name__, test) for test in faults.values()}
        assert sound & failed == set(), reports.reasons()
        assert sound <= reports.outcomes("call", "passed")
        return {driver for driver, _ in failed}

    return names
