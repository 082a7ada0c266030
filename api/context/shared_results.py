# SPDX-License-Identifier: Apache-2.0
"""Results that many users see and that take long to compute: computed once, and shown for some seconds."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

#: The least lifetime of a result, in times of its computation: with many pools a result takes long, and computing it
#: again and again takes a fifth of one processor at most.
_LEAST_LIFETIME = 4.0


class SharedResult(Generic[T]):
    """The result of a function. Safe to use from many threads.

    A result lives for ``lifetime`` seconds, or for four times the duration of its computation if that is longer; with a
    ``lifetime`` of 0 it does not live at all. One thread computes a new one. The others get the previous one meanwhile,
    up to twice that age.
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
                began = time.monotonic()
                value = self._compute()
                end = time.monotonic()
                self._last = last = _Result(value, end - began, end)
            return last.value
        finally:
            self._lock.release()

    def _age(self, result: "_Result[T]") -> float:
        """Return the age of a result in lifetimes."""
        if not self.lifetime:
            return math.inf
        return (time.monotonic() - result.computed_at) / max(self.lifetime, _LEAST_LIFETIME * result.duration)


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    """A result, the seconds that its computation took, and the time of its end by the monotonic clock."""

    value: T
    duration: float
    computed_at: float
