# SPDX-License-Identifier: Apache-2.0
"""The command sender with an agent client that a test can block; the client itself is tested on a bus."""

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.unit.agent.fakes import command, eventually
from tonnage import coalescer
from tonnage.capacity import errors
from tonnage.rpc.clients.command_sender import AgentClient, CommandSender
from tonnage.rpc.contract import Message, Method
from tonnage.rpc.messages import Commands

TIMEOUT = 30


class Agents(AgentClient):
    """Notes what it is told to send."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str | list[str]]] = []
        self.failures: dict[str, Exception] = {}
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()

    def _send(self, backend: str, what: str | list[str]) -> None:
        self.entered.release()
        assert self.open.wait(TIMEOUT)
        for name in [what] if isinstance(what, str) else what:
            if name in self.failures:
                raise self.failures[name]
        self.sent.append((backend, what))

    def cast(self, backend: str, method: Method[Message, None], message: Message) -> None:
        if isinstance(message, Commands):
            assert method.name == "run"
            self._send(backend, [command.claim_id for command in message.commands])
        else:
            self._send(backend, method.name)


@pytest.fixture
def agents() -> Agents:
    return Agents()


class Owner:
    """Notes the commands that were dropped."""

    def __init__(self) -> None:
        self.lost: list[Sequence[str]] = []

    def undelivered(self, claim_ids: Sequence[str]) -> None:
        self.lost.append(claim_ids)


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def lost(owner: Owner) -> list[Sequence[str]]:
    return owner.lost


@pytest.fixture
def sender(agents: Agents, owner: Owner) -> Iterator[CommandSender]:
    sender = CommandSender(agents)
    sender.start(owner)
    yield sender
    agents.open.set()
    sender.stop(TIMEOUT)


@pytest.fixture
def busy(sender: CommandSender, agents: Agents) -> Callable[[], None]:
    """Block the sender in a message to another backend; the returned function lets it continue."""
    agents.open.clear()
    sender.run("h@other", command("c0", "v0"))
    assert agents.entered.acquire(timeout=TIMEOUT)
    return agents.open.set


def test_commands_that_wait_for_a_backend_are_sent_together_in_order(
    sender: CommandSender, agents: Agents, busy: Callable[[], None]
) -> None:
    for number in range(1, 7):
        sender.run("h@odd" if number % 2 else "h@even", command(f"c{number}", "v"))
    assert agents.sent == []
    busy()
    assert sender.wait_idle(TIMEOUT)
    assert agents.sent == [("h@other", ["c0"]), ("h@odd", ["c1", "c3", "c5"]), ("h@even", ["c2", "c4", "c6"])]


def test_each_command_is_sent_at_once_while_the_sender_is_free(sender: CommandSender, agents: Agents) -> None:
    for number in range(20):
        sender.run("h@a", command(f"c{number}", "v"))
        assert sender.wait_idle(TIMEOUT)
    assert agents.sent == [("h@a", [f"c{number}"]) for number in range(20)]


def test_after_several_commands_others_wait_unless_a_message_is_full_or_the_sender_stops(
    agents: Agents, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescer, "rest_after", lambda items, seconds: 1800.0 if items > 1 else 0.0)
    sender = CommandSender(agents)
    for number in range(2):
        sender.run("h@a", command(f"c{number}", "v"))
    sender.start(owner)
    assert sender.wait_idle(TIMEOUT)
    for number in range(2, 5):
        sender.run("h@b", command(f"c{number}", "v"))
    assert not sender.wait_idle(0.2)
    for number in range(5, 69):
        sender.run("h@a", command(f"c{number}", "v"))
    assert sender.wait_idle(TIMEOUT)
    sender.run("h@b", command("c69", "v"))
    sender.stop(TIMEOUT)
    assert sorted((backend, len(claims)) for backend, claims in agents.sent) == [
        ("h@a", 2),
        ("h@a", 64),
        ("h@b", 1),
        ("h@b", 3),
    ]


def test_messages_from_before_the_start_are_sent_together(agents: Agents, owner: Owner) -> None:
    sender = CommandSender(agents)
    for number in range(67):
        sender.run("h@a", command(f"c{number}", "v"))
        sender.list_now("h@a")
    sender.start(owner)
    sender.stop(TIMEOUT)
    assert [len(claims) for _, claims in agents.sent if claims != "list_now"] == [64, 3]


def test_many_commands_are_sent_in_several_messages_with_other_backends_in_between(
    sender: CommandSender, agents: Agents, busy: Callable[[], None]
) -> None:
    for number in range(1, 151):
        sender.run("h@much", command(f"c{number}", "v"))
    sender.run("h@little", command("c151", "v"))
    busy()
    assert sender.wait_idle(TIMEOUT)
    assert [(backend, len(what)) for backend, what in agents.sent] == [
        ("h@other", 1),
        ("h@much", 64),
        ("h@little", 1),
        ("h@much", 64),
        ("h@much", 22),
    ]
    much = [claim for backend, what in agents.sent if backend == "h@much" for claim in what]
    assert much == [f"c{number}" for number in range(1, 151)]


def test_a_notice_is_sent_once_however_often_it_was_queued(
    sender: CommandSender, agents: Agents, busy: Callable[[], None]
) -> None:
    for _ in range(3):
        sender.report_now("h@b")
        sender.rejoin("h@b")
        sender.list_now("h@b")
    busy()
    assert sender.wait_idle(TIMEOUT)
    assert agents.sent[1:] == [("h@b", "report_now"), ("h@b", "rejoin"), ("h@b", "list_now")]


def test_while_the_bus_is_away_commands_are_dropped_and_reported_as_lost(
    sender: CommandSender, agents: Agents, lost: list[Sequence[str]], busy: Callable[[], None]
) -> None:
    sender.run("h@a", command("c1", "v1"))
    sender.run("h@b", command("c2", "v2"))
    sender.report_now("h@c")
    agents.failures["c0"] = errors.Unavailable("the message bus did not take run")
    busy()
    assert sender.wait_idle(TIMEOUT)
    assert [sorted(each) for each in lost] == [["c0", "c1", "c2"]]
    assert agents.sent == []
    del agents.failures["c0"]
    sender.run("h@a", command("c1", "v1"))
    assert sender.wait_idle(TIMEOUT)
    assert agents.sent == [("h@a", ["c1"])]


def test_a_command_that_cannot_be_sent_does_not_delay_other_backends(
    sender: CommandSender, agents: Agents, lost: list[Sequence[str]], busy: Callable[[], None]
) -> None:
    agents.failures["c1"] = TypeError("no message can carry this")
    sender.run("h@a", command("c1", "v1"))
    sender.run("h@b", command("c2", "v2"))
    busy()
    assert sender.wait_idle(TIMEOUT)
    assert lost == [["c1"]]
    assert agents.sent[1:] == [("h@b", ["c2"])]


def test_a_callback_that_fails_does_not_end_the_sender(agents: Agents, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Owner):
        def undelivered(self, claim_ids: Sequence[str]) -> None:
            raise ZeroDivisionError

    sender = CommandSender(agents)
    sender.start(Failing())
    agents.failures["c1"] = errors.Unavailable("away")
    sender.run("h@b", command("c1", "v1"))
    assert sender.wait_idle(TIMEOUT)
    assert "The loss of 1 command(s) could not be recorded" in caplog.text
    sender.run("h@b", command("c2", "v2"))
    sender.stop(TIMEOUT)
    assert agents.sent == [("h@b", ["c2"])]


def test_it_stops_while_the_bus_keeps_it(agents: Agents, owner: Owner) -> None:
    sender = CommandSender(agents)
    sender.start(owner)
    agents.open.clear()
    sender.run("h@b", command("c1", "v1"))
    assert agents.entered.acquire(timeout=TIMEOUT)
    sender.stop(timeout=0.05)
    agents.open.set()
    eventually(lambda: agents.sent == [("h@b", ["c1"])])
