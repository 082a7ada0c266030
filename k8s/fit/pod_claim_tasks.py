# SPDX-License-Identifier: Apache-2.0
"""What looks after the claims of pods while the extender runs, on threads of its own."""

import logging
import threading

from tonnage.capacity import errors
from tonnage.k8s.cluster.cluster_reader import Cluster
from tonnage.k8s.cluster.pod_watch import PodWatch
from tonnage.k8s.fit.claim_release import Releaser
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Seconds between two looks at the ledger, for figures that have been written, and after one that failed.
_PERIOD = 1.0
_PAUSE = 5.0
#: For so many seconds news is gathered.
_GATHERED = 0.1


class PodClaims:
    """Gives back what was claimed for pods when they have their volumes, or do not need them any more."""

    def __init__(self, database: Database, cluster: Cluster, lease: float) -> None:
        self._releaser = Releaser(database, cluster, lease)
        self._watch = PodWatch(cluster.api, self._stir)
        self._woken = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-claims")
        self._told = ""

    def start(self) -> None:
        """Look after them until told to stop."""
        self._watch.start()
        self._thread.start()

    def stop(self) -> None:
        """End; what is claimed by then stays, until it ends or the next process gives it back."""
        if self._thread.is_alive():
            self._releaser.stop()
            self._ended.set()
            self._woken.set()
            self._watch.stop()
            self._thread.join()

    def _stir(self, pod: str | None) -> None:
        self._releaser.stir(pod)
        self._woken.set()

    def _run(self) -> None:
        while not self._ended.wait(_GATHERED):
            self._woken.clear()
            self._woken.wait(self._work())

    def _work(self) -> float:
        """Work once, and return how long to wait for the next time unless there is news."""
        try:
            self._releaser.work()
        except errors.TonnageError as error:
            if self._told != error.message:
                LOG.warning("Claims of pods are not given back now, and end with their leases: %s", error.message)
            self._told = error.message
            return _PAUSE
        except Exception:
            LOG.exception("Claims of pods are not given back now, and end with their leases")
            return _PAUSE
        self._told = ""
        return _PERIOD
