# SPDX-License-Identifier: Apache-2.0
"""The steps of a placement, on the real ledger."""

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from tests.unit.ledger.observed import POOL, Ledger
from tonnage.capacity.request import Provisioning
from tonnage.extensions.cinder.ledger import observed_claims
from tonnage.extensions.cinder.ledger.observed_claims import SeenEnd
from tonnage.extensions.cinder.scheduler import placing
from tonnage.ledger import models
from tonnage.ledger.claims import bookings
from tonnage.ledger.models import claim_verbs


class Row:
    """The row of a volume; ``meanwhile`` happens right after its pool was written."""

    def __init__(self, pool: str | None = None, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.pool, self._meanwhile = pool, meanwhile

    def take(self, pool: str) -> bool:
        if self.pool is not None:
            return False
        self.pool = pool
        self._meanwhile()
        return True

    def give_back(self) -> None:
        self.pool = None


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger()
    found.probe_and_report()
    return found


def new_booking(ledger: Ledger) -> tuple[bookings.Booking, observed_claims.request_keys.Key]:
    with ledger.database.reading() as session:
        pool = session.scalars(sa.select(models.Pool)).one()
    booking = bookings.Booking(
        id=str(uuid.uuid4()), request_id="req", volume_id=str(uuid.uuid4()), verb=claim_verbs.CREATE, pool_id=pool.id,
        pool_name=POOL, backend_id=pool.backend_id, generation=0, size_gb=4, physical_gb=0, target_size_gb=4,
        provisioning=Provisioning.THIN,
    )  # fmt: skip
    return booking, observed_claims.key(booking.volume_id, claim_verbs.CREATE, "1")


def test_a_command_is_sent_after_its_claim_its_row_and_the_record(ledger: Ledger) -> None:
    booking, key = new_booking(ledger)
    row, sent = Row(), []
    placing.place(ledger.database, booking, key, row, lambda: sent.append(ledger.open_claims()))
    [[claim]] = sent
    assert (claim.volume_id, claim.pool, claim.sent, row.pool) == (booking.volume_id, POOL, True, POOL)


def test_nothing_is_sent_for_a_row_that_waits_for_no_pool(ledger: Ledger) -> None:
    booking, key = new_booking(ledger)
    sent: list[bool] = []
    with pytest.raises(placing.Superseded):
        placing.place(ledger.database, booking, key, Row("elsewhere"), lambda: sent.append(True))
    assert (sent, ledger.counters()) == ([], (0, 0))


def test_nothing_is_sent_for_a_claim_that_was_given_up(ledger: Ledger) -> None:
    booking, key = new_booking(ledger)
    row = Row(meanwhile=lambda: ledger.settle(SeenEnd(booking.id, False, kept=False)))
    sent: list[bool] = []
    with pytest.raises(placing.Superseded):
        placing.place(ledger.database, booking, key, row, lambda: sent.append(True))
    assert (sent, row.pool) == ([], None)


def test_the_row_stays_as_it_is_if_the_pool_is_full(ledger: Ledger) -> None:
    ledger.send(8)
    booking, key = new_booking(ledger)
    row = Row()
    with pytest.raises(bookings.PoolsChanged):
        placing.place(ledger.database, booking, key, row, lambda: None)
    assert row.pool is None


def test_the_second_of_two_schedulers_with_one_message_claims_nothing(ledger: Ledger) -> None:
    booking, key = new_booking(ledger)
    placing.claim(ledger.database, booking, key)
    with pytest.raises(observed_claims.Repeated):
        placing.claim(ledger.database, replace(booking, id=str(uuid.uuid4())), key)
    assert ledger.counters() == (4, 4)
