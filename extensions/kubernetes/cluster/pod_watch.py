# SPDX-License-Identifier: Apache-2.0
"""A watch on the pending pods of a cluster, with the official client.

Few pods are pending in any cluster. A pod that starts, ends or is deleted leaves the watch, and the server sends that
as a deletion. So an event identifies the pod to check and carries no other information.
"""

import logging
from collections.abc import Callable
from typing import Any

import tenacity
from kubernetes import client, watch

from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.objects import PodList
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

_PENDING_PODS = "status.phase=Pending"

#: Timeouts in seconds: for connecting and for listing, for the length of one watch, and for the silence after which a
#: connection counts as dead. The next watch continues where the last one ended.
_TIMEOUT_SECONDS = 10.0
_WATCH_SECONDS = 60
_READ_TIMEOUT_SECONDS = _WATCH_SECONDS + 10.0

#: Seconds between two watches, and the largest pause between two attempts.
_MIN_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 30.0


class PodWatch:
    """Calls ``notify`` with ``namespace/name`` of each pod that changed, or with None if any pod may have changed."""

    def __init__(self, api: client.ApiClient, notify: Callable[[str | None], None]) -> None:
        self._core, self._notify = client.CoreV1Api(api), notify
        # Raw events: converting them to objects would take most of the time.
        self._watch = watch.Watch(return_type="object")  # type: ignore[no-untyped-call]
        self._resource_version: str | None = None
        self._worker = Worker("pod-watch", self._watch_with_retries)

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

    def _watch_once(self) -> None:
        """Watch once, from the resource version at which the last watch ended."""
        if self._resource_version is None:
            self._resource_version = self._list_version()
            self._notify(None)
        try:
            for event in self._watch.stream(  # type: ignore[no-untyped-call]
                self._core.list_pod_for_all_namespaces,
                field_selector=_PENDING_PODS,
                resource_version=self._resource_version,
                allow_watch_bookmarks=True,
                timeout_seconds=_WATCH_SECONDS,
                _request_timeout=(_TIMEOUT_SECONDS, _READ_TIMEOUT_SECONDS),
            ):
                self._handle(event)
                self._resource_version = self._watch.resource_version
        except client.ApiException as error:
            # Mostly 410: the server has no events since this resource version any more.
            self._resource_version = None
            if error.status != 410:
                raise

    def _handle(self, event: Any) -> None:
        if event["type"] != "BOOKMARK":
            metadata = event["object"]["metadata"]
            self._notify(f"{metadata['namespace']}/{metadata['name']}")

    def _list_version(self) -> str:
        # With resource version 0 the API server answers from its cache. Only the resource version of the list is
        # needed, not the pods.
        response: Any = self._core.list_pod_for_all_namespaces(
            field_selector=_PENDING_PODS,
            resource_version="0",
            _headers={"Accept": objects.NAMES_AND_LABELS},
            _preload_content=False,
            _request_timeout=_TIMEOUT_SECONDS,
        )
        return objects.decode(response.data, PodList).metadata.resource_version

    def _log_failure(self, state: tenacity.RetryCallState) -> None:
        if self._worker.stopping or state.attempt_number != 1:
            return
        error = state.outcome.exception() if state.outcome is not None else None
        reason = getattr(error, "reason", None) or error
        LOG.warning("Pods cannot be watched, so claims for pods are released late: %s", reason)
