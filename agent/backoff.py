# SPDX-License-Identifier: Apache-2.0
"""Pauses between reports and between attempts, and few log lines about a failure that lasts."""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from tonnage.capacity import errors

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackOff:
    """Pauses between attempts in seconds: ``first``, then twice as long each time, up to ``longest``."""

    first: float = 0.5
    longest: float = 30.0

    def after(self, attempts: int) -> float:
        """Return the pause in seconds after that many attempts."""
        return float(min(self.longest, self.first * 2 ** min(attempts - 1, 32)))


def until_invited(busy: errors.Busy) -> float:
    """Return the seconds after which an agent comes back to a scheduler that is busy.

    They are up to a fifth longer than that one says, so that not all agents come back at the same moment.
    """
    return busy.seconds * random.uniform(1.0, 1.2)  # noqa: S311


def gap_after(busy_seconds: float, polling_interval: float, shortest: float, longest: float) -> float:
    """Return the seconds between two reports of a backend that was busy for so many seconds.

    It is a fifth of that time, within limits: an operator with a short polling interval expects frequent reports and
    has a short service_down_time, so it is at most a fifth of the interval.
    """
    return max(shortest, min(busy_seconds / 5, polling_interval / 5, longest))


class FailureLog:
    """Warnings about a failure that lasts: the first one, then one after a new text or after ``every`` seconds."""

    def __init__(self, log: logging.Logger, every: float = 60.0) -> None:
        self._log = log
        self._every = every
        self._lock = threading.Lock()
        self._last: tuple[str, float] | None = None

    def failed(self, text: str, with_traceback: bool = False) -> None:
        """Log the text as a warning, unless the same text was logged less than ``every`` seconds ago."""
        now = time.monotonic()
        with self._lock:
            if self._last is not None and self._last[0] == text and now - self._last[1] < self._every:
                return
            self._last = (text, now)
        self._log.warning("%s", text, exc_info=with_traceback)

    def recovered(self, text: str) -> bool:
        """Log the text if there was a failure before; return whether there was."""
        with self._lock:
            if self._last is None:
                return False
            self._last = None
        self._log.info("%s", text)
        return True


def retry(
    attempt: Callable[[], T],
    on_failure: Callable[[BaseException | None], None],
    cancelled: threading.Event,
    backoff: BackOff,
) -> T | None:
    """Return the result of ``attempt`` once it raises nothing, or None if ``cancelled`` is set before.

    ``on_failure`` is called with each error. Only a :class:`~tonnage.capacity.errors.TonnageError` leads to another
    attempt; other exceptions reach the caller. The pauses grow with the failures, and up to a half of each is random.
    The next attempt after :class:`~tonnage.capacity.errors.Busy` is at the time that the scheduler says.
    """
    failures = 0

    def pause(state: tenacity.RetryCallState) -> float:
        nonlocal failures
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, errors.Busy):
            failures = 0
            return until_invited(error)
        failures += 1
        return backoff.after(failures) * random.uniform(0.5, 1.0)  # noqa: S311

    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(errors.TonnageError),
        wait=pause,
        stop=tenacity.stop_when_event_set(cancelled),
        sleep=tenacity.sleep_using_event(cancelled),
        before_sleep=lambda state: on_failure(state.outcome.exception() if state.outcome else None),
        retry_error_callback=lambda state: None,
    )
    return attempts(lambda: None if cancelled.is_set() else attempt())
