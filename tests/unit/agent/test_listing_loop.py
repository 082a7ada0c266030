# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import eventually
from tonnage.agent.backoff import Pauses
from tonnage.agent.listing_loop import Lister

Make = Callable[[float], Lister]


class Teller:
    """Notes when it was called; ``failures`` are raised, once each."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()

    def tell(self) -> None:
        self.times.append(time.monotonic())
        assert self.gate.wait(fakes.DEADLINE)
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture
def teller() -> Teller:
    return Teller()


@pytest.fixture
def make(teller: Teller) -> Iterator[Make]:
    made = []

    def lister(interval: float) -> Lister:
        made.append(Lister("host@backend", teller.tell, interval, Pauses(0.05, 0.05)))
        made[-1].start()
        return made[-1]

    yield lister
    teller.gate.set()
    for each in made:
        each.stop()
        each._thread.join(fakes.DEADLINE)
        assert not each._thread.is_alive()


def test_it_tells_every_interval_and_not_at_once(make: Make, teller: Teller) -> None:
    began = time.monotonic()
    make(0.05)
    eventually(lambda: len(teller.times) >= 3)
    assert teller.times[0] - began >= 0.05
    assert teller.times[2] - teller.times[0] >= 0.1


@pytest.mark.parametrize("interval", [0, 600])
def test_it_tells_when_asked(make: Make, teller: Teller, interval: float) -> None:
    lister = make(interval)
    lister.soon()
    eventually(lambda: len(teller.times) == 1)
    lister.soon()
    eventually(lambda: len(teller.times) == 2)


def test_asked_while_it_tells_it_tells_once_more(make: Make, teller: Teller) -> None:
    lister = make(0)
    teller.gate.clear()
    lister.soon()
    eventually(lambda: len(teller.times) == 1)
    for _ in range(3):
        lister.soon()
    teller.gate.set()
    eventually(lambda: len(teller.times) == 2)
    lister.stop()
    lister._thread.join(fakes.DEADLINE)
    assert len(teller.times) == 2


def test_what_fails_is_tried_again_after_a_pause_however_often_it_is_asked_for(
    make: Make, teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    teller.failures = [fakes.TROUBLE, ValueError("garbled")]
    lister = make(0)
    lister.soon()
    eventually(lambda: teller.times)
    lister.soon()
    eventually(lambda: len(teller.times) >= 3)
    assert teller.times[2] - teller.times[0] >= 0.1
    assert "could not tell what volumes it has: the database is away" in caplog.text
    assert "could not tell what volumes it has: garbled" in caplog.text
