# SPDX-License-Identifier: Apache-2.0
"""The delivery of outcomes: batches, and that a failing outcome does not delay the others."""

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import eventually
from tonnage import coalescer
from tonnage.agent.backoff import BackOff
from tonnage.agent.outbox import Outbox
from tonnage.rpc.messages import Outcome


class Receiver:
    """Receives outcomes while its gate is open, but no call that contains ``undeliverable``."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.undeliverable = ""
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def deliver(self, outcomes: Sequence[Outcome]) -> None:
        self.entered.release()
        assert self.gate.wait(fakes.DEADLINE)
        self.calls.append([outcome.claim_id for outcome in outcomes])
        if self.undeliverable in self.calls[-1]:
            raise fakes.TROUBLE


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def outbox(receiver: Receiver) -> Iterator[Outbox]:
    outbox = Outbox("host@backend", receiver, BackOff(0.01, 0.05), patience=fakes.DEADLINE)
    outbox.start()
    yield outbox
    receiver.gate.set()
    outbox.close()


@pytest.fixture
def gathered(outbox: Outbox, receiver: Receiver) -> Callable[[range], None]:
    """Return a function that queues outcomes during a call, and then lets it end."""

    def gather(numbers: range) -> None:
        receiver.gate.clear()
        outbox.put(outcome("early"))
        assert receiver.entered.acquire(timeout=fakes.DEADLINE)
        for number in numbers:
            outbox.put(outcome(f"c{number}"))
        receiver.gate.set()

    return gather


def outcome(claim_id: str) -> Outcome:
    return Outcome(backend="host@backend", epoch=1, claim_id=claim_id, ok=True, end_tick=1)


def test_a_single_outcome_is_sent_at_once(outbox: Outbox, receiver: Receiver) -> None:
    for number in range(3):
        outbox.put(outcome(f"c{number}"))
        assert outbox.flush(fakes.DEADLINE)
    assert receiver.calls == [["c0"], ["c1"], ["c2"]]


def test_outcomes_that_wait_are_sent_together_in_order(
    outbox: Outbox, receiver: Receiver, gathered: Callable[[range], None]
) -> None:
    gathered(range(100))
    assert outbox.flush(fakes.DEADLINE)
    late = sorted((call for call in receiver.calls if call[0].startswith("c")), key=lambda call: int(call[0][1:]))
    assert [len(call) for call in late] == [64, 36]
    assert [name for call in late for name in call] == [f"c{number}" for number in range(100)]


def test_outcomes_gather_after_a_call_with_several(
    outbox: Outbox, receiver: Receiver, gathered: Callable[[range], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescer, "rest_after", lambda items, seconds: 1800.0 if items > 1 else 0.0)
    gathered(range(3))
    assert outbox.flush(fakes.DEADLINE)
    outbox.put(outcome("late"))
    assert not outbox.flush(0.2)
    for number in range(3, 66):
        outbox.put(outcome(f"c{number}"))
    assert outbox.flush(fakes.DEADLINE), "a full call ends the rest"
    assert [len(call) for call in receiver.calls] == [1, 3, 64]


def test_an_outcome_that_cannot_be_delivered_does_not_delay_others(
    outbox: Outbox, receiver: Receiver, gathered: Callable[[range], None]
) -> None:
    receiver.undeliverable = "c50"
    gathered(range(100))
    eventually(lambda: list(outbox._outcomes) == [("c50", False)])
    receiver.undeliverable = ""
    assert outbox.flush(fakes.DEADLINE)


def test_batches_grow_again_after_a_failure(
    outbox: Outbox, receiver: Receiver, gathered: Callable[[range], None]
) -> None:
    receiver.undeliverable = "c0"
    outbox.put(outcome("c0"))
    eventually(lambda: len(receiver.calls) > 2)
    receiver.undeliverable = ""
    assert outbox.flush(fakes.DEADLINE)
    receiver.calls.clear()
    gathered(range(1, 201))
    assert outbox.flush(fakes.DEADLINE)
    assert max(map(len, receiver.calls)) >= 32


def test_an_outcome_that_is_put_again_while_it_waits_is_sent_at_once(receiver: Receiver) -> None:
    outbox = Outbox("host@backend", receiver, BackOff(600.0, 600.0))
    outbox.start()
    receiver.undeliverable = "c1"
    outbox.put(outcome("c1"))
    eventually(lambda: receiver.calls and outbox._outcomes["c1", False].retry_at)
    receiver.undeliverable = ""
    outbox.put(outcome("c1"))
    assert outbox.flush(fakes.DEADLINE)
    outbox.close()


def test_outcomes_of_a_past_epoch_are_not_sent(outbox: Outbox, receiver: Receiver) -> None:
    receiver.undeliverable = "c1"
    outbox.put(outcome("c1"))
    eventually(lambda: receiver.calls)
    outbox.clear()
    assert outbox.flush(0)


def test_a_call_without_an_answer_does_not_keep_later_outcomes(receiver: Receiver) -> None:
    outbox = Outbox("host@backend", receiver, BackOff(0.01, 0.05), patience=0.05)
    outbox.start()
    receiver.gate.clear()
    for number in range(2):
        outbox.put(outcome(f"c{number}"))
        assert receiver.entered.acquire(timeout=fakes.DEADLINE)
    receiver.gate.set()
    assert outbox.flush(fakes.DEADLINE)
    assert sorted(receiver.calls) == [["c0"], ["c1"]]
    outbox.close()
