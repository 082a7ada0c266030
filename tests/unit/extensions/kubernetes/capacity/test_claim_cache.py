# SPDX-License-Identifier: Apache-2.0
"""Claims in memory, compared with those in the ledger."""

import datetime
import random
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.extensions.kubernetes.fit.figures import DRIVER, GI, claim_for_pod, patch, pools, volumes
from tonnage.extensions.kubernetes.capacity import claim_rows, driver_rows
from tonnage.extensions.kubernetes.capacity.claim_cache import ClaimCache, ClaimedPools
from tonnage.extensions.kubernetes.capacity.pool_cache import PoolCache
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db import database

NODES = Nodes([Node(f"n{number}", {}) for number in range(3)])
HOUR = datetime.timedelta(hours=1)


class Reader:
    """A process that reads the claims of the driver again and again."""

    def __init__(self, ledger: database.Database) -> None:
        self.ledger, self.pool_cache, self.claims = ledger, PoolCache(), ClaimCache()
        #: Later than the clock of the database.
        self.ahead = datetime.timedelta(0)

    def read(self, holder: str | None = None, *names: str) -> ClaimedPools:
        with self.ledger.reading(snapshot=True) as session:
            return self.read_in(session, holder, *names)

    def read_in(self, session: orm.Session, holder: str | None = None, *names: str) -> ClaimedPools:
        states = self.pool_cache.read_states(session, [DRIVER])
        moment = claim_rows.moment(session, [states[DRIVER].columns.uid], holder)
        moment = moment._replace(now=moment.now + self.ahead)
        return self.claims.claimed_pools(session, states, moment, holder, names)[DRIVER]

    def free(self, holder: str | None = None, *names: str) -> list[int]:
        """Return what is free of each pool in GiB."""
        return [size // GI for size in self.read(holder, *names).pools.group_free.tolist()]

    @property
    def additions(self) -> int | None:
        return self.read().additions


@pytest.fixture
def reader(ledger: database.Database) -> Reader:
    """A reader that has read once: pools of 10, 20 and 30 GiB."""
    patch(ledger, pools(10, 20, 30))
    reader = Reader(ledger)
    assert reader.free() == [10, 20, 30]
    return reader


def claim(ledger: database.Database, holder: str, *sizes: int, pod: str | None = None, node: int = 0) -> None:
    only = Nodes([Node(f"n{node}", {})])
    assert NodeQueries(ledger).claim(volumes(*sizes), only, holder, 3600, pod)[1] is not None


def execute(ledger: database.Database, statement: Any) -> None:
    """Change claims as processes of the release before do, which record nothing."""
    ledger.run(lambda session: session.execute(statement))


def set_expiry(ledger: database.Database, holder: str, expires_at: datetime.datetime) -> None:
    update = sa.update(tables.CsiClaim).where(tables.CsiClaim.holder == holder)
    execute(ledger, update.values(expires_at=expires_at))


def now(ledger: database.Database) -> datetime.datetime:
    with ledger.reading() as session:
        return capacity_claims.now(session)


def test_claims_of_other_processes_are_read_once(
    ledger: database.Database, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(ledger, "a", 1, 2)
    assert reader.free() == [7, 20, 30]
    read: list[int] = []
    real = claim_rows._rows

    def rows(*arguments: Any, **parameters: Any) -> Any:
        result = real(*arguments, **parameters)
        read.append(len(result))
        return result

    monkeypatch.setattr(claim_rows, "_rows", rows)
    assert reader.free() == [7, 20, 30]
    assert read == []
    claim(ledger, "b", 4, node=1)
    read.clear()
    assert reader.free() == [7, 16, 30]
    assert read == [1]
    ledger.run(capacity_claims.release, "a")
    assert reader.free() == [10, 16, 30]
    assert reader.free("b") == [10, 20, 30]


def test_own_claims_of_a_pod_are_left_out_for_the_volumes_in_question(
    ledger: database.Database, reader: Reader
) -> None:
    claim(ledger, "a", 1, 2, pod="default/a")
    claim(ledger, "b", 4)
    assert reader.free("a", "v0") == [4, 20, 30]
    assert reader.free("a", "v0", "v1") == [6, 20, 30]
    assert reader.free("b") == [7, 20, 30]
    assert reader.free() == [3, 20, 30]


def test_additions_tell_whether_claims_were_added(ledger: database.Database, reader: Reader) -> None:
    claim(ledger, "a", 1)
    before = reader.additions
    assert before is not None
    set_expiry(ledger, "a", now(ledger) + 3 * HOUR)
    assert reader.additions == before
    ledger.run(capacity_claims.release, "a")
    assert reader.additions == before
    claim(ledger, "a", 1, 1)
    assert reader.additions == before + 2


def test_a_claim_ends_with_its_lease_unless_that_was_renewed(ledger: database.Database, reader: Reader) -> None:
    claim(ledger, "a", 1)
    claim(ledger, "b", 2)
    assert reader.free() == [7, 20, 30]
    set_expiry(ledger, "b", now(ledger) + 3 * HOUR)
    reader.ahead = 2 * HOUR
    assert (reader.free(), reader.read().has_expired) == ([8, 20, 30], True)
    before = reader.additions
    # A process of the release before revives the claim.
    set_expiry(ledger, "a", now(ledger) + 4 * HOUR)
    assert (reader.free(), reader.additions) == ([7, 20, 30], None if before is None else before + 1)
    reader.ahead = 5 * HOUR
    assert reader.free() == [10, 20, 30]
    execute(ledger, sa.delete(tables.CsiClaim))
    assert (reader.free(), reader.read().has_expired) == ([10, 20, 30], False)
    # The clock is set back.
    reader.ahead = datetime.timedelta(0)
    claim(ledger, "a", 3)
    assert reader.free() == [7, 20, 30]


def test_a_revived_claim_counts_again(ledger: database.Database, reader: Reader) -> None:
    claim(ledger, "a", 1)
    set_expiry(ledger, "a", now(ledger) - HOUR)
    fresh = Reader(ledger)
    assert fresh.free() == [10, 20, 30]
    expired = capacity_claims.Claim(
        holder="a",
        volume="v0",
        node="n0",
        driver=DRIVER,
        storage_class="fast",
        pool="p0",
        size=GI,
        expires_at=now(ledger),
    )
    assert not ledger.run(capacity_claims.revive, expired, now(ledger) + HOUR)
    with ledger.reading() as session:
        [expires_at] = session.scalars(sa.select(tables.CsiClaim.expires_at))
    unchanged = capacity_claims.Claim(
        **{name: getattr(expired, name) for name in expired.__slots__} | {"expires_at": expires_at}
    )
    assert ledger.run(capacity_claims.revive, unchanged, now(ledger) + HOUR)
    assert fresh.free() == [9, 20, 30]


def test_claims_of_the_release_before_count(ledger: database.Database, reader: Reader) -> None:
    """Its processes go on during an upgrade. They record no changes."""
    claim(ledger, "a", 1)
    claim(ledger, "b", 2)
    execute(ledger, sa.update(tables.CsiClaim).where(tables.CsiClaim.holder == "a").values(number=None))
    assert reader.free() == [7, 20, 30]
    # It makes another claim in the place of one with a number.
    change = {"number": None, "size": 5 * GI, "pool": "p1"}
    execute(ledger, sa.update(tables.CsiClaim).where(tables.CsiClaim.holder == "b").values(change))
    assert reader.free() == [9, 15, 30]
    before = reader.additions
    execute(ledger, sa.delete(tables.CsiClaim).where(tables.CsiClaim.holder == "a"))
    assert (reader.free(), reader.additions) == ([10, 15, 30], before)
    # A claim with a number that it removes counts until its lease should end.
    claim(ledger, "c", 4, node=2)
    assert reader.free() == [10, 15, 26]
    execute(ledger, sa.delete(tables.CsiClaim))
    assert reader.free() == [10, 20, 26]
    reader.ahead = 2 * HOUR
    assert reader.free() == [10, 20, 30]


def test_a_reader_that_has_missed_many_changes_reads_all_claims(
    ledger: database.Database, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_rows, "KEPT_CHANGES", 3)
    claim(ledger, "a", 1)
    assert reader.free() == [9, 20, 30]
    ledger.run(capacity_claims.release, "a")
    for number in range(4):
        claim(ledger, f"b{number}", 1, node=1)
        ledger.run(capacity_claims.release, f"b{number}")
    with ledger.reading() as session:
        assert len(session.scalars(sa.select(tables.CsiClaimEnd.number)).all()) <= 3
    assert reader.free() == [10, 20, 30]


def test_a_snapshot_from_before_the_last_read_has_the_claims_of_its_time(
    ledger: database.Database, reader: Reader
) -> None:
    claim(ledger, "a", 1)
    with ledger.reading(snapshot=True) as session:
        capacity_claims.now(session)
        session.scalars(sa.select(tables.CsiDriver.name)).all()
        claim(ledger, "b", 2)
        assert reader.free() == [7, 20, 30]
        old = reader.read_in(session)
        assert [size // GI for size in old.pools.group_free.tolist()] == [9, 20, 30]
        assert old.additions is None
    assert reader.free() == [7, 20, 30]


def test_a_driver_that_was_removed_has_no_claims(ledger: database.Database, reader: Reader) -> None:
    claim(ledger, "a", 1)
    assert reader.free() == [9, 20, 30]
    ledger.run(driver_rows.delete, DRIVER)
    patch(ledger, pools(10, 20, 30))
    assert reader.free() == [10, 20, 30]


def test_all_is_read_again_after_a_failure(
    ledger: database.Database, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(ledger, "a", 1)
    before = reader.additions
    assert before is not None
    ledger.run(capacity_claims.release, "a")
    claim(ledger, "b", 3)
    with monkeypatch.context() as patched:
        patched.setattr(claim_rows, "since", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reader.free()
    assert reader.free() == [7, 20, 30]
    # A decision from before is not taken for one on these claims.
    assert reader.additions is not None
    assert reader.additions > before


def test_claims_are_moved_from_another_driver(ledger: database.Database, reader: Reader) -> None:
    """All drivers of the holder are locked, and readers of each learn of it."""
    patch(ledger, pools(10, 20, 30), "another.example.com")
    claim(ledger, "a", 1)
    assert reader.free() == [9, 20, 30]
    another = [type(volumes(1)[0])("v0", "another.example.com", "fast", GI)]
    assert NodeQueries(ledger).claim(another, NODES, "a", 3600)[1] is not None
    assert reader.free() == [10, 20, 30]


@pytest.mark.parametrize("seed", range(8))
def test_readers_agree_with_the_ledger(ledger: database.Database, seed: int) -> None:
    """Whatever happens in between: claims, renewals, releases, leases that end, and processes of the release before."""
    lots = random.Random(seed)
    patch(ledger, pools(1000, 1000, 1000))
    readers = [Reader(ledger) for _ in range(2)]
    queries = NodeQueries(ledger)
    for _ in range(25):
        holder = f"h{lots.randrange(4)}"
        match lots.randrange(7):
            case 0 | 1 | 2:
                sizes = [lots.randint(1, 9) for _ in range(lots.randint(1, 2))]
                pod = lots.choice([None, f"default/{holder}"])
                queries.claim(volumes(*sizes), NODES, holder, lots.choice([0, 3600]), pod)
            case 3:
                ledger.run(capacity_claims.release, holder)
            case 4:
                set_expiry(ledger, holder, now(ledger) + 2 * HOUR)
            case 5:
                execute(ledger, sa.update(tables.CsiClaim).where(tables.CsiClaim.holder == holder).values(number=None))
            case _:
                patch(ledger, pools(1000, 1000, lots.randint(900, 1000)))
        if lots.random() < 0.7:
            for reader in readers[: lots.randint(1, 2)]:
                assert reader.free() == Reader(ledger).free()
    assert readers[0].free() == readers[1].free() == Reader(ledger).free()


def test_a_claim_for_a_pod_is_remembered_by_the_process_that_makes_it(ledger: database.Database) -> None:
    patch(ledger, {"storage": [{"storageClassName": "fast", "pools": [{"name": "p", "capacity": "10Gi"}]}]})
    claim_for_pod(ledger, "data")
    queries = NodeQueries(ledger)
    assert not queries._claims.has_claims("u2")
    assert queries.claim(volumes(1), NODES, "u2", 3600)[1] is not None
    assert queries._claims.has_claims("u2")
    assert queries._claims.has_claims("u1")
