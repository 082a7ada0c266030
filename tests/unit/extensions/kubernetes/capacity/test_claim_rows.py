# SPDX-License-Identifier: Apache-2.0
"""The rows of claims: all of them, and those that have changed since a number."""

import sqlalchemy as sa

from tests.unit.extensions.kubernetes.fit.figures import DRIVER, GI, patch, pools, volumes
from tonnage.extensions.kubernetes.capacity import claim_rows
from tonnage.extensions.kubernetes.capacity.claim_rows import ClaimEnd
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db import database


def claim(ledger: database.Database, holder: str, *sizes: int) -> None:
    assert NodeQueries(ledger).claim(volumes(*sizes), Nodes([Node("n0", {})]), holder, 3600)[1] is not None


def test_changes_have_the_numbers_of_their_driver(ledger: database.Database) -> None:
    patch(ledger, pools(30))
    claim(ledger, "a", 1, 2)
    claim(ledger, "b", 3)
    claim(ledger, "a", 4)
    ledger.run(capacity_claims.release, "b")
    with ledger.reading() as session:
        uid = session.scalar(sa.select(tables.CsiDriver.uid).where(tables.CsiDriver.name == DRIVER))
        assert uid is not None
        rows = claim_rows.on_driver(session, uid)
        assert [(row.holder, row.number) for row in rows] == [("a", 3)]
        assert rows[0].claim == ActiveClaim(("fast", "p0"), 4 * GI, None, 30 * GI)
        made, ends = claim_rows.since(session, uid, 1)
        assert [row.number for row in made] == [3]
        assert sorted(ends, key=lambda end: (end.number, end.volume)) == [
            ClaimEnd("a", "v0", 3),
            ClaimEnd("a", "v1", 3),
            ClaimEnd("b", "v0", 4),
        ]
        assert claim_rows.since(session, uid, 4) == ([], [])
        assert [row.volume for row in claim_rows.of_holders(session, uid, ["a", "b"])] == ["v0"]
        assert claim_rows.without_number(session, uid) == []


def test_a_moment_tells_of_claims_of_the_holder_and_of_the_release_before(ledger: database.Database) -> None:
    patch(ledger, pools(30))
    claim(ledger, "a", 1)

    def flags(holder: str | None) -> tuple[bool, bool]:
        with ledger.reading() as session:
            uids = list(session.scalars(sa.select(tables.CsiDriver.uid)))
            moment = claim_rows.moment(session, uids, holder)
            assert moment.now <= capacity_claims.now(session)
            assert not claim_rows.moment(session, [], holder).has_unnumbered
            return moment.has_claims, moment.has_unnumbered

    assert (flags("a"), flags("b"), flags(None)) == ((True, False), (False, False), (False, False))
    ledger.run(lambda session: session.execute(sa.update(tables.CsiClaim).values(number=None)))
    assert flags("b") == (False, True)
