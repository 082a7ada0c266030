# SPDX-License-Identifier: Apache-2.0
"""Tonnage in the environment of a Cinder with the upper constraints of its release: nothing of Cinder's changes."""

import subprocess

import pytest

from tests.cinder import sites
from tests.servers import cinder
from tests.unit import libraries

pytestmark = pytest.mark.skipif(
    not cinder.RELEASE, reason="the newest Cinder is installed without constraints: CINDER=28"
)


@pytest.fixture(autouse=True)
def _environment() -> None:
    sites.require_cinder()


def _pip(*arguments: str) -> str:
    """Run pip of Cinder's environment and return its output."""
    command = [cinder.HOME / "bin" / "python", "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout


def test_tonnage_adds_three_libraries_and_changes_no_version() -> None:
    before = libraries.versions_of_freeze((cinder.HOME / "before.txt").read_text(encoding="utf-8"))
    after = libraries.versions_of_freeze(_pip("freeze", "--all"))
    assert {name: after.get(name) for name in before} == before
    assert after.keys() - before.keys() <= {*libraries.versions_of_cinder()[1], "tonnage"}
    assert "tonnage" not in before
    assert _pip("check") == "No broken requirements found.\n"


def test_the_table_has_the_versions_of_this_release() -> None:
    shared, added = libraries.versions_of_cinder()
    installed, release = libraries.versions_of_freeze(_pip("freeze", "--all")), int(cinder.RELEASE)
    expected = {
        libraries.normalized(name): cells[release] for name, cells in {**shared, **added}.items() if release in cells
    }
    assert {name: installed[name] for name in expected} == expected


def test_the_classes_of_the_scheduler_import_no_library_of_an_extra() -> None:
    program = """
from tonnage.extensions.cinder import releases
releases.import_program().objects.register_all()
from tonnage.extensions.cinder.scheduler import cinder_driver, cinder_manager
import sys
prefixes = ("falcon", "microversion_parse", "tonnage.agent", "tonnage.api")
print(*(name for name in sys.modules if name.startswith(prefixes)))
"""
    command = [cinder.HOME / "bin" / "python", "-c", program]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout.split() == []
