# SPDX-License-Identifier: Apache-2.0
"""The ledger's pools in the memory of a scheduler of Cinder."""

import pytest
import sqlalchemy as sa

from tests.unit.ledger.observed import BACKEND, POOL, Ledger
from tonnage.capacity import errors
from tonnage.extensions.cinder.pools.ledger_pools import LedgerPools
from tonnage.ledger import models
from tonnage.ledger.inventory import backends

OTHER = f"{BACKEND}#b"


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger()
    found.probe_and_report(pools=(POOL, OTHER))
    return found


@pytest.fixture
def pools(ledger: Ledger) -> LedgerPools:
    found = LedgerPools(ledger.database)
    found.refresh()
    return found


def in_flight(pools: LedgerPools, name: str = POOL) -> int:
    return pools.rows[name].counters.in_flight


def the_same_as_in(ledger: Ledger, pools: LedgerPools) -> bool:
    with ledger.database.reading() as session:
        return {row.name: row for row in backends.load_pools(session)} == dict(pools.rows)


def test_all_reported_pools_are_there(ledger: Ledger, pools: LedgerPools) -> None:
    assert pools.rows.keys() == {POOL, OTHER}
    assert the_same_as_in(ledger, pools)


def test_a_turn_applies_the_claims_of_other_schedulers(ledger: Ledger, pools: LedgerPools) -> None:
    version, _ = pools.changes(0)
    ledger.send(3)
    pools.refresh_changed()
    assert in_flight(pools) == 3
    assert pools.changes(version)[1] == {POOL}
    assert the_same_as_in(ledger, pools)


def test_a_turn_without_changes_changes_nothing(pools: LedgerPools) -> None:
    pools.refresh_changed()
    version, _ = pools.changes(0)
    pools.refresh_changed()
    assert pools.changes(version) == (version, set())


def test_a_report_is_applied_with_what_it_contains(ledger: Ledger, pools: LedgerPools) -> None:
    ledger.send(3)
    ledger.probe_and_report(5, pools=(POOL, OTHER), free=4)
    pools.refresh(())
    assert the_same_as_in(ledger, pools)


def test_a_pool_that_is_no_longer_reported_is_forgotten(ledger: Ledger, pools: LedgerPools) -> None:
    version, _ = pools.changes(0)
    ledger.probe_and_report(pools=(OTHER,))
    pools.refresh_changed()
    assert pools.rows.keys() == {OTHER}
    changed = pools.changes(version)[1]
    assert changed is not None
    assert POOL in changed


def test_a_removed_backend_is_forgotten_with_its_pools(ledger: Ledger, pools: LedgerPools) -> None:
    with ledger.database.engine.begin() as connection:
        connection.execute(sa.delete(models.Pool))
        connection.execute(sa.delete(models.Backend))
    pools.refresh_changed()
    assert not pools.rows


def test_a_noted_claim_is_seen_at_once_and_never_twice(ledger: Ledger, pools: LedgerPools) -> None:
    pools.refresh_changed()
    booking = ledger.send(3)
    pools.refresh_changed()  # another thread was faster than the note
    pools.note_claim(booking.pool_id, 3, 0)
    assert in_flight(pools) == 6
    pools.refresh_changed()
    assert in_flight(pools) == 3
    booking = ledger.send(2)
    pools.note_claim(booking.pool_id, 2, 0)
    assert in_flight(pools) == 5
    pools.refresh_changed()
    assert the_same_as_in(ledger, pools)


def test_a_claim_in_a_pool_that_is_not_known_is_left_to_the_next_turn(pools: LedgerPools) -> None:
    pools.note_claim(4711, 3, 3)
    pools.refresh_changed()
    assert in_flight(pools) == 0


def test_changes_that_are_no_longer_recorded_are_unknown(pools: LedgerPools) -> None:
    version, _ = pools.changes(0)
    for size in range(1100):
        pools.note_claim(pools.rows[POOL].id, 1 if size % 2 == 0 else -1, 0)
    assert pools.changes(version)[1] is None


def test_while_the_ledger_is_away_the_pools_stay(
    ledger: Ledger, pools: LedgerPools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**options: object) -> object:
        raise errors.Unavailable("gone")

    monkeypatch.setattr(ledger.database, "reading", away)
    for refresh in (pools.refresh_changed, pools.refresh):
        with pytest.raises(errors.Unavailable):
            refresh()
    assert pools.rows.keys() == {POOL, OTHER}
