# SPDX-License-Identifier: Apache-2.0
"""Concurrent calls from one test."""

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any


def run_concurrently(threads: int, work: Callable[[int], Any]) -> list[Any]:
    """Call ``work(number)`` on this many threads, which start together.

    Return the result of each call in the order of the numbers, or raise the first error.
    """
    barrier = threading.Barrier(threads)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))
