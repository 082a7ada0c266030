# SPDX-License-Identifier: Apache-2.0
"""The thread that rooms share."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tonnage.worker import Worker

TIMEOUT = 60.0

Make = Callable[..., Worker]


@pytest.fixture
def make() -> Iterator[Make]:
    """A function that makes workers, which are stopped at the end."""
    made: list[Worker] = []

    def make_one(run_once: Callable[[], float | None], period: float | None = None, **more: Any) -> Worker:
        made.append(Worker("test", run_once, period, **more))
        return made[-1]

    yield make_one
    for each in made:
        assert each.stop(TIMEOUT)


class Calls:
    """Counts calls; ``results`` are what they return or raise in turn, then None."""

    def __init__(self, *results: float | Exception | None) -> None:
        self._results = list(results)
        self._called = threading.Semaphore(0)
        self.number = 0

    def __call__(self) -> float | None:
        self.number += 1
        self._called.release()
        result = self._results.pop(0) if self._results else None
        if isinstance(result, Exception):
            raise result
        return result

    def wait(self) -> None:
        assert self._called.acquire(timeout=TIMEOUT)


def test_without_a_period_it_works_only_when_woken(make: Make) -> None:
    calls = Calls()
    made = make(calls)
    made.start()
    time.sleep(0.05)
    assert calls.number == 0
    made.wake()
    calls.wait()
    time.sleep(0.05)
    assert calls.number == 1


def test_it_works_when_its_period_has_passed_or_the_time_that_the_last_call_returned(make: Make) -> None:
    calls = Calls(0.0, 600.0)
    made = make(calls, 0.01)
    made.start()
    calls.wait()
    calls.wait()
    time.sleep(0.05)
    assert calls.number == 2
    made.wake()
    for _ in range(3):
        calls.wait()


def test_a_wake_up_before_the_start_or_during_a_call_is_not_lost(make: Make) -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    def run_once() -> None:
        entered.release()
        leave.wait(TIMEOUT)

    made = make(run_once)
    made.wake()
    made.start()
    assert entered.acquire(timeout=TIMEOUT)
    made.wake()
    made.wake()
    leave.set()
    assert entered.acquire(timeout=TIMEOUT)
    assert not entered.acquire(timeout=0.05)


def test_an_exception_is_logged_and_the_work_goes_on(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(ZeroDivisionError("oops"))
    made = make(calls, retry_pause=0.01)
    made.start()
    made.wake()
    calls.wait()
    calls.wait()
    assert "The worker test failed and goes on" in caplog.text
    assert "oops" in caplog.text


def test_an_expected_error_is_logged_without_its_traceback(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def run_once() -> None:
        raise ZeroDivisionError("oops")

    assert make(run_once, retry_pause=3.0, expected_errors=(ArithmeticError,)).turn() == 3.0
    assert "The worker test failed and goes on: oops" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("expected_errors", [(), (ArithmeticError,)])
def test_a_failure_that_repeats_is_logged_once_and_its_end_too(
    make: Make, caplog: pytest.LogCaptureFixture, expected_errors: tuple[type[Exception], ...]
) -> None:
    caplog.set_level(logging.INFO)
    oops, other = ZeroDivisionError("oops"), ZeroDivisionError("other")
    made = make(Calls(oops, oops, other, other, None, None, oops), 1.0, expected_errors=expected_errors)
    for _ in range(7):
        made.turn()
    failed, end = "failed and goes on", "The worker test works again"
    lines = [end if record.getMessage() == end else failed for record in caplog.records]
    assert lines == [failed, failed, end, failed]


def test_a_turn_in_the_callers_thread_returns_the_seconds_until_the_next_one(make: Make) -> None:
    assert make(Calls(), 7.0).turn() == 7.0
    assert make(Calls(2.0), 7.0).turn() == 2.0


def test_a_pause_ends_with_the_stop_and_not_with_a_wake_up(make: Make) -> None:
    results: list[bool] = []

    def run_once() -> None:
        made.wake()
        results.append(made.pause(0.05))
        results.append(made.pause(TIMEOUT))

    made = make(run_once)
    made.start()
    made.wake()
    deadline = time.monotonic() + TIMEOUT
    while not results:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert not made.stopping
    assert made.stop(TIMEOUT)
    assert (results, made.stopping, made.alive) == ([True, False], True, False)


def test_it_can_be_stopped_before_its_start_from_within_and_while_a_call_takes_long(make: Make) -> None:
    assert make(Calls()).stop()
    leave = threading.Event()
    entered = threading.Event()

    def run_once() -> None:
        assert not made.stop()
        entered.set()
        leave.wait(TIMEOUT)

    made = make(run_once)
    made.start()
    made.wake()
    assert entered.wait(TIMEOUT)
    assert not made.stop(0.01)
    leave.set()
