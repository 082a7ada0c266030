# SPDX-License-Identifier: Apache-2.0
"""Settings, fixtures and reports of all tests."""

import gc
import logging
import pathlib
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests import reports, sqlite_files, statement_cache, suites

pytest_plugins = ["tests.servers.fixtures"]

#: Test machines are busy, so hypothesis has no time limit for an example.
settings.register_profile("tonnage", deadline=None, max_examples=50)
#: ``make test-heavy`` tries more.
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("tonnage")

statement_cache.share_between_engines()
sqlite_files.leave_to_the_kernel()

_TESTS = pathlib.Path(__file__).parent

#: For each folder or file the database on which only ``make test-heavy`` runs its tests. Tests of its statements, and
#: those that name their databases themselves, run on all.
_HEAVY_DATABASES = {
    "functional/test_announcements.py": "mariadb",
    "functional/test_docs.py": "mariadb",
    "unit/extensions/cinder/quota": "postgresql",
    "unit/extensions/history": "mariadb",
}

_ROOMS = {link.name for link in (_TESTS.parent / "tonnage").iterdir() if link.is_symlink()}


@pytest.fixture(scope="session", autouse=True)
def _one_copy_of_each_class() -> Iterator[None]:
    """Assert that no test imports a room by its bare name, which would load a second copy of each class."""
    yield
    imported = sorted(_ROOMS & sys.modules.keys())
    assert not imported, f"imported without 'tonnage.': {', '.join(imported)}"


def pytest_configure() -> None:
    """Leave the collection of garbage off while tests are imported: it would search a growing heap in vain."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Turn the collection of garbage on for all that the tests make. What was imported stays."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that run on a heavy database."""
    file = item.path.relative_to(_TESTS)
    databases = {_HEAVY_DATABASES.get(str(path)) for path in (file, *file.parents)} - {None}
    arguments = {mark.args[0] for mark in item.iter_markers("parametrize")}
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    for fixture in {"database_url", "ledger_url"} - arguments:
        if parameters.get(fixture) in databases:
            item.add_marker(pytest.mark.heavy)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files of functional tests, which wait half of their time, over the first files of other tests.

    Workers take the files in this order. The tests of a file stay together and in their order.
    """
    places: dict[pathlib.Path, float] = {}
    for functional, last in ((True, 0.7), (False, 1.0)):
        files = dict.fromkeys(item.path for item in items if ("functional" in item.path.parts) is functional)
        places |= {file: last * number / len(files) for number, file in enumerate(files)}
    items.sort(key=lambda item: places[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Remove the log handlers that write to the captured streams of earlier tests, which are closed.

    A program that a test runs in its process adds one. Each later message would print an error between other output.
    """
    for handler in list(logging.root.handlers):
        if isinstance(handler, logging.StreamHandler) and getattr(handler.stream, "closed", False):
            logging.root.removeHandler(handler)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Make reports encodable, so that workers can send them."""
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
