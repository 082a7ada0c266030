# SPDX-License-Identifier: Apache-2.0
"""A test that fails over text that cannot be encoded is reported, and the tests after it run."""

import os
import pathlib
import subprocess
import sys

from tests import reports

FAILING = r"""
import logging


def test_any_text():
    logging.getLogger().warning("there is %s", "\ud800")
    raise ValueError("\ud800")


def test_after_it():
    pass
"""


def test_all_of_a_report_can_be_encoded() -> None:
    report = {
        "longrepr": [("a\ud800", None, 5)],
        "sections": [["log", "größe \udc80"]],
        "\udcff": 0.5,
        "kept": "\\ud800",
    }
    assert reports.encodable(report) == {
        "longrepr": [("a\\ud800", None, 5)],
        "sections": [["log", "größe \\udc80"]],
        "\\udcff": 0.5,
        "kept": "\\ud800",
    }


def test_processes_that_run_tests_outlive_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    root = pathlib.Path(__file__).parents[2]
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_report_to_serializable\n")
    # Whoever runs this test may do so with -n as well.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "xdist",
            "-n1",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:schemathesis",
            "test_failing.py",
        ],
        cwd=tmp_path,
        env=env | {"PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "there is \\ud800" in ran.stdout
