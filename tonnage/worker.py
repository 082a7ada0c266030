# SPDX-License-Identifier: Apache-2.0
"""A worker thread, which repeats one task when it is woken or when a period has passed."""

import logging
import threading
from collections.abc import Callable

LOG = logging.getLogger(__name__)


class Worker:
    """A daemon thread that calls ``run_once`` when it is woken, and when a time has passed.

    ``run_once`` returns the seconds until its next call, or None for the usual ``period``. A ``period`` of None means:
    not before the worker is woken. The first call comes one period after the start. Calls never overlap; a wake-up
    during a call leads to another call at once.

    An exception of ``run_once`` is logged and does not end the thread: the next call comes after ``retry_pause``
    seconds, unless the worker is woken before. The log shows ``expected_errors`` with their text alone, and others with
    their traceback. It shows an exception that repeats only once, and then the first call without one. A ``run_once``
    that may take long should look at :attr:`stopping`, and wait with :meth:`pause`.
    """

    def __init__(
        self,
        name: str,
        run_once: Callable[[], float | None],
        period: float | None = None,
        retry_pause: float = 5.0,
        expected_errors: tuple[type[Exception], ...] = (),
    ) -> None:
        self._run_once = run_once
        self._period = period
        self._retry_pause = retry_pause
        self._expected_errors = expected_errors
        self._changed = threading.Condition()
        self._woken = False
        self._stopping = False
        #: The exception of the last call, None after a call without one.
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether the worker has been told to stop."""
        return self._stopping

    @property
    def alive(self) -> bool:
        """Whether the thread has been started and has not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Call ``run_once`` soon; may be called before the start, and from ``run_once`` itself."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> bool:
        """Wait within ``run_once``, whether woken or not; return at once with False when the worker is to stop."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._stopping, seconds)

    def stop(self, timeout: float | None = None) -> bool:
        """Make no further call, and wait until the one under way has ended; return whether the thread has ended.

        ``timeout`` is the most seconds to wait, None: without limit. The thread of a call that takes longer ends with
        the process. Called by ``run_once`` itself it does not wait.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def turn(self) -> float | None:
        """Call ``run_once`` in the caller's thread, and return the seconds until the next call.

        This may be the first call, made before the start.
        """
        try:
            seconds = self._run_once()
        except Exception as error:
            self._log_failure(error)
            return self._retry_pause
        if self._failure is not None:
            LOG.info("The worker %s works again", self._thread.name)
            self._failure = None
        return self._period if seconds is None else seconds

    def _log_failure(self, error: Exception) -> None:
        failure = repr(error)
        if failure == self._failure:
            return
        self._failure = failure
        if isinstance(error, self._expected_errors):
            LOG.warning("The worker %s failed and goes on: %s", self._thread.name, error)
        else:
            LOG.error("The worker %s failed and goes on", self._thread.name, exc_info=error)

    def _run(self) -> None:
        seconds = self._period
        while self._wait(seconds):
            seconds = self.turn()

    def _wait(self, seconds: float | None) -> bool:
        """Wait until the next call is due; return False when the worker is to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._woken, seconds)
            self._woken = False
            return not self._stopping
