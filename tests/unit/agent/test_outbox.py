# SPDX-License-Identifier: Apache-2.0
"""Outcomes on their way: which travel together, and that one that cannot arrive keeps no other back."""

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import eventually
from tonnage.agent.backoff import BackOff
from tonnage.agent.outbox import Outbox
from tonnage.rpc.messages import Outcome


class Post:
    """Takes outcomes while its door is open. ``poison`` never arrives, nor does what travels with it."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.poison = ""
        self.entered = threading.Semaphore(0)
        self.door = threading.Event()
        self.door.set()

    def send(self, outcomes: Sequence[Outcome]) -> None:
        self.entered.release()
        assert self.door.wait(fakes.DEADLINE)
        self.calls.append([outcome.claim_id for outcome in outcomes])
        if self.poison in self.calls[-1]:
            raise fakes.TROUBLE


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def outbox(post: Post) -> Iterator[Outbox]:
    outbox = Outbox("host@backend", post.send, BackOff(0.01, 0.05))
    outbox.start()
    yield outbox
    post.door.set()
    outbox.close()


@pytest.fixture
def gathered(outbox: Outbox, post: Post) -> Callable[[range], None]:
    """Have outcomes wait while both threads are under way with one each, then let everything go."""

    def gather(numbers: range) -> None:
        post.door.clear()
        for name in ("early 1", "early 2"):
            outbox.put(outcome(name))
            assert post.entered.acquire(timeout=fakes.DEADLINE)
        for number in numbers:
            outbox.put(outcome(f"c{number}"))
        post.door.set()

    return gather


def outcome(claim_id: str) -> Outcome:
    return Outcome(backend="host@backend", epoch=1, claim_id=claim_id, ok=True, end_tick=1)


def test_a_lone_one_goes_at_once_and_alone(outbox: Outbox, post: Post) -> None:
    for number in range(3):
        outbox.put(outcome(f"c{number}"))
        assert outbox.flush(fakes.DEADLINE)
    assert post.calls == [["c0"], ["c1"], ["c2"]]


def test_what_waits_goes_together_in_order(outbox: Outbox, post: Post, gathered: Callable[[range], None]) -> None:
    gathered(range(100))
    assert outbox.flush(fakes.DEADLINE)
    late = sorted((call for call in post.calls if call[0].startswith("c")), key=lambda call: int(call[0][1:]))
    assert [len(call) for call in late] == [64, 36]
    assert [name for call in late for name in call] == [f"c{number}" for number in range(100)]


def test_one_that_cannot_arrive_keeps_no_other_back(
    outbox: Outbox, post: Post, gathered: Callable[[range], None]
) -> None:
    post.poison = "c50"
    gathered(range(100))
    eventually(lambda: list(outbox._outcomes) == ["c50"])
    post.poison = ""
    assert outbox.flush(fakes.DEADLINE)


def test_after_trouble_they_travel_in_larger_companies_again(
    outbox: Outbox, post: Post, gathered: Callable[[range], None]
) -> None:
    post.poison = "c0"
    outbox.put(outcome("c0"))
    eventually(lambda: len(post.calls) > 2)
    post.poison = ""
    assert outbox.flush(fakes.DEADLINE)
    post.calls.clear()
    gathered(range(1, 201))
    assert outbox.flush(fakes.DEADLINE)
    assert max(map(len, post.calls)) >= 32


def test_one_that_is_put_again_while_it_waits_goes_at_once(post: Post) -> None:
    outbox = Outbox("host@backend", post.send, BackOff(600.0, 600.0))
    outbox.start()
    post.poison = "c1"
    outbox.put(outcome("c1"))
    eventually(lambda: post.calls and not outbox._outcomes["c1"].sending)
    post.poison = ""
    outbox.put(outcome("c1"))
    assert outbox.flush(fakes.DEADLINE)
    outbox.close()


def test_of_an_epoch_that_is_over_nothing_is_sent(outbox: Outbox, post: Post) -> None:
    post.poison = "c1"
    outbox.put(outcome("c1"))
    eventually(lambda: post.calls)
    outbox.clear()
    assert outbox.flush(0)
