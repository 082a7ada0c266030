# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

from collections.abc import Iterator

import pytest

from tests.unit.rpc import bus as memory_bus
from tonnage.rpc import transport


@pytest.fixture(scope="module")
def bus() -> Iterator[transport.Transport]:
    """A message bus within this process. One for a module: to end a server takes oslo.messaging a second."""
    with memory_bus.memory_transport(response_timeout=60) as made:
        yield made
