# SPDX-License-Identifier: Apache-2.0
"""Connections to database servers that have frozen.

The kernel of a frozen server still acknowledges data and probes, so no time-out of TCP ends a connection to it.
"""

import contextlib
import logging
import os
import socket
import threading
import time
import weakref
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from tonnage.ledger.db import db_errors

LOG = logging.getLogger(__name__)

#: Key in the info of a pooled connection for the identity of its server, None if that is unknown.
SERVER = "tonnage_server"

#: Seconds after which a transaction causes a probe of the server, and seconds between two probes.
SUSPICION = 5.0

#: Seconds between two looks at the transactions.
LOOK_INTERVAL = 1.0


class ConnectionProbes:
    """Ends the connections to servers that have frozen, so that their transactions run again.

    A transaction that lasts longer than a few seconds causes a probe: a new connection. If the server does not answer
    it, or if another server has become the primary, the transaction cannot succeed any more.
    """

    def __init__(
        self,
        engine: sa.Engine,
        probe: sa.Engine,
        suspicion: float = SUSPICION,
        look_interval: float = LOOK_INTERVAL,
    ) -> None:
        """``probe`` opens connections that belong to no pool.

        A transaction is probed after ``suspicion`` seconds, and looked for every ``look_interval`` seconds.
        """
        self._engine = engine
        self._suspicion, self._look_interval = suspicion, look_interval
        self._probe = probe
        self._lock = threading.Lock()
        self._in_use: dict[int, tuple[float, Any, object]] = {}
        self._next_probe = 0.0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        event.listen(engine, "checkout", self._note_use)
        event.listen(engine, "checkin", self._note_return)

    def close(self) -> None:
        """Stop the probes."""
        self._stopping.set()

    def _note_use(self, connection: Any, record: Any, proxy: object) -> None:
        self._in_use[id(record)] = (time.monotonic(), connection, record.info.get(SERVER))
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    arguments = (weakref.ref(self), self._stopping, self._look_interval)
                    self._thread = threading.Thread(
                        target=_watch, args=arguments, name="connection-probes", daemon=True
                    )
                    self._thread.start()

    def _note_return(self, connection: Any, record: Any) -> None:
        self._in_use.pop(id(record), None)

    def check(self) -> None:
        """Probe the server if a transaction lasts long; end the connections to a server that has frozen."""
        now = time.monotonic()
        suspects = {number: use for number, use in self._in_use.copy().items() if use[0] < now - self._suspicion}
        if not suspects or now < self._next_probe:
            return
        try:
            with self._probe.connect() as connection:
                server = connection.info.get(SERVER)
        except Exception as error:
            if not db_errors.is_away(error):
                LOG.debug("A probe of the database failed: %s", db_errors.first_line(error))
                return
            reason = db_errors.first_line(error)
        else:
            suspects = {number: use for number, use in suspects.items() if use[2] != server}
            reason = "another server takes the writes"
        finally:
            self._next_probe = time.monotonic() + self._suspicion
        # Those that have been returned meanwhile did get their answer.
        frozen = [use[1] for number, use in suspects.items() if self._in_use.get(number) is use]
        if frozen:
            LOG.warning("%d connection(s) to a database server that has frozen are closed: %s", len(frozen), reason)
            self._engine.dispose()
            for frozen_connection in frozen:
                _shut_down(frozen_connection)


def _watch(reference: "weakref.ref[ConnectionProbes]", stopping: threading.Event, interval: float) -> None:
    while not stopping.wait(interval) and (watched := reference()) is not None:
        watched.check()
        del watched


def _shut_down(connection: Any) -> None:
    """Shut down the socket of a driver's connection, so that the thread that waits for an answer gets an error."""
    with contextlib.suppress(Exception):  # the connection may be closed at the same time
        number = getattr(connection, "_sock", connection).fileno()
        with socket.socket(fileno=os.dup(number)) as copy:
            copy.shutdown(socket.SHUT_RDWR)
