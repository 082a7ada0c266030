# SPDX-License-Identifier: Apache-2.0
"""The batching of calls: which items share a call, and that each gets its own answer."""

import threading
from collections.abc import Sequence
from concurrent import futures

import pytest

from tests.unit.agent.fakes import eventually
from tonnage.capacity import errors
from tonnage.coalescer import Coalescer
from tonnage.rpc.clients.call_batcher import CallBatcher

TIMEOUT = 30


class Server:
    """The receiver of calls: each call waits until the test ends it."""

    def __init__(self, max_in_flight: int = 1, batch_size: int = 64, patience: float = TIMEOUT) -> None:
        self.calls: list[list[int]] = []
        self.gates: list[threading.Event] = []
        self.failures: dict[int, BaseException] = {}
        self.in_flight = self.most_in_flight = 0
        self._lock = threading.Lock()
        self.batcher: CallBatcher[int, str] = CallBatcher(
            self._send, max_in_flight=max_in_flight, batch_size=batch_size, patience=patience
        )
        self.pool = futures.ThreadPoolExecutor(100)

    def _send(self, items: list[int]) -> Sequence[str]:
        gate = threading.Event()
        with self._lock:
            number = len(self.calls)
            self.calls.append(items)
            self.gates.append(gate)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        assert gate.wait(TIMEOUT)
        with self._lock:
            self.in_flight -= 1
        if number in self.failures:
            raise self.failures[number]
        return [f"answer {each}" for each in items]

    def ask(self, number: int) -> "futures.Future[str]":
        return self.pool.submit(self.batcher.call, number)

    def ask_waiting(self, *numbers: int) -> "list[futures.Future[str]]":
        """Start a call with each number in turn, each after the one before it waits."""
        asked = []
        for number in numbers:
            before = self.batcher.items.waiting
            asked.append(self.ask(number))
            eventually(lambda before=before: self.batcher.items.waiting == before + 1)  # type: ignore[misc]
        return asked

    def end(self, number: int) -> None:
        """Let the call of that number end, also one that has not begun yet."""
        eventually(lambda: len(self.gates) > number)
        self.gates[number].set()


def answers(asked: "list[futures.Future[str]]") -> list[str]:
    return [each.result(TIMEOUT) for each in asked]


def test_a_single_call_is_sent_at_once() -> None:
    server = Server()
    for number in range(3):
        asked = server.ask(number)
        server.end(number)
        assert asked.result(TIMEOUT) == f"answer {number}"
    assert server.calls == [[0], [1], [2]]


def test_items_that_arrive_while_calls_are_in_flight_share_the_next_call() -> None:
    server = Server(max_in_flight=2)
    early = [server.ask(0)]
    eventually(lambda: len(server.calls) == 1)
    early.append(server.ask(1))
    eventually(lambda: len(server.calls) == 2)
    late = server.ask_waiting(2, 3, 4)
    server.end(1)
    server.end(2)
    assert answers(late) == ["answer 2", "answer 3", "answer 4"]
    server.end(0)
    assert answers(early) == ["answer 0", "answer 1"]
    assert server.calls == [[0], [1], [2, 3, 4]]


def test_a_call_has_at_most_batch_size_items() -> None:
    server = Server(batch_size=2)
    asked = [server.ask(0)]
    eventually(lambda: server.calls)
    asked += server.ask_waiting(1, 2, 3)
    for number in range(3):
        server.end(number)
    assert answers(asked) == ["answer 0", "answer 1", "answer 2", "answer 3"]
    assert server.calls == [[0], [1, 2], [3]]


def test_a_failed_call_raises_an_error_of_its_own_for_each_item_and_the_next_call_is_sent() -> None:
    server = Server()
    server.failures = {1: errors.Conflict("the bus is away"), 2: ZeroDivisionError("a bug")}
    asked = [server.ask(0)]
    eventually(lambda: server.calls)
    asked += server.ask_waiting(1, 2)
    server.end(0)
    eventually(lambda: len(server.calls) == 2)
    asked += server.ask_waiting(3)
    server.end(1)
    eventually(lambda: len(server.calls) == 3)
    asked += server.ask_waiting(4)
    server.end(2)
    server.end(3)
    first, second, third = (each.exception(TIMEOUT) for each in asked[1:4])
    assert type(first) is type(second) is errors.Conflict
    assert str(first) == str(second) == "the bus is away"
    assert first is not second
    assert isinstance(third, RuntimeError)
    assert isinstance(third.__cause__, ZeroDivisionError)
    assert asked[4].result(TIMEOUT) == "answer 4"


def test_too_few_answers_are_an_error() -> None:
    batcher: CallBatcher[int, str] = CallBatcher(lambda items: [])
    with pytest.raises(errors.Unavailable, match=r"^0 answers came to 1 requests$"):
        batcher.call(1)


def test_a_call_that_does_not_end_delays_others_only_for_a_moment() -> None:
    server = Server(patience=0.1)
    stuck = server.ask(0)
    eventually(lambda: server.calls)
    asked = [server.ask(number) for number in (1, 2, 3)]
    eventually(lambda: sum(map(len, server.calls)) == 4)
    assert len(server.calls) >= 2
    for number in range(1, len(server.calls)):
        server.end(number)
    assert answers(asked) == ["answer 1", "answer 2", "answer 3"]
    assert not stuck.done()
    server.end(0)
    assert stuck.result(TIMEOUT) == "answer 0"


def test_while_calls_do_not_end_others_are_sent_at_once_and_in_batches() -> None:
    server = Server()
    seconds = 0.0
    server.batcher.items = Coalescer(64, 1, TIMEOUT, rests=False, clock=lambda: seconds)
    stuck = [server.ask(0)]
    eventually(lambda: server.calls)
    seconds += TIMEOUT
    stuck.append(server.ask(1))
    eventually(lambda: len(server.calls) == 2)
    seconds += TIMEOUT
    asked = [server.ask(2)]
    eventually(lambda: len(server.calls) == 3)
    asked += server.ask_waiting(3, 4)
    server.end(0)  # makes no room: it did not count
    assert stuck[0].result(TIMEOUT) == "answer 0"
    assert len(server.calls) == 3
    server.end(2)
    server.end(3)
    assert answers(asked) == ["answer 2", "answer 3", "answer 4"]
    assert server.calls[3] == [3, 4]
    server.end(1)
    assert stuck[1].result(TIMEOUT) == "answer 1"
    assert server.batcher.items.is_idle


def test_a_thousand_items_of_many_threads_are_each_sent_once_and_answered() -> None:
    lock, made, in_flight, most = threading.Lock(), [], [0], [0]

    def send(items: list[int]) -> list[str]:
        with lock:
            in_flight[0] += 1
            most[0] = max(most[0], in_flight[0])
            made.append(items)
        threading.Event().wait(0.001)
        with lock:
            in_flight[0] -= 1
        return [f"answer {each}" for each in items]

    batcher: CallBatcher[int, str] = CallBatcher(send, max_in_flight=3, batch_size=8, patience=TIMEOUT)
    with futures.ThreadPoolExecutor(32) as pool:
        found = list(pool.map(batcher.call, range(1000)))
    assert found == [f"answer {number}" for number in range(1000)]
    assert sorted(each for items in made for each in items) == list(range(1000))
    assert most[0] <= 3
    assert max(map(len, made)) <= 8
    assert len(made) < 1000
