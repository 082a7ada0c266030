# SPDX-License-Identifier: Apache-2.0
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import eventually
from tonnage.agent.backoff import BackOff
from tonnage.agent.listing_loop import ListingLoop
from tonnage.capacity import errors

Make = Callable[[float], ListingLoop]


class Lister:
    """Records the times of its calls; ``failures`` are raised, once each."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()

    def send_listing(self) -> None:
        self.times.append(time.monotonic())
        assert self.gate.wait(fakes.DEADLINE)
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture
def lister() -> Lister:
    return Lister()


@pytest.fixture
def make(lister: Lister) -> Iterator[Make]:
    made = []

    def listing_loop(interval: float) -> ListingLoop:
        made.append(ListingLoop("host@backend", lister, interval, BackOff(0.05, 0.05)))
        made[-1].start()
        return made[-1]

    yield listing_loop
    lister.gate.set()
    for each in made:
        assert each.stop(fakes.DEADLINE)


def test_it_lists_after_each_interval_and_not_at_the_start(make: Make, lister: Lister) -> None:
    began = time.monotonic()
    make(0.05)
    eventually(lambda: len(lister.times) >= 3)
    assert lister.times[0] - began >= 0.05
    assert lister.times[2] - lister.times[0] >= 0.1


@pytest.mark.parametrize("interval", [0, 600])
def test_it_lists_on_request(make: Make, lister: Lister, interval: float) -> None:
    loop = make(interval)
    loop.request()
    eventually(lambda: len(lister.times) == 1)
    loop.request()
    eventually(lambda: len(lister.times) == 2)


def test_requests_during_a_listing_lead_to_one_more(make: Make, lister: Lister) -> None:
    loop = make(0)
    lister.gate.clear()
    loop.request()
    eventually(lambda: len(lister.times) == 1)
    for _ in range(3):
        loop.request()
    lister.gate.set()
    eventually(lambda: len(lister.times) == 2)
    assert loop.stop(fakes.DEADLINE)
    assert len(lister.times) == 2


def test_a_failed_listing_is_repeated_after_a_pause_despite_requests(
    make: Make, lister: Lister, caplog: pytest.LogCaptureFixture
) -> None:
    lister.failures = [fakes.TROUBLE, ValueError("garbled")]
    loop = make(0)
    loop.request()
    eventually(lambda: lister.times)
    loop.request()
    eventually(lambda: len(lister.times) >= 3)
    assert lister.times[2] - lister.times[0] >= 0.1
    assert "could not send a listing of its volumes: the database is away" in caplog.text
    assert "could not send a listing of its volumes: garbled" in caplog.text


def test_a_listing_follows_when_a_busy_scheduler_says(
    make: Make, lister: Lister, caplog: pytest.LogCaptureFixture
) -> None:
    lister.failures = [errors.Busy("many agents", 0.3)] * 2
    make(0).request()
    eventually(lambda: len(lister.times) == 3)
    assert all(later - earlier >= 0.3 for earlier, later in itertools.pairwise(lister.times))
    assert caplog.records == []


def test_the_first_listings_of_agents_that_start_together_are_spread(make: Make, lister: Lister) -> None:
    began = time.monotonic()
    for _ in range(20):
        make(2.0)
    eventually(lambda: len(lister.times) >= 20)
    first = sorted(lister.times)[:20]
    assert first[0] - began >= 2.0
    assert first[-1] - first[0] > 0.2
