# SPDX-License-Identifier: Apache-2.0
"""The background tasks for the claims of pods while the extender runs."""

import logging
from collections.abc import Callable

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.pod_watch import PodWatch
from tonnage.extensions.kubernetes.cluster.wake_claim import WakeClaim
from tonnage.extensions.kubernetes.fit.claim_release import ClaimReleaser
from tonnage.extensions.kubernetes.fit.room_watch import RoomWatch
from tonnage.ledger.db.database import Database
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds between two rounds, because figures may have been written, and after a failed round.
_INTERVAL_SECONDS = 1.0
_RETRY_SECONDS = 5.0
#: Seconds for which notifications are collected before a round.
_DEBOUNCE_SECONDS = 0.1


class PodClaimTasks:
    """Runs the watch on pods, and the release of claims that pods no longer need.

    When room comes, by that or otherwise, it changes the ``wake_claim``. Then kube-scheduler tries waiting pods again.
    ``on_round`` is called after each round without an error.
    """

    def __init__(
        self,
        database: Database,
        cluster: ClusterReader,
        lease: float,
        lifetime: float = 180.0,
        wake_claim: WakeClaim | None = None,
        on_round: Callable[[], None] = lambda: None,
    ) -> None:
        self._releaser = ClaimReleaser(database, cluster, lease, lifetime)
        self._watch = PodWatch(cluster.api, self._notify)
        self._worker = Worker("pod-claims", self._run_once, retry_pause=_RETRY_SECONDS)
        self._on_round = on_round
        self._wake_claim, self._room = wake_claim, RoomWatch(database)
        #: Whether room has come since the last wake that succeeded.
        self._wake_is_due = False
        self._last_failure = self._last_wake_failure = ""

    def start(self) -> None:
        """Start the threads."""
        self._watch.start()
        self._worker.start()
        self._worker.wake()

    def stop(self) -> None:
        """Stop the threads. The claims remain until they expire or the next process releases them."""
        if self._worker.alive:
            self._releaser.stop()
            self._watch.stop()
            self._worker.stop()

    def _notify(self, pod: str | None) -> None:
        self._releaser.notify(pod)
        self._worker.wake()

    def _run_once(self) -> float | None:
        """Run one round, and return the seconds to wait for the next one without a notification."""
        if not self._worker.pause(_DEBOUNCE_SECONDS):
            return None
        try:
            self._releaser.run_once()
        except errors.TonnageError as error:
            if self._last_failure != error.message:
                LOG.warning("Claims for pods cannot be released now, and end with their leases: %s", error.message)
            self._last_failure = error.message
            return _RETRY_SECONDS
        finally:
            self._wake_waiting_pods()
        self._on_round()
        self._last_failure = ""
        return _INTERVAL_SECONDS

    def _wake_waiting_pods(self) -> None:
        if self._wake_claim is None:
            return
        try:
            self._wake_is_due = self._room.has_come() or self._wake_is_due
            if self._wake_is_due:
                self._wake_claim.change()
                self._wake_is_due = False
        except errors.TonnageError as error:
            if self._last_wake_failure != error.message:
                LOG.warning("Pods that wait for room are tried late: %s", error.message)
            self._last_wake_failure = error.message
        else:
            self._last_wake_failure = ""
