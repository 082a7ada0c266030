# SPDX-License-Identifier: Apache-2.0
"""The poll of Cinder's rows: it tells the ledger of volumes that are made, changed, deleted, or made by others."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger
from tonnage.extensions.cinder.scheduler.claim_ends import VolumeRow
from tonnage.extensions.cinder.scheduler.waiting_requests import WaitingRequests

LOG = logging.getLogger(__name__)


class Rows(Protocol):
    """Cinder's database."""

    def read(self, volume_ids: Collection[str] | None = None) -> Sequence[VolumeRow]:
        """Return the live rows of all volumes, or of the volumes with these ids or in groups with these ids."""

    def snapshots_in_hand(self) -> Collection[str]:
        """Return the ids of the snapshots that are being made."""


class RowPoll:
    """Reads the rows of volumes in hand often, and the rows of all volumes now and then."""

    def __init__(
        self,
        ledger: CinderLedger,
        rows: Rows,
        waiting: WaitingRequests,
        full_interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger, self._rows, self._waiting = ledger, rows, waiting
        self._full_interval, self._clock = full_interval, clock
        self._next_full = 0.0

    def poll(self) -> None:
        """Do the poll that is due now. After an error the next poll makes up for it."""
        if self._clock() >= self._next_full:
            self.poll_all()
            self._next_full = self._clock() + self._full_interval
        else:
            self.poll_some(self._ledger.open_volumes())

    def poll_all(self) -> None:
        """Compare all rows with all claims."""
        claims = self._ledger.claims(self._ledger.claimed_volumes())
        rows = self._rows.read()
        self._ledger.settle(claims, rows, self._rows.snapshots_in_hand())
        for row, verb, request in self._waiting.overdue(claims, rows):
            LOG.warning("Volume %s: %s", row.id, request.message)
            self._ledger.undecided(row, verb, request)
        self._ledger.purge()

    def poll_some(self, volume_ids: Collection[str]) -> None:
        """Compare the rows of some volumes with their claims."""
        if volume_ids:
            claims = self._ledger.claims(volume_ids)
            self._ledger.settle(claims, self._rows.read(volume_ids), self._rows.snapshots_in_hand())
