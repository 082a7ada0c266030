# SPDX-License-Identifier: Apache-2.0
"""When the rounds of the publisher are due: regularly, and soon after the claims have changed."""

import math
import time
from collections.abc import Callable

#: The least pause in seconds before a round for changed claims.
LEAST_PAUSE = 0.5


class RoundSchedule:
    """The times of rounds. A full round is due ``interval`` seconds after the last one; ``clock`` returns seconds.

    A round for changed claims comes earlier, after a pause as long as the last round, and at least
    :data:`LEAST_PAUSE`. So the claims of this time share a round, and rounds take half of the time at most.
    """

    def __init__(self, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._clock = interval, clock
        self._full_due = self._began = -math.inf
        self._pause_end = -math.inf
        self._is_full = True

    def begin(self) -> bool:
        """Begin a round, and return whether it is a full one."""
        self._began = self._clock()
        self._is_full = self._began >= self._full_due
        return self._is_full

    def end(self) -> None:
        """End the round."""
        now = self._clock()
        self._pause_end = now + max(LEAST_PAUSE, now - self._began)
        if self._is_full:
            self._full_due = now + self._interval

    def wait_seconds(self, changed: bool) -> float:
        """Return the seconds until the next round; ``changed`` tells whether there are other claims."""
        due = min(self._full_due, self._pause_end) if changed else self._full_due
        return max(0.0, due - self._clock())
