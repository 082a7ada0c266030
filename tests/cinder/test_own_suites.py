# SPDX-License-Identifier: Apache-2.0
"""Cinder's own tests of its scheduler manager, with Tonnage's manager in its place."""

import re
import subprocess

from tests import suites
from tests.cinder import sites
from tests.servers.cinder import HOME

#: A program for Cinder's Python. Cinder's tests have an attribute for the manager's class.
_RUN = """
import os, sys, unittest, warnings
warnings.simplefilter("ignore")
os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"
from cinder.tests.unit.scheduler import test_scheduler
if sys.argv[1] == "tonnage":
    from tonnage.cinder_adapter.scheduler import cinder_manager
    for each in list(vars(test_scheduler).values()):
        if hasattr(each, "manager_cls"):
            each.manager_cls = cinder_manager.LedgerSchedulerManager
suite = unittest.defaultTestLoader.loadTestsFromModule(test_scheduler)
result = unittest.TextTestRunner(stream=open(os.devnull, "w")).run(suite)
print("\\nRAN", result.testsRun, [str(test) for test, _ in result.failures + result.errors])
"""


def run(manager: str) -> tuple[int, str]:
    """Return the number of tests and the names of those that fail."""
    done = subprocess.run(
        [HOME / "bin" / "python", "-W", "ignore", "-c", _RUN, manager], capture_output=True, text=True, check=False
    )
    found = re.search(r"^RAN (\d+) (.*)$", done.stdout, re.MULTILINE)
    if found is None and "No module named" in done.stderr:
        suites.cannot_run("Cinder's own tests", f"libraries are missing: {done.stderr[-300:]}")
    assert found is not None, done.stderr
    return int(found[1]), found[2]


def test_cinders_tests_of_its_manager_fail_as_with_its_own() -> None:
    sites.require_cinder()
    number, failures = run("cinder")
    assert number > 40
    assert run("tonnage") == (number, failures)
