# SPDX-License-Identifier: Apache-2.0
"""Ledgers in memory."""

import pytest

from tests.unit.ledger.records import Records


@pytest.fixture
def records() -> Records:
    """An empty ledger."""
    return Records()
