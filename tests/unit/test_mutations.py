# SPDX-License-Identifier: Apache-2.0
"""The table of the ledger's rules fits the code; a few of them, taken away, make tests fail."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TOOL = [sys.executable, str(ROOT / "tools" / "mutations.py")]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOOL, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_each_rule_is_in_the_code_once_and_its_tests_are_there() -> None:
    checked = run("--check")
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.heavy
def test_a_few_rules_taken_away_are_noticed() -> None:
    tried = run("--quick", "--jobs", "2")
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert tried.stdout.splitlines()[-1] == "4 rules, 0 survived"
