# SPDX-License-Identifier: Apache-2.0
"""The agent client against real servers on the bus."""

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.rpc import contract, messages, serialization, transport
from tonnage.rpc.clients.command_sender import AgentClient

TIMEOUT = 30


class Agent:
    """Notes what arrives."""

    def __init__(self) -> None:
        self.seen: queue.Queue[tuple[str, Any]] = queue.Queue()

    def run(self, context: Any, message: Any) -> None:
        self.seen.put(("run", message))

    def list_now(self, context: Any) -> None:
        self.seen.put(("list_now", None))

    def report_now(self, context: Any) -> None:
        self.seen.put(("report_now", None))

    def rejoin(self, context: Any) -> None:
        self.seen.put(("rejoin", None))


@pytest.fixture
def agents(bus: transport.Transport) -> Iterator[dict[str, Agent]]:
    agents = {"host@one": Agent(), "host@two": Agent()}
    servers = [transport.server(bus, transport.TOPIC_AGENT, name, agent) for name, agent in agents.items()]
    for server in servers:
        server.start(override_pool_size=1)
    yield agents
    for server in servers:
        server.stop()
        server.wait()


def command(number: int) -> messages.Command:
    return messages.Command(
        claim_id=f"c{number}",
        epoch=4,
        verb=messages.Verb.EXTEND,
        volume_id="v",
        pool="p",
        size_gb=number,
        provisioning=Provisioning.THICK,
        ratio=1.5,
        calculation=Calculation.STANDARD,
        request_id="req-1",
    )


def commands(message: Any) -> list[messages.Command]:
    """Return the commands in a message."""
    return [
        serialization.unpack(packed, messages.Command)
        for packed in serialization.unpack(message, messages.Commands).commands
    ]


def test_messages_reach_only_their_agent_and_in_order(bus: transport.Transport, agents: dict[str, Agent]) -> None:
    client = AgentClient(bus)
    sent = [command(number) for number in range(50)]
    for each in sent:
        client.cast("host@one", contract.RUN, messages.Commands(commands=[each]))
    client.cast("host@one", contract.RUN, messages.Commands(commands=sent))
    client.cast("host@one", contract.REPORT_NOW, None)
    client.cast("host@one", contract.REJOIN, None)
    client.cast("host@one", contract.LIST_NOW, None)
    client.cast("host@two", contract.REPORT_NOW, None)

    seen = agents["host@one"].seen
    alone = [commands(seen.get(timeout=TIMEOUT)[1]) for _ in sent]
    assert alone == [[each] for each in sent]
    assert commands(seen.get(timeout=TIMEOUT)[1]) == sent
    assert seen.get(timeout=TIMEOUT) == ("report_now", None)
    assert seen.get(timeout=TIMEOUT) == ("rejoin", None)
    assert seen.get(timeout=TIMEOUT) == ("list_now", None)
    assert agents["host@two"].seen.get(timeout=TIMEOUT) == ("report_now", None)
    assert agents["host@two"].seen.empty()
