# SPDX-License-Identifier: Apache-2.0
"""Suites that cannot run here: named at the end of the run, and failures where ``CI`` is set."""

import os
from typing import NoReturn

import pytest

_MARK = "did not run: "


def cannot_run(suite: str, reason: str) -> NoReturn:
    """Leave the test (or, while it is being collected, the module) out because ``suite`` cannot run here.

    ``reason`` says what is missing and the way out. With ``CI`` in the environment this is a failure.
    """
    if os.environ.get("CI"):
        pytest.fail(f"the {suite} suite did not run: {reason}", pytrace=False)
    pytest.skip(f"{_MARK}{suite}: {reason}", allow_module_level=True)


def not_run(reports: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Describe the suites that were left out, from the reports of what was skipped: a line each."""
    left_out: dict[str, list[str]] = {}
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if _MARK in reason:
            left_out.setdefault(reason.partition(_MARK)[2], []).append(report.nodeid.partition("::")[0])
    return [
        f"{suite} ({len(files)} tests in {', '.join(sorted(set(files)))})" for suite, files in sorted(left_out.items())
    ]
