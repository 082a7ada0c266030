# SPDX-License-Identifier: Apache-2.0
"""Queries and claims: capacity that is claimed is unavailable to others until it is released."""

import datetime
import logging
import threading
from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.extensions.kubernetes.fit.figures import DRIVER, GI, patch, pools, volumes
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.capacity.pool_cache import PoolCache
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims, node_decision, node_queries
from tonnage.extensions.kubernetes.fit.node_queries import NodeClaim, NodeQueries
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db import database, dialects

NODES = Nodes([Node(f"n{number}", {}) for number in range(20)])


def claim(capacity: NodeQueries, holder: str, *sizes: int, lease: float = 3600) -> NodeClaim | None:
    return capacity.claim(volumes(*sizes), NODES, holder, lease)[1]


def test_claimed_capacity_is_unavailable_until_released(ledger: database.Database) -> None:
    patch(ledger, pools(10, 4))
    capacity = NodeQueries(ledger)
    first = claim(capacity, "a", 6)
    assert first is not None
    assert (first.node, [place.pool for place in first.placements]) == ("n0", [("fast", "p0")])
    assert claim(capacity, "b", 6) is None
    renewed = claim(capacity, "a", 6)
    assert renewed is not None
    assert renewed.expires_at > first.expires_at
    assert capacity.decide(volumes(6), NODES).fitting_nodes() == []
    assert capacity.decide(volumes(6), NODES, "a").fitting_nodes() == [0]
    with ledger.reading() as session:
        [kept] = capacity_claims.list_for_holder(session, "a")
    assert (kept.node, kept.driver, kept.pool, kept.size) == ("n0", DRIVER, "p0", 6 * GI)
    capacity.release("a")
    assert claim(capacity, "b", 6) is not None


def test_a_claim_expires_with_its_lease(ledger: database.Database) -> None:
    patch(ledger, pools(10))
    capacity = NodeQueries(ledger)
    assert claim(capacity, "a", 6, lease=0) is not None
    assert claim(capacity, "b", 6) is not None
    with ledger.reading() as session:
        assert session.scalars(sa.select(tables.CsiClaim.holder)).all() == ["b"]
        assert capacity_claims.list_for_holder(session, "a") == []


def test_a_claim_on_a_removed_pool_counts_on_the_same_disks(
    ledger: database.Database,
) -> None:
    def write_pools(kind: str, *listed: dict[str, Any]) -> None:
        patch(ledger, {"storage": [{"storageClassName": kind, "pools": listed}]})

    write_pools("fast", {"name": "p", "capacity": "100Gi", "backingId": "disks"})
    # The capacity of mirrored volumes is half as large.
    write_pools("safe", {"name": "m", "capacity": "50Gi", "backingId": "disks"})
    capacity = NodeQueries(ledger)
    assert claim(capacity, "a", 50) is not None
    write_pools("fast", {"name": "p", "$patch": "delete"})

    def fits(size: int) -> bool:
        return bool(capacity.decide([Volume("v", DRIVER, "safe", size * GI)], NODES).fitting_nodes())

    assert (fits(25), fits(26)) == (True, False)
    write_pools("fast", {"name": "p", "capacity": "100Gi", "backingId": "disks"})
    assert (fits(25), fits(26)) == (True, False)


def test_a_driver_that_appears_after_locking_is_not_used(
    ledger: database.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PoolCache.read_states

    def read_states(self: PoolCache, session: orm.Session, names: Iterable[str], *, lock: bool = False) -> Any:
        columns_by_driver = real(self, session, names, lock=lock)
        if lock:
            monkeypatch.undo()
            assert columns_by_driver == {}
            raw = {"spec": {"capacityTracking": True}, "status": pools(10)}
            driver_rows.patch(
                session, DRIVER, type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
            )
        return columns_by_driver

    monkeypatch.setattr(PoolCache, "read_states", read_states)
    node_claim = claim(NodeQueries(ledger), "a", 6)
    assert node_claim is not None
    assert node_claim.placements == ()


def test_the_emptiest_node_is_chosen_and_new_figures_apply_at_once(ledger: database.Database) -> None:
    patch(ledger, pools(10, 20))
    capacity = NodeQueries(ledger)
    assert claim(capacity, "a", 8) is not None
    patch(ledger, pools(5, 9, 9))
    decision = capacity.decide(volumes(8), NODES)
    assert [NODES.names[row] for row in decision.fitting_nodes()] == ["n2"]
    patch(ledger, {"storage": [{"storageClassName": "fast", "pools": [{"name": "p2", "capacity": "7Gi"}]}]})
    assert capacity.decide(volumes(8), NODES).fitting_nodes() == []
    ledger.run(driver_rows.delete, DRIVER)
    assert len(capacity.decide(volumes(8), NODES).fitting_nodes()) == 20
    patch(ledger, pools(8))
    assert capacity.decide(volumes(8), NODES).fitting_nodes() == [0]


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of volumes of each decision."""
    counted: list[int] = []
    real = node_decision.decide

    def decide(columns: Any, claimed: Any, now: int, decided: Any, *arguments: Any) -> Any:
        counted.append(len(decided))
        return real(columns, claimed, now, decided, *arguments)

    monkeypatch.setattr(node_decision, "decide", decide)
    return counted


@pytest.mark.parametrize(
    ("change", "again"), [("renewed", False), ("released", False), ("ended", False), ("added", True), ("revived", True)]
)
def test_a_node_is_chosen_again_only_if_claims_were_added(
    ledger: database.Database, monkeypatch: pytest.MonkeyPatch, decisions: list[int], change: str, again: bool
) -> None:
    """Another pod's claim changes between a decision and the lock for its claim."""
    patch(ledger, pools(10, 10))
    capacity, hour = NodeQueries(ledger), datetime.timedelta(hours=1)
    for holder in ("b", "c"):
        assert capacity.claim(volumes(1), NODES, holder, 600, pod=f"default/{holder}")[1] is not None

    def set_expiry(later: datetime.timedelta) -> None:
        ledger.run(
            lambda session: session.execute(
                sa.update(tables.CsiClaim)
                .where(tables.CsiClaim.holder == "b")
                .values(expires_at=capacity_claims.now(session) + later)
            )
        )

    if change == "revived":
        set_expiry(-hour)
    capacity = NodeQueries(ledger)
    real = capacity._decide_unlocked

    def decide_unlocked(*arguments: Any) -> Any:
        decided = real(*arguments)
        if change == "added":
            other = NodeQueries(ledger)
            assert other.claim(volumes(1), NODES, "d", 600, pod="default/d")[1] is not None
        elif change == "released":
            capacity.release("b")
        else:
            set_expiry(-hour if change == "ended" else hour)
        decisions.clear()
        return decided

    monkeypatch.setattr(capacity, "_decide_unlocked", decide_unlocked)
    assert capacity.claim(volumes(6, 1), NODES, "a", 600, pod="default/a")[1] is not None
    assert decisions == ([2] if again else [])


@pytest.fixture
def recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of the last claim are always recent."""
    monkeypatch.setattr(node_queries, "_RECENT_SECONDS", 3600.0)


def refuse_to_read(capacity: NodeQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let decisions fail that read data without a lock."""

    def decide_unlocked(*arguments: Any) -> Any:
        raise AssertionError("the data are read twice")

    monkeypatch.setattr(capacity, "_decide_unlocked", decide_unlocked)


@pytest.mark.usefixtures("recent")
@pytest.mark.parametrize(("change", "number"), [("none", 1), ("released", 1), ("claimed", 2), ("figures", 2)])
def test_a_claim_is_decided_on_the_data_of_the_last_one(
    ledger: database.Database, monkeypatch: pytest.MonkeyPatch, decisions: list[int], change: str, number: int
) -> None:
    """They are checked under the lock, so later claims and reports of other processes count."""
    patch(ledger, pools(10, 8))
    capacity = NodeQueries(ledger)
    assert claim(capacity, "a", 1) is not None
    refuse_to_read(capacity, monkeypatch)
    assert claim(capacity, "b", 1) is not None
    if change == "released":
        NodeQueries(ledger).release("a")
    elif change == "claimed":
        first = claim(NodeQueries(ledger), "c", 7)
        assert first is not None
        assert first.node == "n0"
    elif change == "figures":
        patch(ledger, pools(2, 8))
    decisions.clear()
    last = claim(capacity, "d", 6)
    assert last is not None
    assert last.node == ("n0" if number == 1 else "n1")
    assert decisions == [1] * number
    with ledger.reading() as session:
        assert [kept_claim.node for kept_claim in capacity_claims.list_for_holder(session, "d")] == [last.node]


@pytest.mark.usefixtures("recent")
@pytest.mark.parametrize(("pause", "later"), [(3600.0, [1] * 6), (0.0, [1, 1, 2, 2, 1, 1])])
def test_claims_beside_another_process_are_decided_once(
    ledger: database.Database, monkeypatch: pytest.MonkeyPatch, decisions: list[int], pause: float, later: list[int]
) -> None:
    """After the other has changed the data of the last claim, the next decisions read theirs."""
    monkeypatch.setattr(node_queries, "_PAUSE_SECONDS", pause)
    patch(ledger, pools(100))
    processes = [NodeQueries(ledger), NodeQueries(ledger)]
    numbers = []
    for turn in range(10):
        decisions.clear()
        assert claim(processes[turn % 2], f"pod{turn}", 1) is not None
        numbers.append(len(decisions))
    assert numbers == [1, 1, 2, 2, *later]


@pytest.mark.usefixtures("recent")
def test_a_claim_that_began_earlier_leaves_the_data_of_a_later_one(
    ledger: database.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(ledger, pools(10))
    capacity = NodeQueries(ledger)
    real = capacity._decide_unlocked

    def decide_unlocked(*arguments: Any) -> Any:
        decided = real(*arguments)
        monkeypatch.setattr(capacity, "_decide_unlocked", real)
        assert claim(capacity, "later", 1) is not None
        return decided

    monkeypatch.setattr(capacity, "_decide_unlocked", decide_unlocked)
    assert claim(capacity, "earlier", 1) is not None
    refuse_to_read(capacity, monkeypatch)
    assert claim(capacity, "last", 1) is not None


@pytest.mark.usefixtures("recent")
def test_a_pod_is_refused_only_by_data_that_were_read_for_it(ledger: database.Database) -> None:
    patch(ledger, pools(10))
    capacity = NodeQueries(ledger)
    assert claim(capacity, "a", 6) is not None
    assert claim(capacity, "b", 6) is None
    NodeQueries(ledger).release("a")
    assert claim(capacity, "b", 6) is not None


@pytest.mark.usefixtures("recent")
def test_own_claims_and_other_drivers_are_read_again(ledger: database.Database) -> None:
    for name in (DRIVER, "other.example.com"):
        patch(ledger, pools(10), name)
    capacity = NodeQueries(ledger)
    assert claim(capacity, "a", 6) is not None
    assert claim(capacity, "a", 6) is not None
    assert claim(capacity, "b", 4) is not None
    other = [Volume("v0", "other.example.com", "fast", 6 * GI)]
    for holder, fits in (("c", True), ("d", False)):
        assert (capacity.claim(other, NODES, holder, 60)[1] is not None) is fits
    assert claim(capacity, "e", 1) is None


def test_old_data_are_not_used(ledger: database.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_queries, "_RECENT_SECONDS", -1.0)
    patch(ledger, pools(10))
    capacity = NodeQueries(ledger)
    assert claim(capacity, "a", 1) is not None
    refuse_to_read(capacity, monkeypatch)
    with pytest.raises(AssertionError, match="read twice"):
        claim(capacity, "b", 1)


def test_a_claim_without_moves_keeps_active_claims_on_other_nodes(ledger: database.Database) -> None:
    patch(ledger, pools(10, 10))
    capacity, first, second = NodeQueries(ledger), Nodes([Node("n0", {})]), Nodes([Node("n1", {})])
    assert capacity.claim(volumes(6), first, "a", 600, pod="default/redis")[1] is not None
    decision, node_claim = capacity.claim(volumes(6), second, "a", 600, pod="default/redis", is_nominated=True)
    assert (decision.fitting_nodes(), node_claim) == ([0], None)
    assert capacity.holds("a", "v0", "n0")
    # The same node, and other volumes.
    assert capacity.claim(volumes(6), first, "a", 600, pod="default/redis", is_nominated=True)[1] is not None
    assert capacity.claim(volumes(6, 1)[1:], second, "a", 600, pod="default/redis", is_nominated=True)[1] is not None
    ledger.run(
        lambda session: session.execute(sa.update(tables.CsiClaim).values(expires_at=capacity_claims.now(session)))
    )
    assert capacity.claim(volumes(6), second, "a", 600, pod="default/redis", is_nominated=True)[1] is not None
    assert capacity.holds("a", "v0", "n1")


def test_unchecked_volumes_need_no_claim(ledger: database.Database) -> None:
    decision, node_claim = NodeQueries(ledger).claim([Volume("v", "unknown", "fast", GI)], NODES, "a", 60)
    assert decision.packing.fits.all()
    assert node_claim is not None
    assert (node_claim.node, node_claim.placements) == ("n0", ())


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


def test_claims_for_provisioned_volumes_are_kept_when_a_pod_claims_the_rest(ledger: database.Database) -> None:
    """One volume was provisioned and the other was not, and the figures have not changed yet."""
    patch(ledger, pools(10))
    capacity, both = NodeQueries(ledger), volumes(6, 4)
    capacity.claim(both, NODES, "a", 60, pod="default/redis")
    assert capacity.decide(volumes(0, 5)[1:], NODES, "a").fitting_nodes() == []
    node_claim = capacity.claim(both[1:], NODES, "a", 120, pod="default/redis")[1]
    assert node_claim is not None
    with ledger.reading() as session:
        assert [
            (kept_claim.volume, kept_claim.expires_at) for kept_claim in capacity_claims.list_for_holder(session, "a")
        ] == [
            ("v0", node_claim.expires_at),
            ("v1", node_claim.expires_at),
        ]
    assert capacity.decide(volumes(1), NODES).fitting_nodes() == []
    # The capacity of expired claims may be claimed by others.
    ledger.run(
        lambda session: session.execute(sa.update(tables.CsiClaim).values(expires_at=capacity_claims.now(session)))
    )
    assert capacity.claim(both[1:], NODES, "a", 60, pod="default/redis")[1] is not None
    with ledger.reading() as session:
        assert [kept_claim.volume for kept_claim in capacity_claims.list_for_holder(session, "a")] == ["v1"]


@pytest.mark.parametrize("shared", ["postgresql", "mariadb"], indirect=True)
def test_concurrent_claims_of_one_holder_leave_the_last_one(shared: database.Database) -> None:
    for name in (DRIVER, "other.example.com"):
        patch(shared, pools(10), name)
    capacity, first, go = NodeQueries(shared), threading.Event(), threading.Event()
    decision = capacity.decide(volumes(6), NODES)

    def store_slowly(session: orm.Session) -> None:
        later = capacity_claims.now(session) + datetime.timedelta(hours=1)
        versions = capacity_claims.lock(session, [DRIVER])
        capacity_claims.store(session, "a", "n0", decision.placements(0), later, versions)
        first.set()
        assert go.wait(20)

    with futures.ThreadPoolExecutor(2) as threads:
        slow = threads.submit(shared.run, store_slowly)
        assert first.wait(20)
        other = [Volume("v0", "other.example.com", "fast", 5 * GI)]
        second = threads.submit(capacity.claim, other, NODES, "a", 60)
        assert futures.wait([second], 0.5).not_done
        go.set()
        slow.result()
        assert second.result()[1] is not None
    with shared.reading() as session:
        assert [kept_claim.driver for kept_claim in capacity_claims.list_for_holder(session, "a")] == [
            "other.example.com"
        ]


@pytest.mark.parametrize(
    "shared",
    ["postgresql", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("sqlite", "mariadb"))],
    indirect=True,
)
def test_200_concurrent_pods_fill_20_nodes_exactly(shared: database.Database) -> None:
    """Ten pods with 6 + 4 Gi fit on each node with 100 Gi: 200 pods in all."""
    patch(shared, pools(*[100] * 20))
    processes = [NodeQueries(shared) for _ in range(4)]
    with futures.ThreadPoolExecutor(16) as threads:
        submitted = [threads.submit(claim, processes[pod % 4], f"pod{pod}", 6, 4) for pod in range(204)]
        claims = [future.result() for future in submitted]
    assert sum(pod_claim is not None for pod_claim in claims) == 200
    with shared.reading() as session:
        sums = session.execute(
            sa.select(tables.CsiClaim.pool, sa.func.sum(tables.CsiClaim.size)).group_by(tables.CsiClaim.pool)
        )
        assert {pool: int(size) for pool, size in sums} == {f"p{number}": 100 * GI for number in range(20)}


def run_writers(ledger: database.Database, count: int, of: int, rounds: int) -> None:
    """Run concurrent writers that change, add and remove their own pools, and check that no change is lost."""
    patch(ledger, {"storage": [{"storageClassName": "fast"}]})
    start = threading.Barrier(count)

    def write(writer: int) -> None:
        start.wait()
        for turn in range(rounds):
            for pool in range(writer, of, count):
                one = {"name": f"p{pool}", "capacity": turn * 1000 + pool, "nodeList": [f"n{writer}"]}
                patch(ledger, {"storage": [{"storageClassName": "fast", "pools": [one]}]})
                gone = {"name": f"old{pool}", "$patch": "delete"} if turn % 2 else {"name": f"old{pool}"}
                patch(ledger, {"storage": [{"storageClassName": "fast", "pools": [gone]}]})

    with futures.ThreadPoolExecutor(count) as threads:
        for future in [threads.submit(write, writer) for writer in range(count)]:
            future.result()
    with ledger.reading() as session:
        driver = driver_rows.find(session, DRIVER)
    last = (rounds - 1) * 1000
    kept = {pool.name: pool for pool in driver.storage[0].pools if not pool.name.startswith("old")}
    assert {name: (pool.capacity, pool.node_list) for name, pool in kept.items()} == {
        f"p{pool}": (last + pool, (f"n{pool % count}",)) for pool in range(of)
    }
    assert len(driver.storage[0].pools) == of * (1 if rounds % 2 == 0 else 2)
    # The first patch created the driver. All others have counted.
    assert driver.version == 1 + 2 * of * rounds


def test_concurrent_creation_of_a_driver_creates_one(shared: database.Database) -> None:
    start = threading.Barrier(8)

    def make(writer: int) -> None:
        start.wait()
        one = {"name": f"p{writer}", "capacity": writer}
        patch(shared, {"storage": [{"storageClassName": "fast", "pools": [one]}]})

    with futures.ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(make, writer) for writer in range(8)]:
            future.result()
    with shared.reading() as session:
        driver = driver_rows.find(session, DRIVER)
    assert {pool.name: pool.capacity for pool in driver.storage[0].pools} == {
        f"p{number}": number for number in range(8)
    }
    assert driver.version == 8


def test_concurrent_writers_lose_no_change(shared: database.Database, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tonnage.ledger.db.database"):
        run_writers(shared, count=10, of=20, rounds=2)
    # All writers wait for the same row, so no transaction is repeated.
    assert "run again" not in caplog.text


@pytest.mark.heavy
def test_50_concurrent_writers_of_1000_pools_lose_no_change(shared: database.Database) -> None:
    run_writers(shared, count=50, of=1000, rounds=2)
