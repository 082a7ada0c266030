# SPDX-License-Identifier: Apache-2.0
"""Results that many users see and that take long to compute: computed once, and shown for some seconds."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

#: The least lifetime of a result, in times of the processor time of its computation: with many pools that is long, and
#: computing a result again and again takes a fifth of one processor at most, unless it takes more than a minute.
_LEAST_LIFETIME = 4.0

#: Seconds that a result lives at most for this reason.
_LONGEST_LIFETIME = 300.0


class SharedResult(Generic[T]):
    """The result of a function. Safe to use from many threads.

    A result lives for ``lifetime`` seconds, or for four times the processor time of its computation if that is longer,
    at most for five minutes; with a ``lifetime`` of 0 not at all. One thread computes a new one. The others
    get the previous one meanwhile, up to twice that age.
    """

    def __init__(self, lifetime: float, compute: Callable[[], T]) -> None:
        self.lifetime = lifetime
        self._compute = compute
        self._lock = threading.Lock()
        self._last: _Result[T] | None = None

    def get(self) -> T:
        """Return the result. An exception of the function is passed on."""
        last = self._last
        if last is not None and self._age(last) < 1:
            return last.value
        can_wait = last is None or self._age(last) >= 2
        if not self._lock.acquire(blocking=can_wait):
            assert last is not None  # noqa: S101
            return last.value
        try:
            last = self._last
            # Another thread may have computed it meanwhile.
            if last is None or self._age(last) >= 1:
                began = time.thread_time()
                value = self._compute()
                self._last = last = _Result(value, time.thread_time() - began, time.monotonic())
            return last.value
        finally:
            self._lock.release()

    def _age(self, result: "_Result[T]") -> float:
        """Return the age of a result in lifetimes."""
        if not self.lifetime:
            return math.inf
        lifetime = max(self.lifetime, min(_LEAST_LIFETIME * result.processor_time, _LONGEST_LIFETIME))
        return (time.monotonic() - result.computed_at) / lifetime


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    """A result, the seconds of a processor that its computation took, and the time of its end (monotonic clock)."""

    value: T
    processor_time: float
    computed_at: float
