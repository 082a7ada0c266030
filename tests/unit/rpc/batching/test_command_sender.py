# SPDX-License-Identifier: Apache-2.0
"""The courier with an agent client that can be stopped in the middle; the client itself is tested on a bus."""

import threading
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import pytest

from tests.unit.agent.fakes import command, eventually
from tonnage.capacity import errors
from tonnage.rpc.agent_client import AgentClient
from tonnage.rpc.batching.command_sender import Courier
from tonnage.rpc.messages import Command

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

    def run(self, backend: str, commands: Sequence[Command]) -> None:
        self._send(backend, [command.claim_id for command in commands])

    def report_now(self, backend: str) -> None:
        self._send(backend, "report_now")

    def list_now(self, backend: str) -> None:
        self._send(backend, "list_now")

    def rejoin(self, backend: str) -> None:
        self._send(backend, "rejoin")


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
def lost() -> list[Sequence[str]]:
    return []


@pytest.fixture
def courier(agents: Agents, lost: list[Sequence[str]]) -> Iterator[Courier]:
    courier = Courier(agents, lost.append)
    courier.start()
    yield courier
    agents.open.set()
    courier.stop(TIMEOUT)


@pytest.fixture
def busy(courier: Courier, agents: Agents) -> Callable[[], None]:
    """Stop the courier on its way to somebody else; what is returned lets it go on."""
    agents.open.clear()
    courier.run("h@other", command("c0", "v0"))
    assert agents.entered.acquire(timeout=TIMEOUT)
    return agents.open.set


def test_what_waits_for_a_backend_goes_together_in_order(
    courier: Courier, agents: Agents, busy: Callable[[], None]
) -> None:
    for number in range(1, 7):
        courier.run("h@odd" if number % 2 else "h@even", command(f"c{number}", "v"))
    assert agents.sent == []  # and nobody has waited for that
    busy()
    assert courier.idle(TIMEOUT)
    assert agents.sent == [("h@other", ["c0"]), ("h@odd", ["c1", "c3", "c5"]), ("h@even", ["c2", "c4", "c6"])]


def test_what_follows_closely_waits_for_company_but_for_a_full_message_and_the_end(
    agents: Agents, lost: list[Sequence[str]]
) -> None:
    courier = Courier(agents, lost.append, company=lambda: 3600)
    courier.start()
    courier.run("h@a", command("c1", "v1"))
    courier.run("h@b", command("c2", "v2"))
    assert courier.idle(TIMEOUT)
    for number in range(64):
        courier.run("h@a", command(f"full{number}", "v"))
    courier.run("h@b", command("c3", "v3"))
    courier.run("h@c", command("c4", "v4"))
    eventually(lambda: len(agents.sent) == 4)
    courier.run("h@b", command("c5", "v5"))
    courier.stop(TIMEOUT)
    assert [(backend, what) for backend, what in agents.sent if len(what) < 64] == [
        ("h@a", ["c1"]),
        ("h@b", ["c2"]),
        ("h@c", ["c4"]),
        ("h@b", ["c3", "c5"]),
    ]


def test_only_the_first_of_a_message_and_a_full_one_wake_the_courier(agents: Agents, lost: list[Sequence[str]]) -> None:
    """Each time it looks through all backends that something waits for."""
    courier = Courier(agents, lost.append)
    with mock.patch.object(courier._changed, "notify_all") as woken:
        for number, times in ((1, 1), (62, 1), (1, 2), (3, 2)):
            for _ in range(number):
                courier.run("h@a", command("c", "v"))
                courier.list_now("h@a")
            assert woken.call_count == times
    courier.start()
    courier.stop(TIMEOUT)
    assert [len(what) for _, what in agents.sent if what != "list_now"] == [64, 3]


def test_many_go_in_several_messages_and_leave_room_for_others(
    courier: Courier, agents: Agents, busy: Callable[[], None]
) -> None:
    for number in range(1, 151):
        courier.run("h@much", command(f"c{number}", "v"))
    courier.run("h@little", command("c151", "v"))
    busy()
    assert courier.idle(TIMEOUT)
    assert [(backend, len(what)) for backend, what in agents.sent] == [
        ("h@other", 1),
        ("h@much", 64),
        ("h@little", 1),
        ("h@much", 64),
        ("h@much", 22),
    ]
    much = [claim for backend, what in agents.sent if backend == "h@much" for claim in what]
    assert much == [f"c{number}" for number in range(1, 151)]


def test_errands_are_run_once_however_often_they_were_asked_for(
    courier: Courier, agents: Agents, busy: Callable[[], None]
) -> None:
    for _ in range(3):
        courier.report_now("h@b")
        courier.rejoin("h@b")
        courier.list_now("h@b")
    busy()
    assert courier.idle(TIMEOUT)
    assert agents.sent[1:] == [("h@b", "report_now"), ("h@b", "rejoin"), ("h@b", "list_now")]


def test_while_the_bus_is_away_commands_are_dropped_and_the_owner_is_told(
    courier: Courier, agents: Agents, lost: list[Sequence[str]], busy: Callable[[], None]
) -> None:
    courier.run("h@a", command("c1", "v1"))
    courier.run("h@b", command("c2", "v2"))
    courier.report_now("h@c")
    agents.failures["c0"] = errors.Unavailable("the message bus did not take run")
    busy()
    assert courier.idle(TIMEOUT)
    assert [sorted(each) for each in lost] == [["c0", "c1", "c2"]]
    assert agents.sent == []
    del agents.failures["c0"]
    courier.run("h@a", command("c1", "v1"))
    assert courier.idle(TIMEOUT)
    assert agents.sent == [("h@a", ["c1"])]


def test_one_that_cannot_be_sent_keeps_no_other_backend_waiting(
    courier: Courier, agents: Agents, lost: list[Sequence[str]], busy: Callable[[], None]
) -> None:
    agents.failures["c1"] = TypeError("no message can carry this")
    courier.run("h@a", command("c1", "v1"))
    courier.run("h@b", command("c2", "v2"))
    busy()
    assert courier.idle(TIMEOUT)
    assert lost == [["c1"]]
    assert agents.sent[1:] == [("h@b", ["c2"])]


def test_an_owner_that_fails_does_not_end_the_courier(agents: Agents, caplog: pytest.LogCaptureFixture) -> None:
    def fail(claim_ids: Sequence[str]) -> None:
        raise ZeroDivisionError

    courier = Courier(agents, fail)
    courier.start()
    agents.failures["c1"] = errors.Unavailable("away")
    courier.run("h@b", command("c1", "v1"))
    assert courier.idle(TIMEOUT)
    assert "Nobody took note of 1 command(s)" in caplog.text
    courier.run("h@b", command("c2", "v2"))
    courier.stop(TIMEOUT)
    assert agents.sent == [("h@b", ["c2"])]


def test_it_stops_while_the_bus_keeps_it(agents: Agents) -> None:
    courier = Courier(agents, lambda claim_ids: None)
    courier.start()
    agents.open.clear()
    courier.run("h@b", command("c1", "v1"))
    assert agents.entered.acquire(timeout=TIMEOUT)
    courier.stop(timeout=0.05)
    agents.open.set()
    eventually(lambda: agents.sent == [("h@b", ["c1"])])
