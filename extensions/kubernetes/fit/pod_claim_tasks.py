# SPDX-License-Identifier: Apache-2.0
"""The background tasks for the claims of pods while the extender runs."""

import logging
from collections.abc import Callable

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.pod_watch import PodWatch
from tonnage.extensions.kubernetes.cluster.wake_claim import WakeClaim
from tonnage.extensions.kubernetes.cluster.watch_tasks import WatchedRounds
from tonnage.extensions.kubernetes.fit.claim_release import ClaimReleaser
from tonnage.extensions.kubernetes.fit.preemption import Nominations
from tonnage.extensions.kubernetes.fit.room_watch import RoomWatch
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Number of pods for which others are evicted that are read in a round.
_MOST_NOMINATED_PODS = 100


class PodClaimTasks(WatchedRounds):
    """Runs the watch on pods, and the release of claims that pods no longer need.

    When room comes, by that or otherwise, it changes the ``wake_claim``. Then kube-scheduler tries waiting pods again.
    So it does for pods that have a claim and do not go on. Before, it claims the storage of pods for which others are
    evicted (``nominations``). ``on_round`` is called after each round without an error. ``asks`` tells whether
    provisioners may be made to ask for their figures. When the tasks stop the claims remain until they expire or the
    next process releases them.
    """

    thread_name = "pod-claims"
    failure = "Claims for pods cannot be released now, and end with their leases"
    # Without a change, figures may have been written.
    interval, debounce = 1.0, 0.1

    def __init__(
        self,
        database: Database,
        cluster: ClusterReader,
        lease: float,
        wake_claim: WakeClaim | None = None,
        on_round: Callable[[], None] = lambda: None,
        nominations: Nominations | None = None,
        *,
        asks: bool = True,
    ) -> None:
        super().__init__()
        self._releaser = ClaimReleaser(database, cluster, lease, asks=asks)
        self._nominations = nominations
        nominated = [] if nominations is None else [nominations.expect]
        self._watch = PodWatch(cluster.api, self._notify, *nominated)
        self._on_round = on_round
        self._wake_claim, self._room = wake_claim, RoomWatch(database)
        #: Whether room has come since the last wake that succeeded.
        self._wake_is_due = False
        self._last_wake_failure = ""

    def _interrupt(self) -> None:
        self._releaser.stop()

    def _notify(self, pod: str | None) -> None:
        self._releaser.notify(pod)
        self._wake()

    def _round(self) -> None:
        try:
            if self._nominations is not None:
                self._nominations.claim(_MOST_NOMINATED_PODS)
            self._releaser.run_once()
        finally:
            self._wake_waiting_pods()
        self._on_round()

    def _wake_waiting_pods(self) -> None:
        if self._wake_claim is None:
            return
        try:
            self._wake_is_due = self._room.has_come() or self._releaser.has_idle_claims or self._wake_is_due
            if self._wake_is_due:
                self._wake_claim.change()
                self._wake_is_due = False
        except errors.TonnageError as error:
            if self._last_wake_failure != error.message:
                LOG.warning("Pods that wait for room are tried late: %s", error.message)
            self._last_wake_failure = error.message
        else:
            self._last_wake_failure = ""
