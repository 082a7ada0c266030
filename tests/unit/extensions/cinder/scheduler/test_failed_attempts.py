# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from tonnage.extensions.cinder.scheduler import failed_attempts

TRACEBACK = ["Traceback (most recent call last):\n", "  File ...\n", "ProcessExecutionError: failed\nStderr: ''\n"]


def retry(attempts: int, error: list[str] | None = None) -> dict[str, Any]:
    return {"num_attempts": attempts, "backends": ["h@a#p", "h@b#p"][:attempts], "hosts": [], "exc": error}


@pytest.mark.parametrize(("properties", "most"), [({}, 3), (retry(1), 2), (retry(2), 3), (retry(1), 1), (retry(2), 1)])
def test_another_attempt_is_allowed(properties: dict[str, Any], most: int) -> None:
    assert failed_attempts.exceeded("5 GiB", properties, most) is None


def test_a_refusal_names_the_pools_and_the_last_error() -> None:
    refusal = failed_attempts.exceeded("5 GiB", retry(2, TRACEBACK), 2)
    assert refusal is not None
    assert refusal.message == (
        "No pool for 5 GiB: it has failed in h@a#p, h@b#p, in the last one with ProcessExecutionError: failed "
        "Stderr: ''; no more pools are tried"
    )


def test_an_unknown_error_is_left_out() -> None:
    refusal = failed_attempts.exceeded("5 GiB", retry(2), 2)
    assert refusal is not None
    assert refusal.message == "No pool for 5 GiB: it has failed in h@a#p, h@b#p; no more pools are tried"


def test_an_error_is_short_and_without_passwords() -> None:
    refusal = failed_attempts.exceeded("5 GiB", retry(2, ["Error: password='secret' " + "x" * 10_000]), 2)
    assert refusal is not None
    assert "secret" not in refusal.error
    assert len(refusal.error) == 500
