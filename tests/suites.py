# SPDX-License-Identifier: Apache-2.0
"""Suites that cannot run on this machine: the end of the run names them, and with ``CI`` set they fail."""

import os
import shutil
from typing import NoReturn

import pytest

_MARK = "did not run: "


def cannot_run(suite: str, reason: str) -> NoReturn:
    """Skip the test, or the module during collection, because ``suite`` cannot run here.

    ``reason`` names the missing requirement and the way out. With ``CI`` in the environment the test fails instead.
    """
    if os.environ.get("CI"):
        pytest.fail(f"the {suite} suite did not run: {reason}", pytrace=False)
    pytest.skip(f"{_MARK}{suite}: {reason}", allow_module_level=True)


def require_programs(suite: str, *programs: str) -> None:
    """Skip the test, or fail it, as :func:`cannot_run`, unless these programs are on this machine."""
    for program in programs:
        if shutil.which(program) is None:
            cannot_run(suite, f"no {program} on this machine; install the package {program}")


def not_run(reports: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return a line for each suite that did not run, from the reports of skipped tests."""
    left_out: dict[str, list[str]] = {}
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if _MARK in reason:
            left_out.setdefault(reason.partition(_MARK)[2], []).append(report.nodeid.partition("::")[0])
    return [
        f"{suite} ({len(files)} tests in {', '.join(sorted(set(files)))})" for suite, files in sorted(left_out.items())
    ]
