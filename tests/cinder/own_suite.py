# SPDX-License-Identifier: Apache-2.0
"""Runs one of Cinder's own suites with Cinder's Python, and prints the outcome of each test as JSON.

Usage: ``python own_suite.py SUITE SCHEDULER FOLDER``. SUITE is ``manager``, ``functional``, ``filter_scheduler``,
``host_filters``, ``weighers`` or ``quota``. SCHEDULER is ``cinder`` or ``tonnage``, for ``filter_scheduler`` also
``native``; for ``quota`` it is the quota driver. FOLDER takes ledgers.
"""

import importlib
import json
import os
import pathlib
import shutil
import sys
import time
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

_FUNCTIONAL = (
    "test_default_types",
    "test_extensions",
    "test_group_replication",
    "test_group_snapshots",
    "test_groups",
    "test_login",
    "test_middleware",
    "test_volumes",
)

_QUOTA = (
    "test_quota",
    "test_quota_utils",
    "api.contrib.test_quotas",
    "api.contrib.test_quotas_classes",
    "test_volume_transfer",
)

#: Seconds for which the start of a scheduler waits for the first reports, as by default in Cinder.
_START_SECONDS = 60.0

#: Cinder's files of configuration.
_ETC = pathlib.Path(sys.prefix) / "etc" / "cinder"


def manager(scheduler: str, _folder: pathlib.Path) -> list[Any]:
    """Return the modules with Cinder's unit tests of its manager. They have an attribute for the manager's class."""
    os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"
    module = importlib.import_module("cinder.tests.unit.scheduler.test_scheduler")
    if scheduler == "tonnage":
        ours = importlib.import_module("tonnage.extensions.cinder.scheduler.cinder_manager")
        for each in list(vars(module).values()):
            if hasattr(each, "manager_cls"):
                each.manager_cls = ours.LedgerSchedulerManager
    return [module]


def of_units(suite: str, scheduler: str) -> list[Any]:
    """Return the modules with Cinder's unit tests of filters, weighers or the filter scheduler."""
    os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"
    importlib.import_module("cinder.tests.unit.test")  # it prepares Cinder, so it comes first
    found: list[Any] = importlib.import_module("look_alike_suites").modules(suite, scheduler)
    return found


def quota(driver: str, _folder: pathlib.Path) -> list[Any]:
    """Return the modules with Cinder's unit tests of quotas, and of operations that use the driver on a database."""
    os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"
    importlib.import_module("cinder.tests.unit.test")  # it prepares Cinder, so it comes first
    stock = importlib.import_module("cinder.quota")
    if driver == "tonnage":
        ours = importlib.import_module("tonnage.extensions.cinder.quota.driver")
        stock.CONF.set_default("quota_driver", f"{ours.__name__}.QuotaDriver")
        stock.DbQuotaDriver = ours.QuotaDriver
        # Tests that read Cinder's counters get the use that the driver counts.
        for name in ("cinder.db", "cinder.db.api"):
            importlib.import_module(name).quota_usage_get_all_by_project = _counted
    return [importlib.import_module(f"cinder.tests.unit.{name}") for name in _QUOTA]


def _counted(context: Any, project_id: str) -> dict[str, Any]:
    """Return the use of a project in the form of Cinder's counters."""
    stock = importlib.import_module("cinder.quota")
    found = {"project_id": project_id}
    for engine in (stock.QUOTAS, stock.GROUP_QUOTAS):
        found.update(engine.get_project_quotas(context.elevated(), project_id))
    return found


def functional(scheduler: str, folder: pathlib.Path) -> list[Any]:
    """Return the modules with Cinder's functional tests, which run all of Cinder in one process."""
    helpers = importlib.import_module("cinder.tests.functional.functional_helpers")
    base = helpers._FunctionalTestBase
    # The tests expect Cinder's files of configuration where its sources have them.
    helpers.test.TestCase.RESOURCE_FILTER_PATH = str(_ETC / "resource_filters.json")
    helpers.os = _WithFile(_ETC / "api-paste.ini")
    if scheduler == "tonnage":
        _use_ledgers(base, folder)
    return [importlib.import_module(f"cinder.tests.functional.{name}") for name in _FUNCTIONAL]


class _WithFile:
    """The module ``os`` of the functional tests, which find a file of configuration with it."""

    def __init__(self, file: pathlib.Path) -> None:
        self.path = self
        self._file = file

    def dirname(self, _path: str) -> str:
        return ""

    def join(self, *_names: str) -> str:
        return str(self._file)

    def abspath(self, path: str) -> str:
        return path


def _use_ledgers(base: Any, folder: pathlib.Path) -> None:
    """Let the scheduler of each functional test be Tonnage's, with an empty ledger."""
    from tonnage.extensions.cinder.daemons import cinder_scheduler
    from tonnage.extensions.cinder.extension import EXTENSION
    from tonnage.extensions.cinder.scheduler import cinder_manager
    from tonnage.ledger.db import database, schema

    template = folder / "template.sqlite"
    engine = database.create_engine(f"sqlite:///{template}")
    schema.sync(engine, {"cinder": EXTENSION})
    engine.dispose()
    flags, make_worker = base._get_flags, cinder_manager._worker
    workers: list[Any] = []

    def collected(*args: Any) -> Any:
        workers.append(make_worker(*args))
        return workers[-1]

    def end_workers() -> None:
        while workers:
            workers.pop().stop()

    cinder_manager._worker = collected

    def flags_with_ledger(test: Any) -> dict[str, dict[str, str]]:
        ledger = folder / f"{test.id()}.sqlite"
        shutil.copyfile(template, ledger)
        # The threads of a scheduler end with its process, which is that of the next test too.
        test.addCleanup(end_workers)
        return {
            **flags(test),
            **{name: {"v": value} for name, value in cinder_scheduler.OPTIONS.items()},
            "connection": {"v": f"sqlite:///{ledger}", "g": "tonnage"},
        }

    base._get_flags = flags_with_ledger
    start = base.start_service

    def start_service(test: Any, name: str, *args: Any, **values: Any) -> Any:
        service = start(test, name, *args, **values)
        if name == "scheduler":
            _wait_for_figures(service.manager.driver)
        return service

    base.start_service = start_service


def _wait_for_figures(driver: Any) -> None:
    """Wait until a scheduler decides, as its start does in a cloud: up to Cinder 28 the tests leave this wait out."""
    deadline = time.monotonic() + _START_SECONDS
    while not driver.is_first_receive():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_START_SECONDS:g} s: the scheduler has figures of all pools")
        time.sleep(0.1)


def outcomes(suite: unittest.TestSuite) -> dict[str, str]:
    """Run tests and return the outcome of each by its name; print the texts of those that do not succeed."""
    found = {test.id(): "success" for test in _tests(suite)}
    result = unittest.TestResult()
    suite.run(result)
    found.update((test.id(), "skip") for test, _ in result.skipped)
    for test, text in result.errors + result.failures:
        found[test.id()] = "failure"
        print(text, file=sys.stderr)
    return found


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each


def main(suite: str, scheduler: str, folder: str) -> None:
    """Run a suite."""
    warnings.simplefilter("ignore")
    known = {"manager": manager, "functional": functional, "quota": quota}
    modules = known[suite](scheduler, pathlib.Path(folder)) if suite in known else of_units(suite, scheduler)
    found = outcomes(unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromModule, modules)))
    print("OUTCOMES", json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
