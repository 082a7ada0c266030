# SPDX-License-Identifier: Apache-2.0
"""Results that many users see and that take long to compute: computed once, and shown for some seconds."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedResult(Generic[T]):
    """The result of a function, at most ``lifetime`` seconds old. Safe to use from many threads.

    One thread computes a new result. The others get the previous one meanwhile, up to twice that age.
    """

    def __init__(self, lifetime: float, compute: Callable[[], T]) -> None:
        self.lifetime = lifetime
        self._compute = compute
        self._lock = threading.Lock()
        #: The last result, and the time of its computation.
        self._last: tuple[T, float] | None = None

    def get(self) -> T:
        """Return the result. An exception of the function is passed on."""
        last = self._last
        if last is not None and _age(last) < self.lifetime:
            return last[0]
        can_wait = last is None or _age(last) >= 2 * self.lifetime
        if not self._lock.acquire(blocking=can_wait):
            assert last is not None  # noqa: S101
            return last[0]
        try:
            last = self._last
            # Another thread may have computed it meanwhile.
            if last is None or _age(last) >= self.lifetime:
                self._last = last = (self._compute(), time.monotonic())
            return last[0]
        finally:
            self._lock.release()


def _age(result: tuple[object, float]) -> float:
    return time.monotonic() - result[1]
