# SPDX-License-Identifier: Apache-2.0
"""What is waited for on a bus within a process, which may stand still."""

import dataclasses

import pytest

from tonnage.rpc import contract


def with_schedulers(patched: pytest.MonkeyPatch) -> None:
    """Wait a minute for answers of schedulers, also for those that nobody waits for as long as for others."""
    for name in ("HELLO", "STAMPS", "OUTCOMES"):
        patched.setattr(contract, name, dataclasses.replace(getattr(contract, name), timeout=60.0))
