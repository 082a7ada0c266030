# SPDX-License-Identifier: Apache-2.0
"""The order in which a volume of Cinder is placed: claim, row, record as sent, command.

A scheduler that ends between two steps leaves a claim that is given up later, or a row in hand whose claim stays
counted. It never leaves a command without a claim.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from tonnage.extensions.cinder.ledger import observed_claims
from tonnage.ledger.claims.bookings import Booking
from tonnage.ledger.claims.request_keys import Key
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)


class Row(Protocol):
    """The row of the volume in Cinder's database."""

    def take(self, pool: str) -> bool:
        """Write the pool; return False if the row does not wait for a pool any more, and write nothing."""

    def give_back(self) -> None:
        """Let the row wait for a pool again, unless something else has changed it."""


class Superseded(Exception):
    """The volume needs no placing any more, or another scheduler does it. Nothing is to be sent."""


def place(database: Database, booking: Booking, key: Key, row: Row, send: Callable[[], None]) -> None:
    """Place a volume in the pool of a booking, and send its command.

    Raises :class:`~tonnage.ledger.claims.bookings.PoolsChanged` if the pool does not admit it: another one may, and
    :class:`Superseded` or :class:`~tonnage.extensions.cinder.ledger.observed_claims.Repeated` if it must not be placed
    at all.
    """
    claim(database, booking, key)
    if not row.take(booking.pool_name):
        database.run(observed_claims.drop, booking.id)
        raise Superseded(f"volume {booking.volume_id} does not wait for a pool any more")
    try:
        confirm_sent(database, booking)
    except Superseded:
        row.give_back()
        raise
    send()


def claim(database: Database, booking: Booking, key: Key) -> None:
    """Book a claim, as the first step of :func:`place`."""
    database.run(observed_claims.book, booking, key)


def confirm_sent(database: Database, booking: Booking) -> None:
    """Record that the command is about to be sent; raises :class:`Superseded` if the claim was given up meanwhile."""
    if not database.run(observed_claims.record_sent, booking.id):
        raise Superseded(f"the claim for volume {booking.volume_id} was given up: this scheduler stood still")
