# SPDX-License-Identifier: Apache-2.0
"""Claims on backends without agents, step by step."""

import uuid

import pytest
import sqlalchemy as sa

from tests.unit.ledger.observed import POOL, Ledger
from tonnage.capacity import errors
from tonnage.extensions.cinder.ledger import observed_claims
from tonnage.extensions.cinder.ledger.observed_claims import SeenEnd, SeenVolume
from tonnage.ledger import models
from tonnage.ledger.claims import bookings
from tonnage.ledger.inventory import backends, capacity_figures
from tonnage.ledger.locks import ledger_identity
from tonnage.ledger.repair import consistency_check


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger()
    found.probe_and_report()
    return found


def adopt(ledger: Ledger, size: int, volume_id: str | None = None, *, ended: bool = True) -> str:
    volume_id = volume_id or str(uuid.uuid4())
    ledger.settle(found=[SeenVolume(volume_id=volume_id, pool=POOL, size_gb=size, ended=ended)])
    return volume_id


def test_a_pool_takes_what_fits_and_no_more(ledger: Ledger) -> None:
    ledger.book(6)
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(5)
    ledger.book(4)
    assert ledger.counters() == (10, 10)


@pytest.mark.parametrize(("free", "provisioned", "fits"), [(10, 4, 6), (3, 0, 3)])
def test_thick_volumes_need_free_capacity_and_a_place_within_the_limit(free: int, provisioned: int, fits: int) -> None:
    ledger = Ledger(thick=True)
    ledger.probe_and_report(provisioned, free=free)
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(fits + 1)
    ledger.book(fits)
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(1)


def test_without_provisioned_capacity_the_sum_of_the_volumes_counts(ledger: Ledger) -> None:
    ledger.probe_and_report(None)
    volume = adopt(ledger, 7)
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(4)
    [claim] = ledger.open_claims()
    ledger.settle(SeenEnd(claim.id, True, kept=False, deleted=True))
    assert (claim.volume_id, ledger.counters()[0]) == (volume, 0)
    ledger.book(10)


def test_the_message_of_an_attempt_that_is_delivered_again_claims_nothing(ledger: Ledger) -> None:
    first = ledger.book(2)
    with pytest.raises(observed_claims.Repeated):
        ledger.book(2, first.volume_id)
    assert ledger.counters() == (2, 2)
    ledger.book(2, first.volume_id, occasion="2")
    assert ledger.counters() == (4, 4)


def test_a_claim_whose_commit_got_no_answer_is_booked_once(ledger: Ledger) -> None:
    booking = ledger.book(2)
    ledger.database.run(observed_claims.book, booking, observed_claims.key(booking.volume_id, "create", "1"))
    assert ledger.counters() == (2, 2)


@pytest.mark.parametrize("size", [0, 2])
def test_a_ledger_whose_copy_is_used_takes_no_claim(ledger: Ledger, size: int) -> None:
    rules = {"id": 1, "default_ratio": "1.0", "calculation": "cinder", "generation": 0}
    ledger.database.run(lambda session: session.execute(sa.insert(models.Rules), rules))
    ledger.database.run(ledger_identity.set_copy, "elsewhere")
    with pytest.raises(errors.LedgerMoved):
        ledger.book(size)
    ledger.database.run(ledger_identity.set_copy, None)
    ledger.book(size)


def test_a_claim_is_sent_once(ledger: Ledger) -> None:
    claim = ledger.book(2)
    assert ledger.record_sent(claim.id)
    assert not ledger.record_sent(claim.id)


def test_a_claim_that_was_given_up_is_not_sent(ledger: Ledger) -> None:
    claim = ledger.book(2)
    ledger.settle(SeenEnd(claim.id, False, kept=False))
    assert ledger.counters() == (0, 0)
    assert not ledger.record_sent(claim.id)


def test_a_claim_that_has_ended_is_not_sent(ledger: Ledger) -> None:
    claim = ledger.book(2)
    ledger.settle(SeenEnd(claim.id, False, kept=True))
    assert not ledger.record_sent(claim.id)


def test_a_claim_that_was_sent_since_its_row_was_read_stays(ledger: Ledger) -> None:
    claim = ledger.send(2)
    ledger.settle(SeenEnd(claim.id, False, kept=False))
    assert ledger.counters() == (2, 2)


def test_a_claim_is_dropped_unless_it_was_sent(ledger: Ledger) -> None:
    dropped, sent = ledger.book(2), ledger.send(3)
    for claim in (dropped, sent):
        ledger.database.run(observed_claims.drop, claim.id)
    assert ledger.counters() == (3, 3)


def test_a_claim_that_was_sent_stays_in_flight_after_its_end(ledger: Ledger) -> None:
    claim = ledger.send(2)
    ledger.settle(SeenEnd(claim.id, True, kept=False))
    assert ledger.counters() == (0, 2)
    ledger.probe_and_report()
    assert ledger.counters() == (0, 0)


def test_a_volume_that_others_made_is_adopted_with_what_its_claims_lack(ledger: Ledger) -> None:
    volume = adopt(ledger, 3)
    assert ledger.counters() == (3, 3)
    adopt(ledger, 3, volume)
    assert ledger.counters() == (3, 3)
    adopt(ledger, 5, volume)
    assert ledger.counters() == (5, 5)
    ledger.probe_and_report(5)
    assert ledger.counters() == (5, 0)


def test_a_volume_in_hand_that_others_make_stays_in_flight(ledger: Ledger) -> None:
    adopt(ledger, 3, ended=False)
    ledger.probe_and_report(0)
    assert ledger.counters() == (3, 3)


def test_nothing_fits_in_a_pool_that_is_only_known_from_rows() -> None:
    ledger = Ledger()
    ledger.database.run(observed_claims.insert_pools, {POOL: 1})
    ledger.database.run(observed_claims.insert_pools, {POOL: 1})
    adopt(ledger, 3)
    assert ledger.counters() == (3, 3)
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(1)
    ledger.probe_and_report(3)
    assert ledger.counters() == (3, 0)
    ledger.book(7)


def test_the_core_counts_what_the_extension_has_claimed_while_it_is_disabled(ledger: Ledger) -> None:
    """The claims are rows of the core, and nothing but an end takes them out of its counters."""
    adopt(ledger, 3)
    ledger.send(2)
    with ledger.database.reading() as session:
        [pool] = backends.load_pools(session)
        [figures] = capacity_figures.pools(session)
    assert (pool.counters.allocated, figures.allocated_gb, figures.in_flight_gb) == (5, 5, ledger.counters()[1])
    assert [str(finding) for finding in consistency_check.check(ledger.database).drift] == []
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(6)
