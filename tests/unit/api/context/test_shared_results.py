# SPDX-License-Identifier: Apache-2.0
"""Results that are computed once for many users."""

import itertools
import threading

import pytest

from tonnage.api.context.shared_results import SharedResult


def test_a_result_is_computed_once_in_its_lifetime() -> None:
    reading = SharedResult(60.0, itertools.count().__next__)
    assert (reading.get(), reading.get()) == (0, 0)
    reading.lifetime = 0.0
    assert reading.get() == 1


def test_nobody_waits_for_the_thread_that_computes() -> None:
    began, go_on, number = threading.Event(), threading.Event(), itertools.count()

    def compute() -> int:
        found = next(number)
        if found:
            began.set()
            assert go_on.wait(60)
        return found

    reading = SharedResult(60.0, compute)
    assert reading.get() == 0
    # The result is older than its lifetime, and young enough to be shown during the next computation.
    assert reading._last is not None
    reading._last = (0, reading._last[1] - 90.0)
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
        found = next(results)
        if isinstance(found, ValueError):
            raise found
        return found

    reading = SharedResult(60.0, compute)
    with pytest.raises(ValueError, match="away"):
        reading.get()
    assert reading.get() == 5
