# SPDX-License-Identifier: Apache-2.0
"""Galera clusters: all processes write the ledger through the same node.

A Galera node does not know the locks that a transaction at another node holds, only the rows that it writes. The ledger
relies on both. So its transactions run at one node, the writer, where they meet each other's locks as on a single
server. The table ``writer_slots`` names the writer and a number, the term, which grows with each change of the writer.

* A transaction begins by reading a slot. If it is not at the writer, it does not run.
* Before it commits it updates the slot, on condition that term and writer have not changed. So it conflicts with a
  change of the writer, which updates all slots: either it precedes the change in the order of the cluster, or it fails.
  There are several slots, so that transactions do not wait for each other.
* The new writer has applied all earlier transactions when it commits the change, and its own transactions read a slot
  with its name only after that.

A process whose node is not the writer takes over when the writer has not been used for some seconds.
"""

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.db import db_errors, dialects
from tonnage.ledger.models.base import table
from tonnage.ledger.models.schedulers import WriterSlot

LOG = logging.getLogger(__name__)

#: Seconds without a transaction at the writer after which another node may become the writer.
PATIENCE = 3.0

#: The number of slots.
SLOTS = 16

#: The key of ``Connection.info`` that tells whether the server is a node of Galera.
IS_NODE = "tonnage_galera_node"

_SLOT = table(WriterSlot)

#: The name of the node that executes the statement.
_HERE: sa.ColumnElement[str] = sa.literal_column("CONCAT(@@wsrep_node_name, ' (', @@hostname, ':', @@port, ')')")

_FIND = sa.select(_HERE, _SLOT.c.term, _SLOT.c.node).select_from(
    sa.select(sa.literal_column("1")).subquery("here").outerjoin(_SLOT, _SLOT.c.slot == sa.bindparam("of"))
)
_USE = (
    sa.update(_SLOT)
    .where(_SLOT.c.slot == sa.bindparam("of"), _SLOT.c.term == sa.bindparam("in_term"), _SLOT.c.node == _HERE)
    .values(uses=_SLOT.c.uses + 1)
)
_USES = sa.select(sa.func.sum(_SLOT.c.uses))
_TAKE_OVER = sa.update(_SLOT).where(_SLOT.c.term == sa.bindparam("in_term")).values(term=_SLOT.c.term + 1, node=_HERE)
_BEGIN = sa.insert(_SLOT).prefix_with("IGNORE").values(slot=sa.bindparam("of"), term=1, uses=0, node=_HERE)


class Term(NamedTuple):
    """The term in which a transaction runs, and the slot that it uses."""

    slot: int
    number: int


class OtherWriter(dialects.ReadOnlyServer):
    """The connection leads to another node than the writer. ``term`` is that of the writer, None if there is none.

    ``unused`` tells whether the writer has not been used for :data:`PATIENCE` seconds.
    """

    def __init__(self, here: str, writer: str | None, term: int | None, unused: bool) -> None:
        super().__init__(
            f"the ledger is written through Galera node {writer}, and this connection leads to {here}: "
            "[database] connection has to lead all processes to the same node, as a proxy with one active server does"
        )
        self.here, self.writer, self.term, self.unused = here, writer, term, unused


def note_node(connection: Any, record: Any) -> None:
    """Record whether a new connection of MySQL or MariaDB leads to a node of Galera."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
        row = cursor.fetchone()
    record.info[IS_NODE] = row is not None and row[1] == "ON"


class Writer:
    """The writer of the ledger as one process sees it. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turns = itertools.count(os.getpid())
        self._lock = threading.Lock()
        self._last_use: tuple[int | None, int] = (None, -1)
        self._last_use_at = 0.0

    def enter(self, session: orm.Session) -> Term | OtherWriter | None:
        """Begin a transaction; return its term, or None if the server is no node of Galera.

        If the connection leads to another node than the writer, return the error.
        """
        connection = session.connection()
        if not connection.info.get(IS_NODE):
            return None
        slot = next(self._turns) % SLOTS
        here, term, node = connection.execute(_FIND, {"of": slot}).one()
        if node == here:
            return Term(slot, term)
        uses = connection.execute(_USES).scalar() if node else 0
        return OtherWriter(here, node, term, node is None or self._is_unused(term, int(uses or 0)))

    @staticmethod
    def confirm(session: orm.Session, term: Term) -> None:
        """End a transaction. Raises :class:`~tonnage.ledger.db.db_errors.Collision` if the writer has changed."""
        session.flush()
        result = session.connection().execute(_USE, {"of": term.slot, "in_term": term.number})
        if not result.rowcount:
            raise db_errors.Collision("the ledger is written through another Galera node now")

    @staticmethod
    def take_over(session: orm.Session, other: OtherWriter) -> None:
        """Make the node of this connection the writer.

        Raises :class:`~tonnage.ledger.db.db_errors.Collision` if another process has changed the writer.
        """
        connection = session.connection()
        if other.term is None:
            connection.execute(_BEGIN, [{"of": slot} for slot in range(SLOTS)])
        elif connection.execute(_TAKE_OVER, {"in_term": other.term}).rowcount != SLOTS:
            raise db_errors.Collision("another process has changed the writer")

    def _is_unused(self, term: int, uses: int) -> bool:
        now = self._clock()
        with self._lock:
            if (term, uses) != self._last_use:
                self._last_use, self._last_use_at = (term, uses), now
            return now - self._last_use_at >= PATIENCE
