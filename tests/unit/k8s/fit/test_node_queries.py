# SPDX-License-Identifier: Apache-2.0
"""Claims: nobody is promised what somebody else has, until it is given back."""

import datetime
import logging
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import type_conversion
from tonnage.k8s.capacity import driver_rows
from tonnage.k8s.capacity.patches import DriverPatch
from tonnage.k8s.cluster.nodes import Node, Nodes
from tonnage.k8s.fit import capacity_claims
from tonnage.k8s.fit.node_decision import Volume
from tonnage.k8s.fit.node_queries import Capacity, Promise
from tonnage.ledger import models
from tonnage.ledger.db import database

GI = 2**30
NAME = "disk.example.com"
NODES = Nodes([Node(f"n{number}", {}) for number in range(20)])


def patch(ledger: database.Database, status: Any, name: str = NAME) -> None:
    raw = {"spec": {"capacityTracking": True}, "status": status}
    ledger.run(
        driver_rows.patch, name, type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
    )


def pools(*sizes: int) -> dict[str, Any]:
    """A pool of so many Gi on each of the first nodes."""
    listed = [{"name": f"p{n}", "capacity": f"{size}Gi", "nodeList": [f"n{n}"]} for n, size in enumerate(sizes)]
    return {"storage": [{"storageClassName": "fast", "pools": listed}]}


def volumes(*sizes: int) -> list[Volume]:
    return [Volume(f"v{number}", NAME, "fast", size * GI) for number, size in enumerate(sizes)]


@pytest.fixture
def ledger() -> Iterator[database.Database]:
    engine = database.create_engine("sqlite://")
    models.Base.metadata.create_all(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


def claim(capacity: Capacity, holder: str, *sizes: int, lease: float = 3600) -> Promise | None:
    return capacity.claim(volumes(*sizes), NODES, holder, lease)[1]


def test_what_is_claimed_is_not_promised_again_until_it_is_given_back(ledger: database.Database) -> None:
    patch(ledger, pools(10, 4))
    capacity = Capacity(ledger)
    first = claim(capacity, "a", 6)
    assert first is not None
    assert (first.node, [place.pool for place in first.places]) == ("n0", [("fast", "p0")])
    assert claim(capacity, "b", 6) is None
    renewed = claim(capacity, "a", 6)
    assert renewed is not None
    assert renewed.expires_at > first.expires_at
    assert capacity.ask(volumes(6), NODES).taking() == []
    assert capacity.ask(volumes(6), NODES, "a").taking() == [0]
    with ledger.reading() as session:
        [kept] = capacity_claims.of_holder(session, "a")
    assert (kept.node, kept.driver, kept.pool, kept.size) == ("n0", NAME, "p0", 6 * GI)
    capacity.release("a")
    assert claim(capacity, "b", 6) is not None


def test_a_claim_ends_with_its_lease(ledger: database.Database) -> None:
    patch(ledger, pools(10))
    capacity = Capacity(ledger)
    assert claim(capacity, "a", 6, lease=0) is not None
    assert claim(capacity, "b", 6) is not None
    with ledger.reading() as session:
        assert session.scalars(sa.select(models.CsiClaim.holder)).all() == ["b"]
        assert capacity_claims.of_holder(session, "a") == []


def test_what_is_claimed_of_a_pool_that_was_removed_is_not_promised_of_the_same_disks(
    ledger: database.Database,
) -> None:
    def tell(kind: str, *listed: dict[str, Any]) -> None:
        patch(ledger, {"storage": [{"storageClassName": kind, "pools": listed}]})

    tell("fast", {"name": "p", "capacity": "100Gi", "backingId": "disks"})
    # Half as much is there for those that are mirrored.
    tell("safe", {"name": "m", "capacity": "50Gi", "backingId": "disks"})
    capacity = Capacity(ledger)
    assert claim(capacity, "a", 50) is not None
    tell("fast", {"name": "p", "$patch": "delete"})

    def fits(size: int) -> bool:
        return bool(capacity.ask([Volume("v", NAME, "safe", size * GI)], NODES).taking())

    assert (fits(25), fits(26)) == (True, False)
    tell("fast", {"name": "p", "capacity": "100Gi", "backingId": "disks"})
    assert (fits(25), fits(26)) == (True, False)
    # Such as processes of the previous release have claimed.
    ledger.run(lambda session: session.execute(sa.update(models.CsiClaim).values(backing_id=None, capacity=None)))
    assert (fits(25), fits(26)) == (True, False)


def test_of_a_driver_that_comes_meanwhile_nothing_is_promised_that_is_not_held(
    ledger: database.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = driver_rows.locked

    def locked(session: orm.Session, name: str) -> models.CsiDriver | None:
        found = real(session, name)
        if found is None:
            monkeypatch.setattr(driver_rows, "locked", real)
            raw = {"spec": {"capacityTracking": True}, "status": pools(10)}
            driver_rows.patch(
                session, name, type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
            )
        return found

    monkeypatch.setattr(driver_rows, "locked", locked)
    promise = claim(Capacity(ledger), "a", 6)
    assert promise is not None
    assert promise.places == ()


def test_the_emptiest_node_is_chosen_and_new_figures_count_at_once(ledger: database.Database) -> None:
    patch(ledger, pools(10, 20))
    capacity = Capacity(ledger)
    assert claim(capacity, "a", 8) is not None
    patch(ledger, pools(5, 9, 9))
    decision = capacity.ask(volumes(8), NODES)
    assert [NODES.names[row] for row in decision.taking()] == ["n2"]
    patch(ledger, {"storage": [{"storageClassName": "fast", "pools": [{"name": "p2", "capacity": "7Gi"}]}]})
    assert capacity.ask(volumes(8), NODES).taking() == []
    ledger.run(driver_rows.delete, NAME)
    assert len(capacity.ask(volumes(8), NODES).taking()) == 20
    patch(ledger, pools(8))
    assert capacity.ask(volumes(8), NODES).taking() == [0]


def test_what_needs_no_place_is_promised_without_a_claim(ledger: database.Database) -> None:
    decision, promise = Capacity(ledger).claim([Volume("v", "unknown", "fast", GI)], NODES, "a", 60)
    assert decision.fit.fits.all()
    assert promise is not None
    assert (promise.node, promise.places) == ("n0", ())


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def shared(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[database.Database]:
    """A database that many threads use at a time."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/ledger.sqlite"
    else:
        url = request.getfixturevalue(f"{request.param}_url")
    engine = database.create_engine(url, busy_timeout=600, pool_size=20, max_overflow=40)
    models.Base.metadata.create_all(engine)
    ledger = database.Database(engine)
    yield ledger
    with ledger.engine.begin() as connection:
        for table in (models.CsiClaim, models.CsiPool, models.CsiStorage, models.CsiDriver):
            connection.execute(sa.delete(table))
    ledger.close()


def test_what_is_claimed_for_a_pod_is_renewed_and_released_unless_it_was_claimed_anew(
    shared: database.Database,
) -> None:
    patch(shared, pools(10))
    capacity = Capacity(shared)
    capacity.claim(volumes(6), NODES, "a", 60, pod="default/redis")
    capacity.claim(volumes(1), NODES, "b", 60)

    def held() -> list[capacity_claims.PodClaim]:
        with shared.reading(snapshot=True) as session:
            return capacity_claims.of_pods(session)

    [row] = held()
    assert (row.pod, row.claim.holder, row.claim.pool) == ("default/redis", "a", "p0")
    assert row.written == {("fast", "p0"): capacity_claims.Written(1, None)}
    first = row.claim.expires_at
    later = first + datetime.timedelta(seconds=1)
    shared.run(capacity_claims.renew, "a", first, later)
    shared.run(capacity_claims.renew, "a", first, later + datetime.timedelta(seconds=1))
    shared.run(capacity_claims.release, "a", first)
    assert [each.claim.expires_at for each in held()] == [later]
    same, old = {"capacity": "1Gi", "backingId": "disks"}, {"expiryTime": "2020-01-01T00:00:00Z"}
    slow = [{"name": "q", **same}, {"name": "old", **same, **old}, {"name": "other", "capacity": "1Gi"}]
    fast = [{"name": "p0", "backingId": "disks"}]
    both = [{"storageClassName": "fast", "pools": fast}, {"storageClassName": "slow", "pools": slow}]
    patch(shared, {"storage": both})
    assert [each.written for each in held()] == [
        {("fast", "p0"): capacity_claims.Written(2, None), ("slow", "q"): capacity_claims.Written(2, None)}
    ]
    patch(shared, {"storage": [{"storageClassName": "fast", "pools": None}]})
    assert [each.written for each in held()] == [{}]
    shared.run(capacity_claims.release, "a", later)
    assert held() == []


def test_what_was_made_for_a_pod_is_held_when_it_comes_again_for_the_rest(ledger: database.Database) -> None:
    """One volume was made and the other was not, and the figures are still those of before."""
    patch(ledger, pools(10))
    capacity, both = Capacity(ledger), volumes(6, 4)
    capacity.claim(both, NODES, "a", 60, pod="default/redis")
    assert capacity.ask(volumes(0, 5)[1:], NODES, "a").taking() == []
    promise = capacity.claim(both[1:], NODES, "a", 120, pod="default/redis")[1]
    assert promise is not None
    with ledger.reading() as session:
        assert [(each.volume, each.expires_at) for each in capacity_claims.of_holder(session, "a")] == [
            ("v0", promise.expires_at),
            ("v1", promise.expires_at),
        ]
    assert capacity.ask(volumes(1), NODES).taking() == []
    # What has ended by then may be somebody else's.
    ledger.run(
        lambda session: session.execute(sa.update(models.CsiClaim).values(expires_at=capacity_claims.now(session)))
    )
    assert capacity.claim(both[1:], NODES, "a", 60, pod="default/redis")[1] is not None
    with ledger.reading() as session:
        assert [each.volume for each in capacity_claims.of_holder(session, "a")] == ["v1"]


def test_what_has_ended_is_not_renewed(ledger: database.Database) -> None:
    """Whoever looked at pods for too long would promise again what others were given meanwhile."""
    patch(ledger, pools(10))
    promise = Capacity(ledger).claim(volumes(6), NODES, "a", 60, pod="default/redis")[1]
    assert promise is not None

    def end(session: orm.Session) -> datetime.datetime:
        over: datetime.datetime = capacity_claims.now(session)
        session.execute(sa.update(models.CsiClaim).values(expires_at=over))
        return over

    over = ledger.run(end)
    ledger.run(capacity_claims.renew, "a", over, promise.expires_at)
    assert claim(Capacity(ledger), "b", 6) is not None


@pytest.mark.parametrize("shared", ["postgresql", "mariadb"], indirect=True)
def test_one_holder_that_asks_for_two_drivers_at_once_has_what_was_answered_last(shared: database.Database) -> None:
    for name in (NAME, "other.example.com"):
        patch(shared, pools(10), name)
    capacity, first, go = Capacity(shared), threading.Event(), threading.Event()
    decision = capacity.ask(volumes(6), NODES)

    def slowly(session: orm.Session) -> None:
        capacity_claims.put(
            session, "a", "n0", decision.places(0), capacity_claims.now(session) + datetime.timedelta(hours=1)
        )
        first.set()
        assert go.wait(20)

    with futures.ThreadPoolExecutor(2) as threads:
        slow = threads.submit(shared.run, slowly)
        assert first.wait(20)
        other = [Volume("v0", "other.example.com", "fast", 5 * GI)]
        second = threads.submit(capacity.claim, other, NODES, "a", 60)
        assert futures.wait([second], 0.5).not_done
        go.set()
        slow.result()
        assert second.result()[1] is not None
    with shared.reading() as session:
        assert [each.driver for each in capacity_claims.of_holder(session, "a")] == ["other.example.com"]


@pytest.mark.parametrize(
    "shared",
    ["postgresql", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("sqlite", "mariadb"))],
    indirect=True,
)
def test_200_pods_at_once_fill_20_nodes_and_no_node_beyond_what_it_has(shared: database.Database) -> None:
    """Ten of 6 + 4 Gi fit on each node of 100 Gi: 200 in all, and not one more."""
    patch(shared, pools(*[100] * 20))
    processes = [Capacity(shared) for _ in range(4)]
    with futures.ThreadPoolExecutor(16) as threads:
        asked = [threads.submit(claim, processes[pod % 4], f"pod{pod}", 6, 4) for pod in range(204)]
        promised = [each.result() for each in asked]
    assert sum(each is not None for each in promised) == 200
    with shared.reading() as session:
        sums = session.execute(
            sa.select(models.CsiClaim.pool, sa.func.sum(models.CsiClaim.size)).group_by(models.CsiClaim.pool)
        )
        assert {pool: int(size) for pool, size in sums} == {f"p{number}": 100 * GI for number in range(20)}


def writers(ledger: database.Database, count: int, of: int, rounds: int) -> None:
    """Have many writers change their own pools at once, some of which come and go; each change has to be there."""
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
        for each in [threads.submit(write, writer) for writer in range(count)]:
            each.result()
    with ledger.reading() as session:
        driver = driver_rows.find(session, NAME)
    last = (rounds - 1) * 1000
    kept = {pool.name: pool for pool in driver.storage[0].pools if not pool.name.startswith("old")}
    assert {name: (pool.capacity, pool.node_list) for name, pool in kept.items()} == {
        f"p{pool}": (last + pool, (f"n{pool % count}",)) for pool in range(of)
    }
    assert len(driver.storage[0].pools) == of * (1 if rounds % 2 == 0 else 2)
    # The first change made the driver, and none of the others was lost.
    assert driver.version == 1 + 2 * of * rounds


def test_a_driver_that_many_make_at_once_is_one(shared: database.Database) -> None:
    start = threading.Barrier(8)

    def make(writer: int) -> None:
        start.wait()
        one = {"name": f"p{writer}", "capacity": writer}
        patch(shared, {"storage": [{"storageClassName": "fast", "pools": [one]}]})

    with futures.ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(make, writer) for writer in range(8)]:
            each.result()
    with shared.reading() as session:
        driver = driver_rows.find(session, NAME)
    assert {pool.name: pool.capacity for pool in driver.storage[0].pools} == {f"p{each}": each for each in range(8)}
    assert driver.version == 8


def test_writers_at_once_lose_nothing(shared: database.Database, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tonnage.ledger.db.database"):
        writers(shared, count=10, of=20, rounds=2)
    # Nor does one have to wait for what waits for it: each waits for the same row.
    assert "run again" not in caplog.text


@pytest.mark.heavy
def test_50_writers_of_1000_pools_lose_nothing(shared: database.Database) -> None:
    writers(shared, count=50, of=1000, rounds=2)
