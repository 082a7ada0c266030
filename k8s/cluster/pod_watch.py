# SPDX-License-Identifier: Apache-2.0
"""A watch on the pods that have not all they need yet, with the official client.

Only pods that are pending are watched, which are few in any cluster: one that has begun or ended, or is gone, leaves
them, and the server tells that like a deletion. So an event says which pod to look at and no more.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

import tenacity
from kubernetes import client, watch

from tonnage.k8s.cluster import objects
from tonnage.k8s.cluster.objects import PodList

LOG = logging.getLogger(__name__)

_PENDING = "status.phase=Pending"

#: Seconds that a server gets to accept a connection and to list, and after which it ends a watch. The next one begins
#: where that has ended. On a connection that says nothing for longer nobody is there any more.
_PATIENCE = 10.0
_PERIOD = 60
_SILENCE = _PERIOD + 10.0

#: Seconds between two watches, and between two attempts at most.
_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


class PodWatch:
    """Calls ``stir`` with each pod, ``namespace/name``, of which something is new; with None, if it may be any."""

    def __init__(self, api: client.ApiClient, stir: Callable[[str | None], None]) -> None:
        self._core, self._stir = client.CoreV1Api(api), stir
        # Events as they are: most of the time would go into making objects of them.
        self._watch = watch.Watch(return_type="object")  # type: ignore[no-untyped-call]
        self._version: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-watch")

    def start(self) -> None:
        """Watch until told to end. What fails is tried again, with growing pauses."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ended.set()
        while self._thread.is_alive():
            # It may have been about to ask.
            self._watch.stop()  # type: ignore[no-untyped-call]
            self._thread.join(0.1)

    def _run(self) -> None:
        attempts = tenacity.Retrying(
            wait=tenacity.wait_random_exponential(multiplier=_PAUSE, max=_LONGEST_PAUSE),
            stop=tenacity.stop_when_event_set(self._ended),
            sleep=tenacity.sleep_using_event(self._ended),
            before_sleep=self._complain,
            retry_error_callback=lambda state: None,
        )
        attempts(self._once)
        while not self._ended.wait(_PAUSE):
            attempts(self._once)

    def _once(self) -> None:
        """Watch once, from where the last watch has ended."""
        if self._version is None:
            self._version = self._listed()
            self._stir(None)
        try:
            for event in self._watch.stream(  # type: ignore[no-untyped-call]
                self._core.list_pod_for_all_namespaces,
                field_selector=_PENDING,
                resource_version=self._version,
                allow_watch_bookmarks=True,
                timeout_seconds=_PERIOD,
                _request_timeout=(_PATIENCE, _SILENCE),
            ):
                self._take(event)
                self._version = self._watch.resource_version
        except client.ApiException as error:
            # Mostly 410: what was since has been forgotten.
            self._version = None
            if error.status != 410:
                raise

    def _take(self, event: Any) -> None:
        if event["type"] != "BOOKMARK":
            metadata = event["object"]["metadata"]
            self._stir(f"{metadata['namespace']}/{metadata['name']}")

    def _listed(self) -> str:
        # A resource version of 0 lets the server answer from its memory. The version of the list is wanted, and nothing
        # of the pods.
        found: Any = self._core.list_pod_for_all_namespaces(
            field_selector=_PENDING,
            resource_version="0",
            _headers={"Accept": objects.NAMES_AND_LABELS},
            _preload_content=False,
            _request_timeout=_PATIENCE,
        )
        return objects.decode(found.data, PodList).metadata.resource_version

    def _complain(self, state: tenacity.RetryCallState) -> None:
        if self._ended.is_set() or state.attempt_number != 1:
            return
        error = state.outcome.exception() if state.outcome is not None else None
        reason = getattr(error, "reason", None) or error
        LOG.warning("Pods cannot be watched, so what is held for them is given back later than it could be: %s", reason)
