# SPDX-License-Identifier: Apache-2.0
"""What cannot run is named at the end of the run, and is a failure where CI is set."""

import pathlib

import pytest

pytest_plugins = ["pytester"]

ROOT = pathlib.Path(__file__).parents[2]

#: A plugin that takes seconds to load.
FAST = ("-p", "no:schemathesis")

CONFTEST = "from tests.conftest import pytest_terminal_summary"
TESTS = """
    import pytest
    from tests import suites

    @pytest.fixture(scope="session")
    def server():
        suites.cannot_run("Oracle", "no Oracle on this machine")

    def test_first(server): pass
    def test_second(server): pass
    def test_that_does_not_apply(): pytest.skip("made for another day")
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_oracle=TESTS)
    return pytester


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n1",), marks=pytest.mark.heavy)], ids=["in one process", "in a worker"]
)
def test_suites_that_did_not_run_are_named(run: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = run.runpytest_subprocess(*FAST, *workers)
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(
        [
            "*suites that did not run*",
            "Oracle: no Oracle on this machine (2 tests in test_oracle.py)",
            "*3 skipped in *",
        ]
    )


def test_with_ci_they_are_failures(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = run.runpytest_subprocess(*FAST)
    result.assert_outcomes(errors=2, skipped=1)
    result.stdout.fnmatch_lines(["*the Oracle suite did not run: no Oracle on this machine*"])


def test_nothing_is_said_when_everything_ran(run: pytest.Pytester) -> None:
    run.makepyfile(test_oracle="def test_it(): pass")
    result = run.runpytest_subprocess(*FAST)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*did not run*")
