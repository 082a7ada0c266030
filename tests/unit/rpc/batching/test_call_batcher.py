# SPDX-License-Identifier: Apache-2.0
"""Calls that travel together: who goes with whom, and that everybody gets what is theirs."""

import threading
import time
from collections.abc import Sequence
from concurrent import futures

import pytest

from tests.unit.agent.fakes import eventually
from tonnage.capacity import errors
from tonnage.rpc.batching.call_batcher import Convoy

TIMEOUT = 30


class Line:
    """The other side: each call waits until the test lets it go."""

    def __init__(self, flights: int = 1, seats: int = 64, hurry: float = TIMEOUT) -> None:
        self.calls: list[list[int]] = []
        self.gates: list[threading.Event] = []
        self.failures: dict[int, BaseException] = {}
        self.under_way = self.most_under_way = 0
        self._lock = threading.Lock()
        self.convoy: Convoy[int, str] = Convoy(self._send, flights=flights, seats=seats, hurry=hurry)
        self.pool = futures.ThreadPoolExecutor(100)

    def _send(self, cargo: list[int]) -> Sequence[str]:
        gate = threading.Event()
        with self._lock:
            number = len(self.calls)
            self.calls.append(cargo)
            self.gates.append(gate)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        assert gate.wait(TIMEOUT)
        with self._lock:
            self.under_way -= 1
        if number in self.failures:
            raise self.failures[number]
        return [f"answer {each}" for each in cargo]

    def ask(self, number: int) -> "futures.Future[str]":
        return self.pool.submit(self.convoy.call, number)

    def ask_waiting(self, *numbers: int) -> "list[futures.Future[str]]":
        """Ask with each in turn, when the one before is waiting."""
        asked = []
        for number in numbers:
            before = len(self.convoy._waiting)
            asked.append(self.ask(number))
            eventually(lambda before=before: len(self.convoy._waiting) == before + 1)  # type: ignore[misc]
        return asked

    def land(self, number: int) -> None:
        """Let that call end, which may be yet to come."""
        eventually(lambda: len(self.gates) > number)
        self.gates[number].set()


def answers(asked: "list[futures.Future[str]]") -> list[str]:
    return [each.result(TIMEOUT) for each in asked]


def test_a_lone_call_goes_at_once_and_alone() -> None:
    line = Line()
    for number in range(3):
        asked = line.ask(number)
        line.land(number)
        assert asked.result(TIMEOUT) == f"answer {number}"
    assert line.calls == [[0], [1], [2]]


def test_what_comes_while_calls_are_under_way_goes_together_in_the_next() -> None:
    line = Line(flights=2)
    early = [line.ask(0)]
    eventually(lambda: len(line.calls) == 1)
    early.append(line.ask(1))
    eventually(lambda: len(line.calls) == 2)
    late = line.ask_waiting(2, 3, 4)
    line.land(1)
    line.land(2)
    assert answers(late) == ["answer 2", "answer 3", "answer 4"]
    line.land(0)
    assert answers(early) == ["answer 0", "answer 1"]
    assert line.calls == [[0], [1], [2, 3, 4]]


def test_no_more_go_together_than_there_are_seats() -> None:
    line = Line(seats=2)
    asked = [line.ask(0)]
    eventually(lambda: line.calls)
    asked += line.ask_waiting(1, 2, 3)
    for number in range(3):
        line.land(number)
    assert answers(asked) == ["answer 0", "answer 1", "answer 2", "answer 3"]
    assert line.calls == [[0], [1, 2], [3]]


def test_a_call_that_fails_fails_for_all_aboard_each_with_an_error_of_its_own_and_the_next_goes() -> None:
    line = Line()
    line.failures = {1: errors.Conflict("the bus is away"), 2: ZeroDivisionError("a bug")}
    asked = [line.ask(0)]
    eventually(lambda: line.calls)
    asked += line.ask_waiting(1, 2)
    line.land(0)
    eventually(lambda: len(line.calls) == 2)
    asked += line.ask_waiting(3)
    line.land(1)
    eventually(lambda: len(line.calls) == 3)
    asked += line.ask_waiting(4)
    line.land(2)
    line.land(3)
    first, second, third = (each.exception(TIMEOUT) for each in asked[1:4])
    assert type(first) is type(second) is errors.Conflict
    assert str(first) == str(second) == "the bus is away"
    assert first is not second
    assert isinstance(third, RuntimeError)
    assert isinstance(third.__cause__, ZeroDivisionError)
    assert asked[4].result(TIMEOUT) == "answer 4"


def test_too_few_answers_are_nobodys() -> None:
    convoy: Convoy[int, str] = Convoy(lambda cargo: [])
    with pytest.raises(errors.Unavailable, match=r"^0 answers came to 1 requests$"):
        convoy.call(1)


def test_a_call_that_does_not_end_holds_nobody_up_for_long() -> None:
    line = Line(hurry=0.1)
    stuck = line.ask(0)
    eventually(lambda: line.calls)
    asked = [line.ask(number) for number in (1, 2, 3)]
    eventually(lambda: sum(map(len, line.calls)) == 4)
    assert len(line.calls) >= 2
    for number in range(1, len(line.calls)):
        line.land(number)
    assert answers(asked) == ["answer 1", "answer 2", "answer 3"]
    assert not stuck.done()
    line.land(0)
    assert stuck.result(TIMEOUT) == "answer 0"


def test_while_calls_do_not_end_others_go_at_once_and_together() -> None:
    line = Line(hurry=0.1)
    stuck = [line.ask(0)]
    eventually(lambda: line.calls)
    stuck.append(line.ask(1))
    eventually(lambda: len(line.calls) == 2)
    line.convoy._hurry = TIMEOUT
    line.convoy._under_way = dict.fromkeys(line.convoy._under_way, time.monotonic() - TIMEOUT)
    asked = [line.ask(2)]
    eventually(lambda: len(line.calls) == 3)
    asked += line.ask_waiting(3, 4)
    line.land(0)  # makes no room: it did not count
    assert stuck[0].result(TIMEOUT) == "answer 0"
    assert len(line.calls) == 3
    line.land(2)
    line.land(3)
    assert answers(asked) == ["answer 2", "answer 3", "answer 4"]
    assert line.calls[3] == [3, 4]
    line.land(1)
    assert stuck[1].result(TIMEOUT) == "answer 1"
    assert line.convoy._under_way == {}


def test_a_thousand_calls_of_many_threads_are_each_made_once_and_answered() -> None:
    lock, made, under_way, most = threading.Lock(), [], [0], [0]

    def send(cargo: list[int]) -> list[str]:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
            made.append(cargo)
        threading.Event().wait(0.001)
        with lock:
            under_way[0] -= 1
        return [f"answer {each}" for each in cargo]

    convoy: Convoy[int, str] = Convoy(send, flights=3, seats=8, hurry=TIMEOUT)
    with futures.ThreadPoolExecutor(32) as pool:
        found = list(pool.map(convoy.call, range(1000)))
    assert found == [f"answer {number}" for number in range(1000)]
    assert sorted(each for cargo in made for each in cargo) == list(range(1000))
    assert most[0] <= 3
    assert max(map(len, made)) <= 8
    assert len(made) < 1000
