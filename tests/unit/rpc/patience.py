# SPDX-License-Identifier: Apache-2.0
"""What is waited for on a bus within a process, which may stand still."""

import pytest

from tonnage.rpc.clients import scheduler_client


def with_schedulers(patched: pytest.MonkeyPatch) -> None:
    """Wait a minute for answers of schedulers, also for those that nobody waits for as long as for others."""
    for name in ("_HELLO_SECONDS", "_STAMP_SECONDS", "_OUTCOME_SECONDS"):
        patched.setattr(scheduler_client, name, 60.0)
