# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import eventually
from tonnage.agent.backoff import BackOff
from tonnage.agent.listing_loop import ListingLoop

Make = Callable[[float], ListingLoop]


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

    def listing_loop(interval: float) -> ListingLoop:
        made.append(ListingLoop("host@backend", teller.tell, interval, BackOff(0.05, 0.05)))
        made[-1].start()
        return made[-1]

    yield listing_loop
    teller.gate.set()
    for each in made:
        assert each._worker.stop(fakes.DEADLINE)


def test_it_tells_every_interval_and_not_at_once(make: Make, teller: Teller) -> None:
    began = time.monotonic()
    make(0.05)
    eventually(lambda: len(teller.times) >= 3)
    assert teller.times[0] - began >= 0.05
    assert teller.times[2] - teller.times[0] >= 0.1


@pytest.mark.parametrize("interval", [0, 600])
def test_it_tells_when_asked(make: Make, teller: Teller, interval: float) -> None:
    loop = make(interval)
    loop.request()
    eventually(lambda: len(teller.times) == 1)
    loop.request()
    eventually(lambda: len(teller.times) == 2)


def test_asked_while_it_tells_it_tells_once_more(make: Make, teller: Teller) -> None:
    loop = make(0)
    teller.gate.clear()
    loop.request()
    eventually(lambda: len(teller.times) == 1)
    for _ in range(3):
        loop.request()
    teller.gate.set()
    eventually(lambda: len(teller.times) == 2)
    loop.stop()
    assert loop._worker.stop(fakes.DEADLINE)
    assert len(teller.times) == 2


def test_what_fails_is_tried_again_after_a_pause_however_often_it_is_asked_for(
    make: Make, teller: Teller, caplog: pytest.LogCaptureFixture
) -> None:
    teller.failures = [fakes.TROUBLE, ValueError("garbled")]
    loop = make(0)
    loop.request()
    eventually(lambda: teller.times)
    loop.request()
    eventually(lambda: len(teller.times) >= 3)
    assert teller.times[2] - teller.times[0] >= 0.1
    assert "could not send a listing of its volumes: the database is away" in caplog.text
    assert "could not send a listing of its volumes: garbled" in caplog.text
