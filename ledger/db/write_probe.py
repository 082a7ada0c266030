# SPDX-License-Identifier: Apache-2.0
"""Writes without effect, which show whether the ledger can be written while nothing else writes it."""

import os
import threading
import time
import uuid
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.db.db_errors import Connectivity
from tonnage.ledger.models.base import table
from tonnage.ledger.models.schedulers import WriteProbeRow

#: Seconds between two writes of a process.
INTERVAL = 5.0

#: Bytes of a row. More than fits into a page of SQLite, so that the row needs a page that the file has not used yet.
_FILLER = 5000

_ROWS = table(WriteProbeRow)


class WriteProbe:
    """Tries a write every few seconds, for all callers in this process. Threads may share it.

    ``write_once`` runs a transaction without retries; ``connectivity`` records its errors.
    """

    def __init__(
        self,
        write_once: Callable[[Callable[[orm.Session], None]], None],
        connectivity: Connectivity,
        interval: float = INTERVAL,
    ) -> None:
        self._write_once = write_once
        self._connectivity = connectivity
        self._interval = interval
        self._turn = threading.Lock()
        self._due = 0.0

    def require_writable(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.DatabaseUnreachable` if the ledger cannot be written.

        While one thread tries, and until the next write is due, the result of the last one counts.
        """
        if time.monotonic() >= self._due and self._turn.acquire(blocking=False):
            try:
                self._try()
                self._due = time.monotonic() + self._interval
            finally:
                self._turn.release()
        self._connectivity.require_usable()

    def _try(self) -> None:
        try:
            self._write_once(write)
        except errors.Unavailable:
            pass  # it is recorded; a ledger whose locks others hold can be written
        except Exception as error:  # nothing is wrong with these statements
            self._connectivity.record_refusal(error)


def write(session: orm.Session) -> None:
    """Insert a row and delete it. No other transaction waits for it, and none is waited for but on SQLite."""
    number = str(uuid.uuid4())
    session.execute(sa.insert(_ROWS).values(id=number, filler=os.urandom(_FILLER)))
    session.execute(sa.delete(_ROWS).where(_ROWS.c.id == number))
