# SPDX-License-Identifier: Apache-2.0
"""Growths in the ledger: both outcomes in one transaction, and the steps of their owner."""

import uuid
from dataclasses import replace

import pytest
import sqlalchemy as sa

from tests.unit.ledger.observed import BACKEND, POOL, Ledger
from tonnage.capacity.request import Provisioning
from tonnage.extensions.cinder.ledger import growths, observed_claims
from tonnage.extensions.cinder.ledger.growths import GROW, Growth, Step
from tonnage.extensions.cinder.ledger.observed_claims import SeenEnd
from tonnage.extensions.cinder.ledger.tables import CinderGrowth
from tonnage.ledger import models
from tonnage.ledger.claims import bookings
from tonnage.ledger.models import claim_verbs
from tonnage.ledger.repair import consistency_check

OTHER = f"{BACKEND}#b"
FIRST, SECOND = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))


class Request:
    """A request to extend a volume of 2 GiB to 5 GiB, as a scheduler decides it."""

    def __init__(self, ledger: Ledger, pool: str = OTHER) -> None:
        self.database = ledger.database
        self.growth = Growth(
            id=str(uuid.uuid4()), volume_id=str(uuid.uuid4()), request_id="req", project_id="p", user_id="u",
            source=POOL, target=pool, name_id="n", size_gb=2, new_size_gb=5, reservations=("r1", "r2"),
        )  # fmt: skip
        self.growing = self._booking(POOL, claim_verbs.EXTEND, 3)
        self.moving = self._booking(pool, GROW, 5)
        self.key = observed_claims.key(self.growth.volume_id, claim_verbs.EXTEND, "req")

    def _booking(self, pool: str, verb: str, size: int) -> bookings.Booking:
        with self.database.reading() as session:
            row = session.scalars(sa.select(models.Pool).where(models.Pool.name == pool)).one()
        return bookings.Booking(
            id=self.growth.id, request_id="req", volume_id=self.growth.volume_id, verb=verb, pool_id=row.id,
            pool_name=pool, backend_id=row.backend_id, generation=int(row.generation), size_gb=size, physical_gb=0,
            target_size_gb=5, provisioning=Provisioning.THIN,
        )  # fmt: skip

    def book(self) -> bool:
        return self.database.run(growths.book, self.growth, self.growing, self.moving, self.key, FIRST)

    def record(self, step: Step, owner: str = FIRST, reason: str = "", growth: Growth | None = None) -> Growth | None:
        return self.database.run(growths.record, growth or self.stored(), owner, step, reason)

    def renew(self, growth: Growth, owner: str = FIRST) -> bool:
        return self.database.run(growths.renew, growth, owner)

    def end(self, growth: Growth, owner: str = FIRST) -> bool:
        return self.database.run(growths.end, growth, owner)

    def stored(self) -> Growth:
        """Return the growth as it was booked, with the time of its record."""
        with self.database.reading() as session:
            row = session.get(CinderGrowth, self.growth.id)
        assert row is not None
        return replace(self.growth, changed_at=row.changed_at)

    def of(self, owner: str, lease: float = 60.0) -> list[Growth]:
        return self.database.run(growths.take_over, owner, lease)

    def exists(self) -> bool:
        with self.database.reading() as session:
            return growths.exist(session)


@pytest.fixture
def ledger() -> Ledger:
    """Two pools of 10 GiB, with 8 GiB in the first."""
    ledger = Ledger()
    ledger.probe_and_report(pools=(POOL, OTHER))
    ledger.send(8)
    return ledger


def claims(ledger: Ledger) -> list[tuple[str, str, int, bool]]:
    return [(claim.verb, claim.pool, claim.size_gb, claim.sent) for claim in ledger.open_claims()][1:]


def test_a_volume_moves_if_its_own_pool_is_too_small(ledger: Ledger) -> None:
    request = Request(ledger)
    assert not request.exists()
    assert request.book()
    assert claims(ledger) == [(GROW, OTHER, 5, False)]
    assert (ledger.counters(POOL), ledger.counters(OTHER)) == ((8, 8), (5, 5))
    [growth] = request.of(FIRST)
    assert growth.changed_at is not None
    assert replace(growth, age=0.0, changed_at=None) == request.growth
    assert request.exists()


def test_a_volume_stays_if_its_own_pool_has_got_room_by_then(ledger: Ledger) -> None:
    request = Request(ledger)
    request.growing = replace(request.growing, size_gb=2)
    assert not request.book()
    assert claims(ledger) == [(claim_verbs.EXTEND, POOL, 2, False)]
    assert (ledger.counters(POOL), ledger.counters(OTHER), request.exists()) == ((10, 10), (0, 0), False)


def test_nothing_is_booked_if_neither_pool_has_room(ledger: Ledger) -> None:
    request = Request(ledger)
    request.moving = replace(request.moving, size_gb=11)
    with pytest.raises(bookings.PoolsChanged) as refused:
        request.book()
    assert refused.value.pool_ids == {request.moving.pool_id}
    assert (claims(ledger), request.exists()) == ([], False)
    assert (ledger.counters(POOL), ledger.counters(OTHER)) == ((8, 8), (0, 0))
    request.moving = replace(request.moving, size_gb=5)
    assert request.book()


def test_nothing_is_booked_if_the_own_pool_is_not_what_the_decision_saw(ledger: Ledger) -> None:
    request = Request(ledger)
    request.growing = replace(request.growing, generation=request.growing.generation + 1)
    with pytest.raises(bookings.PoolsChanged) as refused:
        request.book()
    assert refused.value.pool_ids == {request.growing.pool_id}
    request = Request(ledger)
    ledger.probe_and_report(8, pools=(OTHER,))
    with pytest.raises(bookings.PoolsChanged):
        request.book()


@pytest.mark.parametrize("size", [2, 3])
def test_a_message_that_is_delivered_again_books_nothing(ledger: Ledger, size: int) -> None:
    request = Request(ledger)
    request.growing = replace(request.growing, size_gb=size)
    moves = request.book()
    assert request.book() is moves  # the same transaction again, whose commit got no answer
    later = Request(ledger)
    later.key = request.key
    with pytest.raises(observed_claims.Repeated):
        later.book()
    assert len(claims(ledger)) == 1


def test_another_scheduler_takes_over_what_its_owner_has_left(ledger: Ledger) -> None:
    request = Request(ledger)
    request.book()
    assert request.of(SECOND) == []
    [growth] = request.of(SECOND, lease=-1.0)
    assert growth.volume_id == request.growth.volume_id
    assert request.of(FIRST) == []
    assert not request.record(Step.MOVING, FIRST)


def test_a_step_is_recorded_once_and_by_the_owner(ledger: Ledger) -> None:
    request = Request(ledger)
    request.book()
    claimed = request.stored()
    assert not request.record(Step.UNDOING, SECOND)
    recorded = request.record(Step.UNDOING, reason="r")
    assert not request.record(Step.UNDOING, growth=claimed)
    [growth] = request.of(FIRST)
    assert (growth.step, growth.reason) == (Step.UNDOING, "r")
    assert replace(growth, age=0.0) == recorded


def test_an_owner_that_was_frozen_learns_that_a_growth_is_not_its_own(ledger: Ledger) -> None:
    request = Request(ledger)
    request.book()
    growth = request.stored()
    assert request.renew(growth)
    assert not request.renew(growth, SECOND)
    [taken] = request.of(SECOND, lease=-1.0)
    assert not request.renew(growth)
    assert not request.end(growth)
    assert request.renew(taken, SECOND)
    assert request.exists()


def test_an_owner_that_was_frozen_learns_that_its_step_was_taken_again(ledger: Ledger) -> None:
    """Another scheduler has recorded the same step, and died."""
    request = Request(ledger)
    request.book()
    earlier = request.record(Step.EXTENDING)
    assert earlier is not None
    [taken] = request.of(SECOND, lease=-1.0)
    later = request.record(Step.EXTENDING, SECOND, growth=taken)
    assert later is not None
    [back] = request.of(FIRST, lease=-1.0)
    assert back.changed_at == later.changed_at != earlier.changed_at
    assert not request.renew(earlier)
    assert not request.record(Step.UNDOING, growth=earlier)
    assert request.renew(back)


def test_a_renewed_growth_is_not_taken_over(ledger: Ledger) -> None:
    request = Request(ledger)
    request.book()
    with ledger.database.reading() as session:
        [booked] = session.scalars(sa.select(CinderGrowth.renewed_at))
    assert request.renew(request.stored())
    with ledger.database.reading() as session:
        [renewed] = session.scalars(sa.select(CinderGrowth.renewed_at))
    assert renewed > booked


def test_a_move_begins_with_a_claim_that_is_sent(ledger: Ledger) -> None:
    request = Request(ledger)
    request.book()
    assert request.record(Step.MOVING)
    assert claims(ledger) == [(GROW, OTHER, 5, True)]
    assert [str(finding) for finding in consistency_check.check(ledger.database).drift] == []
    given_up = Request(ledger)
    given_up.book()
    ledger.settle(SeenEnd(given_up.growth.id, False, kept=False, deleted=True))
    assert not given_up.record(Step.MOVING)


def test_after_its_end_the_claim_is_that_of_a_migration(ledger: Ledger) -> None:
    request = Request(ledger)
    request.book()
    recorded = request.record(Step.MOVING)
    assert recorded is not None
    assert request.end(recorded)
    assert claims(ledger) == [(claim_verbs.MIGRATE, OTHER, 5, True)]
    assert [str(finding) for finding in consistency_check.check(ledger.database).drift] == []
    assert not request.exists()
