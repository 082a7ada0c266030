# SPDX-License-Identifier: Apache-2.0
"""Messages to an agent are decoded one by one, so that a malformed one harms no other."""

from collections.abc import Collection
from typing import Any, cast

import pytest

from tests.unit.agent.fakes import command
from tonnage.agent import endpoint
from tonnage.agent.operations import Operations
from tonnage.rpc import serialization
from tonnage.rpc.messages import Command, Commands, SharedStorages


class Agent:
    """Records the messages that reach an agent, and takes the part of its operations."""

    backend = "host@backend"

    def __init__(self) -> None:
        self.calls: list[object] = []

    def report_now(self) -> None:
        self.calls.append("report")

    def list_now(self) -> None:
        self.calls.append("list")

    def take_stamps(self, storage_ids: Collection[str]) -> None:
        self.calls.append(list(storage_ids))

    def rejoin(self) -> None:
        self.calls.append("rejoin")

    def submit(self, command: Command) -> None:
        self.calls.append(command)


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def methods(agent: Agent) -> Any:
    return endpoint.build(agent, cast("Operations", agent))


def packed(*commands: Command) -> Any:
    return serialization.pack(Commands(commands=[serialization.pack(each) for each in commands]))


def test_commands_are_submitted_in_their_order(agent: Agent, methods: Any) -> None:
    commands = [command("c2", "v"), command("c1", "v")]
    methods.run({}, packed(*commands))
    assert agent.calls == commands


def test_a_malformed_command_is_left_out(agent: Agent, methods: Any, caplog: pytest.LogCaptureFixture) -> None:
    message = packed(command("c1", "v"), command("c2", "v"))
    message["commands"][0]["size_gb"] = "much"
    methods.run({}, message)
    assert agent.calls == [command("c2", "v")]
    assert "Backend host@backend ignores a command: " in caplog.text


@pytest.mark.parametrize("message", [None, {}, {"commands": 3}, "text"])
def test_a_message_without_commands_is_ignored(
    agent: Agent, methods: Any, message: object, caplog: pytest.LogCaptureFixture
) -> None:
    methods.run({}, message)
    assert agent.calls == []
    assert "Backend host@backend ignores" in caplog.text


def test_shared_storages_reach_the_agent_unless_they_are_malformed(
    agent: Agent, methods: Any, caplog: pytest.LogCaptureFixture
) -> None:
    methods.take_stamps({}, serialization.pack(SharedStorages(storage_ids=["array"])))
    methods.take_stamps({}, {"storage_ids": [1]})
    assert agent.calls == [["array"]]
    assert "Backend host@backend ignores" in caplog.text


def test_requests_without_a_message_reach_the_agent(agent: Agent, methods: Any) -> None:
    methods.report_now({})
    methods.list_now({})
    methods.rejoin({})
    assert agent.calls == ["report", "list", "rejoin"]
