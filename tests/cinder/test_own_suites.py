# SPDX-License-Identifier: Apache-2.0
"""Cinder's own tests of its scheduler and of all its services, with those of Tonnage in place."""

import json
import pathlib
import re
import subprocess

import pytest

from tests import suites
from tests.cinder import sites
from tests.servers.cinder import HOME

#: Cinder's tests that replace the functions of its database for counters and expect their calls, and one that commits a
#: reservation without a row and expects that it counts.
_OF_COUNTERS = {
    *(
        f"cinder.tests.unit.test_quota.DbQuotaDriverTestCase.{name}"
        for name in (
            "test_get_project_quotas",
            "test_get_project_quotas_alt_context_no_class",
            "test_get_project_quotas_alt_context_with_class",
            "test_get_project_quotas_no_defaults",
            "test_reserve_datetime_expire",
            "test_reserve_default_expire",
            "test_reserve_int_expire",
            "test_reserve_max_age",
            "test_reserve_timedelta_expire",
            "test_reserve_until_refresh",
        )
    ),
    "cinder.tests.unit.api.contrib.test_quotas.QuotaSetsControllerTest.test_update_lower_than_existing_resources",
}

_PROGRAM = pathlib.Path(__file__).with_name("own_suite.py")


def run(suite: str, scheduler: str, folder: pathlib.Path) -> tuple[dict[str, str], str]:
    """Return the outcome of each test by its name, and the texts of those that fail."""
    command = [HOME / "bin" / "python", "-W", "ignore", _PROGRAM, suite, scheduler, folder]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"^OUTCOMES (.*)$", done.stdout, re.MULTILINE)
    if found is None and "No module named" in done.stderr:
        suites.cannot_run("Cinder's own tests", f"libraries are missing: {done.stderr[-300:]}")
    assert found is not None, done.stderr
    return json.loads(found[1]), done.stderr[-5000:]


@pytest.mark.parametrize(("suite", "least"), [("manager", 40), ("functional", 39)])
def test_cinders_own_tests_end_as_with_its_own_scheduler(suite: str, least: int, tmp_path: pathlib.Path) -> None:
    sites.require_cinder()
    stock, _ = run(suite, "cinder", tmp_path)
    assert len(stock) >= least
    assert suite == "manager" or set(stock.values()) == {"success"}
    outcomes, texts = run(suite, "tonnage", tmp_path)
    assert outcomes == stock, texts


@pytest.mark.parametrize(
    ("suite", "least", "schedulers"),
    [
        ("filter_scheduler", 29, ["tonnage", "native"]),
        ("host_filters", 116, ["tonnage"]),
        ("weighers", 31, ["tonnage"]),
    ],
)
def test_cinders_tests_of_filters_and_weighers_end_as_with_its_classes(
    suite: str, least: int, schedulers: list[str], tmp_path: pathlib.Path
) -> None:
    sites.require_cinder()
    stock, _ = run(suite, "cinder", tmp_path)
    assert len(stock) >= least
    for scheduler in schedulers:
        outcomes, texts = run(suite, scheduler, tmp_path)
        assert outcomes == stock, texts


def test_cinders_tests_of_quotas_end_as_with_its_own_driver(tmp_path: pathlib.Path) -> None:
    sites.require_cinder()
    stock, _ = run("quota", "cinder", tmp_path)
    assert len(stock) >= 140
    assert stock.keys() >= _OF_COUNTERS
    outcomes, texts = run("quota", "tonnage", tmp_path)
    assert {name: outcomes[name] for name in stock if name not in _OF_COUNTERS} == {
        name: outcome for name, outcome in stock.items() if name not in _OF_COUNTERS
    }, texts
