# SPDX-License-Identifier: Apache-2.0
"""The agent client against real servers on the bus."""

import dataclasses
import queue
from collections.abc import Iterator
from typing import Any

import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.rpc import messages, serialization, transport, versions
from tonnage.rpc.agent_client import AgentClient

TIMEOUT = 30


class Agent:
    """Notes what arrives."""

    def __init__(self) -> None:
        self.seen: queue.Queue[tuple[str, Any]] = queue.Queue()

    def run(self, context: Any, message: Any) -> None:
        self.seen.put(("run", message))

    def run_all(self, context: Any, message: Any) -> None:
        self.seen.put(("run_all", message))

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


def test_messages_reach_their_agent_alone_and_in_order(bus: transport.Transport, agents: dict[str, Agent]) -> None:
    client = AgentClient(bus)
    sent = [command(number) for number in range(50)]
    for each in sent:
        client.run("host@one", each)
    client.report_now("host@one")
    client.rejoin("host@one")
    client.report_now("host@two")

    seen = agents["host@one"].seen
    assert [serialization.unpack(seen.get(timeout=TIMEOUT)[1], messages.Command) for _ in sent] == sent
    assert seen.get(timeout=TIMEOUT) == ("report_now", None)
    assert seen.get(timeout=TIMEOUT) == ("rejoin", None)
    assert agents["host@two"].seen.get(timeout=TIMEOUT) == ("report_now", None)
    assert agents["host@two"].seen.empty()


def test_commands_travel_together_to_agents_that_take_them(bus: transport.Transport, agents: dict[str, Agent]) -> None:
    client = AgentClient(bus, {"host@one": "1.0", "host@two": "1.1"}.__getitem__)
    sent = [command(number) for number in range(5)]
    for name in agents:
        client.run_all(name, sent)
    one, two = agents["host@one"].seen, agents["host@two"].seen
    assert [serialization.unpack(one.get(timeout=TIMEOUT)[1], messages.Command) for _ in sent] == sent
    method, arrived = two.get(timeout=TIMEOUT)
    assert method == "run_all"
    assert serialization.unpack(arrived, messages.Commands) == messages.Commands(commands=sent)
    client.run_all("host@two", sent[:1])
    assert two.get(timeout=TIMEOUT)[0] == "run"
    client.list_now("host@two")
    assert two.get(timeout=TIMEOUT)[0] == "list_now"
    assert one.empty()


NEW = [
    dataclasses.replace(command(1), verb=messages.Verb.PURGE),
    dataclasses.replace(command(1), verb=messages.Verb.MANAGE, reference="lun-7"),
    dataclasses.replace(
        command(1),
        verb=messages.Verb.CREATE,
        source=messages.Source(volume_id="w", pool="h@b#p", size_gb=1, location="there"),
    ),
]


@pytest.mark.parametrize("new", NEW)
def test_what_an_old_agent_would_get_wrong_is_not_sent(
    bus: transport.Transport, agents: dict[str, Agent], new: messages.Command
) -> None:
    client = AgentClient(bus, {"host@one": "1.0", "host@two": "1.1"}.__getitem__)
    for send in (
        lambda: client.run("host@one", new),
        lambda: client.run_all("host@one", [command(1), new]),
        lambda: client.list_now("host@one"),
    ):
        with pytest.raises(versions.NotUnderstood) as caught:
            send()
        assert caught.value.message.endswith(
            " needs version 1.1 of the RPC and backend host@one is sent 1.0: end the upgrade, then look at "
            "[upgrade_levels] agent"
        )
    client.run("host@two", new)
    assert serialization.unpack(agents["host@two"].seen.get(timeout=TIMEOUT)[1], messages.Command) == new
    assert agents["host@one"].seen.empty()


def test_an_operator_can_pin_what_agents_are_sent(bus: transport.Transport, agents: dict[str, Agent]) -> None:
    bus.conf.set_override("agent", "1.0", versions.GROUP)
    try:
        client = AgentClient(bus, lambda backend: "1.1")
    finally:
        bus.conf.clear_override("agent", versions.GROUP)
    client.run_all("host@two", [command(1), command(2)])
    assert [agents["host@two"].seen.get(timeout=TIMEOUT)[0] for _ in range(2)] == ["run", "run"]
