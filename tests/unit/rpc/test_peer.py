# SPDX-License-Identifier: Apache-2.0
"""What a client says when nobody answers."""

import pytest

from tests.unit.rpc import bus as memory_bus
from tonnage.capacity import errors
from tonnage.rpc import messages
from tonnage.rpc.scheduler_client import SchedulerClient


def test_silence_names_what_was_asked_and_how_long() -> None:
    hello = messages.Hello(backend="h@b", nonce="n", availability_zone="nova", driver="memory")
    with memory_bus.memory_transport(response_timeout=1) as bus, pytest.raises(errors.Unavailable) as caught:
        SchedulerClient(bus).hello(hello)
    assert str(caught.value) == "no scheduler answered hello within rpc_response_timeout = 1 s"
