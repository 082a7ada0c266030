# SPDX-License-Identifier: Apache-2.0
"""Probes: requests for reports, sent to backends whose figures have something to contain."""

import threading
from collections.abc import Callable, Mapping

from tonnage.extensions.cinder.ledger.probes import Probe
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger


class Prober:
    """Sends probes, at most one in ``interval`` seconds to each backend, by all schedulers together.

    ``backends`` returns the backends that are up, with their zones, and ``send`` sends a probe to one of them.
    """

    def __init__(
        self,
        ledger: CinderLedger,
        interval: float,
        backends: Callable[[], Mapping[str, str]],
        send: Callable[[Probe], None],
    ) -> None:
        self._ledger, self._interval = ledger, interval
        self._backends, self._send = backends, send
        self._requested: set[str] = set()
        self._lock = threading.Lock()

    def request(self, backend: str) -> None:
        """Let a backend be probed as soon as the interval allows, because its figures have changed."""
        with self._lock:
            self._requested.add(backend)

    def probe(self) -> None:
        """Send the probes that are due. After an error the next call sends those that are left."""
        with self._lock:
            requested = set(self._requested)
        due = requested.union(self._ledger.due(self._interval))
        if not due:
            return
        up = self._backends()
        for name in sorted(due & up.keys()):
            # Committed before it is sent: the number comes after the ends that were seen.
            probe = self._ledger.next_probe(name, self._interval)
            if probe is not None:
                self._send(probe)
                with self._lock:
                    self._requested.discard(name)
