# SPDX-License-Identifier: Apache-2.0
"""A watch on the objects of one kind in a cluster, with the official client, on a thread of its own.

The server sends each change. The next watch continues where the last one ended.
"""

import abc
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import tenacity
from kubernetes import client, watch

from tonnage.extensions.kubernetes.cluster import objects
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Timeouts in seconds: for connecting and for listing, for the length of one watch, and for the silence after which a
#: connection counts as dead.
TIMEOUT_SECONDS = 10.0
WATCH_SECONDS = 10
READ_TIMEOUT_SECONDS = WATCH_SECONDS + 5.0

#: Seconds after the last sign of the API server from which on the last state may not be the present one.
_SILENCE_SECONDS = 30.0

#: Seconds between two watches, and the largest pause between two attempts.
_MIN_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 30.0


class WatchThread(abc.ABC):
    """A thread that watches objects again and again. ``clock`` returns seconds."""

    #: The name of the thread, and the text of the log for a failed watch.
    thread_name: str
    failure: str

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard_at: float | None = None
        # Raw events: converting them to objects would take most of the time.
        self._watch = watch.Watch(return_type="object")  # type: ignore[no-untyped-call]
        self._worker = Worker(self.thread_name, self._watch_with_retries)

    @abc.abstractmethod
    def _watch_once(self) -> None:
        """Watch once, from the resource version at which the last watch ended."""

    @property
    def is_silent(self) -> bool:
        """Whether the API server has not been heard for so long that changes may be missing."""
        return self._heard_at is None or self._clock() - self._heard_at > _SILENCE_SECONDS

    def _heard(self) -> None:
        """Take note of a sign of the API server."""
        self._heard_at = self._clock()

    def start(self) -> None:
        """Start watching on a thread. Failures are retried with growing pauses."""
        self._worker.start()
        self._worker.wake()

    def stop(self) -> None:
        """Stop watching and wait for the thread."""
        while not self._worker.stop(0.1):
            # The thread may have been about to start a request.
            self._watch.stop()  # type: ignore[no-untyped-call]

    def _watch_with_retries(self) -> float:
        attempts = tenacity.Retrying(
            wait=tenacity.wait_random_exponential(multiplier=_MIN_PAUSE_SECONDS, max=_MAX_PAUSE_SECONDS),
            stop=lambda state: self._worker.stopping,
            sleep=self._pause,
            before_sleep=self._log_failure,
            retry_error_callback=lambda state: None,
        )
        attempts(self._watch_once)
        return _MIN_PAUSE_SECONDS

    def _pause(self, seconds: float) -> None:
        self._worker.pause(seconds)

    def _log_failure(self, state: tenacity.RetryCallState) -> None:
        if self._worker.stopping or state.attempt_number != 1:
            return
        error = state.outcome.exception() if state.outcome is not None else None
        reason = getattr(error, "reason", None) or error
        LOG.warning("%s: %s", self.failure, reason)


class ObjectWatch(WatchThread):
    """A watch on the objects that ``list_call`` of the client lists with ``arguments``."""

    #: The media type of the objects in events.
    event_type = "application/json"

    def __init__(
        self, list_call: Callable[..., Any], clock: Callable[[], float] = time.monotonic, **arguments: Any
    ) -> None:
        super().__init__(clock)
        self._list_call, self._arguments = list_call, arguments
        self._resource_version: str | None = None

    @abc.abstractmethod
    def _take_list(self, raw: bytes) -> str:
        """Take a list of names and labels, and return its resource version."""

    @abc.abstractmethod
    def _take_change(self, kind: str, changed: Mapping[str, Any]) -> None:
        """Take an object that was ``ADDED``, ``MODIFIED`` or ``DELETED``."""

    @abc.abstractmethod
    def _interrupted(self) -> None:
        """Take note that changes may be missed until the next list."""

    def _watch_once(self) -> None:
        try:
            self._follow()
        except Exception:
            self._interrupted()
            raise

    def _follow(self) -> None:
        if self._resource_version is None:
            self._resource_version = self._take_list(self._list())
            self._heard()
        try:
            for event in self._watch.stream(  # type: ignore[no-untyped-call]
                self._list_call,
                resource_version=self._resource_version,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_SECONDS,
                _headers={"Accept": self.event_type},
                _request_timeout=(TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS),
                **self._arguments,
            ):
                if event["type"] != "BOOKMARK":
                    self._take_change(event["type"], event["object"])
                self._resource_version = self._watch.resource_version
                self._heard()
        except client.ApiException as error:
            # Mostly 410: the server has no events since this resource version any more.
            self._resource_version = None
            if error.status != 410:
                raise
        else:
            self._heard()

    def _list(self) -> bytes:
        # With resource version 0 the API server answers from its cache.
        response: Any = self._list_call(
            resource_version="0",
            _headers={"Accept": objects.NAMES_AND_LABELS},
            _preload_content=False,
            _request_timeout=TIMEOUT_SECONDS,
            **self._arguments,
        )
        raw: bytes = response.data
        return raw
