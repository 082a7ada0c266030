# SPDX-License-Identifier: Apache-2.0
"""How to keep at something that fails: with growing pauses, and without a line in the log for each attempt."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from tonnage.capacity import errors

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pauses:
    """Pauses in seconds: ``first``, then twice as long each time, up to ``longest``."""

    first: float = 0.5
    longest: float = 30.0

    def after(self, attempts: int) -> float:
        """Return the pause after that many attempts."""
        return float(min(self.longest, self.first * 2 ** min(attempts - 1, 32)))


class Complaints:
    """Warnings about a trouble that lasts: the first one, then when the text changes or after ``every`` seconds."""

    def __init__(self, log: logging.Logger, every: float = 60.0) -> None:
        self._log = log
        self._every = every
        self._lock = threading.Lock()
        self._last: tuple[str, float] | None = None

    def about(self, text: str, with_traceback: bool = False) -> None:
        """Log the text unless it was logged a moment ago."""
        now = time.monotonic()
        with self._lock:
            if self._last is not None and self._last[0] == text and now - self._last[1] < self._every:
                return
            self._last = (text, now)
        self._log.warning("%s", text, exc_info=with_traceback)

    def over(self, text: str) -> None:
        """Log that the trouble is over, if there was one."""
        with self._lock:
            if self._last is None:
                return
            self._last = None
        self._log.info("%s", text)


def until_done(
    attempt: Callable[[], T],
    failed: Callable[[BaseException | None], None],
    enough: threading.Event,
    pauses: Pauses,
) -> T | None:
    """Return what ``attempt`` returns once it raises nothing, or None if ``enough`` is set before.

    ``failed`` is told of each error. Only errors that Tonnage knows are tried again; others come through.
    """
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(errors.TonnageError),
        wait=tenacity.wait_exponential(multiplier=pauses.first, max=pauses.longest),
        stop=tenacity.stop_when_event_set(enough),
        sleep=tenacity.sleep_using_event(enough),
        before_sleep=lambda state: failed(state.outcome.exception() if state.outcome else None),
        retry_error_callback=lambda state: None,
    )
    return None if enough.is_set() else attempts(attempt)
