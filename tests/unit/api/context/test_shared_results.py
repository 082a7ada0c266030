# SPDX-License-Identifier: Apache-2.0
"""Results that are computed once for many users."""

import dataclasses
import itertools
import threading

import pytest

from tonnage.api.context.shared_results import SharedResult


def make_older(reading: SharedResult[int], seconds: float, processor_time: float = 0.0) -> None:
    """Let the last result be of so many seconds before, and let its computation have taken this processor time."""
    assert reading._last is not None
    computed_at = reading._last.computed_at - seconds
    reading._last = dataclasses.replace(reading._last, computed_at=computed_at, processor_time=processor_time)


def test_a_result_is_computed_once_in_its_lifetime() -> None:
    reading = SharedResult(60.0, itertools.count().__next__)
    assert (reading.get(), reading.get()) == (0, 0)
    make_older(reading, 61.0)
    assert reading.get() == 1


def test_a_result_that_takes_long_lives_for_four_times_as_long() -> None:
    reading = SharedResult(15.0, itertools.count().__next__)
    assert reading.get() == 0
    make_older(reading, 199.0, processor_time=50.0)
    assert reading.get() == 0
    make_older(reading, 1.0, processor_time=50.0)
    assert reading.get() == 1
    make_older(reading, 299.0, processor_time=1000.0)
    assert reading.get() == 1
    make_older(reading, 1.0, processor_time=1000.0)
    assert reading.get() == 2


def test_nobody_waits_for_the_thread_that_computes() -> None:
    began, go_on, number = threading.Event(), threading.Event(), itertools.count()

    def compute() -> int:
        turn = next(number)
        if turn:
            began.set()
            assert go_on.wait(60)
        return turn

    reading = SharedResult(60.0, compute)
    assert reading.get() == 0
    # The result is older than its lifetime, and young enough to be shown during the next computation.
    make_older(reading, 90.0)
    thread = threading.Thread(target=reading.get)
    thread.start()
    assert began.wait(60)
    assert reading.get() == 0
    go_on.set()
    thread.join()
    assert reading.get() == 1


def test_an_error_is_not_kept() -> None:
    results = iter([ValueError("away"), 5])

    def compute() -> int:
        result = next(results)
        if isinstance(result, ValueError):
            raise result
        return result

    reading = SharedResult(60.0, compute)
    with pytest.raises(ValueError, match="away"):
        reading.get()
    assert reading.get() == 5
