# SPDX-License-Identifier: Apache-2.0
"""What every test gets."""

import pathlib
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests import reports, suites

pytest_plugins = ["tests.servers.fixtures"]

#: Machines that run tests are busy: no example fails for the time that it takes.
settings.register_profile("tonnage", deadline=None)
settings.load_profile("tonnage")

_ROOMS = {link.name for link in (pathlib.Path(__file__).parents[1] / "tonnage").iterdir() if link.is_symlink()}


@pytest.fixture(scope="session", autouse=True)
def _one_copy_of_each_class() -> Iterator[None]:
    """Nothing imports a room by its bare name, which would make a second copy of each class in it."""
    yield
    imported = sorted(_ROOMS & sys.modules.keys())
    assert not imported, f"imported without 'tonnage.': {', '.join(imported)}"


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Send a report that quotes what cannot be encoded."""
    return reports.encodable((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Name the suites that did not run, just before the closing line."""
    yield
    lines = suites.not_run(terminalreporter.stats.get("skipped", []))
    if lines:
        terminalreporter.section("suites that did not run", yellow=True)
        for line in lines:
            terminalreporter.line(line)
