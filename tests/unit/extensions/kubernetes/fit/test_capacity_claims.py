# SPDX-License-Identifier: Apache-2.0
"""Claims on the capacity of drivers' pools."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.extensions.kubernetes.fit.figures import GI, patch, pools, volumes
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeClaim, NodeQueries
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db import database, dialects

NODES = Nodes([Node(f"n{number}", {}) for number in range(20)])


def claim(capacity: NodeQueries, holder: str, *sizes: int, lease: float = 3600) -> NodeClaim | None:
    return capacity.claim(volumes(*sizes), NODES, holder, lease)[1]


def test_claimed_sizes_are_those_of_active_claims_and_stay_at_a_renewal(ledger: database.Database) -> None:
    patch(ledger, pools(10))
    capacity = NodeQueries(ledger)

    def claimed() -> list[tuple[Any, int]]:
        with ledger.reading() as session:
            return [(key[1], size // GI) for key, size in capacity_claims.published_bytes(session).items()]

    assert claimed() == []
    claim(capacity, "a", 2, 3)
    claim(capacity, "b", 1)
    before = claimed()
    assert before == [(("fast", "p0"), 6)]
    claim(capacity, "a", 2, 3)
    assert claimed() == before
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE csi_claims SET expires_at = '2020-01-01 00:00:00' WHERE holder = 'b'")
    assert claimed() == [(("fast", "p0"), 5)]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def shared(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[database.Database]:
    """A database for concurrent threads."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/ledger.sqlite"
    else:
        url = request.getfixturevalue(f"{request.param}_url")
    engine = database.create_engine(url, dialects.Timeouts(busy=600), pool_size=20, max_overflow=40)
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    with ledger.engine.begin() as connection:
        for table in (tables.CsiClaim, tables.CsiPool, tables.CsiStorage, tables.CsiDriver):
            connection.execute(sa.delete(table))
    ledger.close()


def test_claims_for_pods_are_renewed_and_released_by_their_expiry(
    shared: database.Database,
) -> None:
    patch(shared, pools(10))
    capacity = NodeQueries(shared)
    capacity.claim(volumes(6), NODES, "a", 60, pod="default/redis")
    capacity.claim(volumes(1), NODES, "b", 60)

    def pod_claims() -> list[capacity_claims.PodClaim]:
        with shared.reading(snapshot=True) as session:
            return capacity_claims.list_for_pods(session)

    [row] = pod_claims()
    assert (row.pod, row.claim.holder, row.claim.pool) == ("default/redis", "a", "p0")
    assert row.figures == {("fast", "p0"): capacity_claims.FiguresVersion(1, None, sizes=(10 * GI, None))}
    first = row.claim.expires_at
    later = first + datetime.timedelta(seconds=1)
    shared.run(capacity_claims.renew, "a", first, later)
    shared.run(capacity_claims.renew, "a", first, later + datetime.timedelta(seconds=1))
    assert shared.run(capacity_claims.release_unchanged, {"a": first, "none": first}) == set()
    assert [each.claim.expires_at for each in pod_claims()] == [later]
    same, old = {"capacity": "1Gi", "backingId": "disks"}, {"expiryTime": "2020-01-01T00:00:00Z"}
    slow = [{"name": "q", **same}, {"name": "old", **same, **old}, {"name": "other", "capacity": "1Gi"}]
    fast = [{"name": "p0", "backingId": "disks"}]
    both = [{"storageClassName": "fast", "pools": fast}, {"storageClassName": "slow", "pools": slow}]
    patch(shared, {"storage": both})
    assert [each.figures for each in pod_claims()] == [
        {
            ("fast", "p0"): capacity_claims.FiguresVersion(2, None, sizes=(10 * GI, None)),
            ("slow", "q"): capacity_claims.FiguresVersion(2, None, sizes=(GI, None)),
        }
    ]
    patch(shared, {"storage": [{"storageClassName": "fast", "pools": None}]})
    assert [each.figures for each in pod_claims()] == [{}]
    assert shared.run(capacity_claims.release_unchanged, {"a": later, "b": later}) == {"a"}
    assert pod_claims() == []


def test_an_expired_claim_is_not_renewed(ledger: database.Database) -> None:
    """A slow releaser would otherwise claim capacity again that others have claimed since."""
    patch(ledger, pools(10))
    node_claim = NodeQueries(ledger).claim(volumes(6), NODES, "a", 60, pod="default/redis")[1]
    assert node_claim is not None

    def end(session: orm.Session) -> datetime.datetime:
        over: datetime.datetime = capacity_claims.now(session)
        session.execute(sa.update(tables.CsiClaim).values(expires_at=over))
        return over

    over = ledger.run(end)
    ledger.run(capacity_claims.renew, "a", over, node_claim.expires_at)
    assert claim(NodeQueries(ledger), "b", 6) is not None
