# SPDX-License-Identifier: Apache-2.0
"""Check and repair of the ledger on every database, while schedulers book."""

import dataclasses
import threading
from collections.abc import Iterator
from concurrent import futures

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger.db import database
from tonnage.ledger.repair import consistency_check, orphans, repairs
from tonnage.rpc.messages import Answer

WRITERS = 3
BOOKINGS = 25


@pytest.fixture
def engine(ledger_url: str) -> Iterator[sa.Engine]:
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def pools() -> dict[str, StoragePool]:
    return {name: StoragePool(100_000, 1.0, thin=True, thick=False) for name in ("p0", "p1", "p2")}


def add_drift(engine: sa.Engine, turn: int) -> None:
    """Change one counter by a relative amount in one statement, so concurrent bookings are kept."""
    statements = (
        "UPDATE pools SET allocated_capacity_gb = allocated_capacity_gb + 7",
        "UPDATE pools SET in_flight_gb = in_flight_gb + 5, in_flight_physical_gb = in_flight_physical_gb + 1",
        "UPDATE backends SET allocated_capacity_gb = allocated_capacity_gb - 3",
        "UPDATE pools SET shared_in_flight_gb = shared_in_flight_gb + 2",
    )

    def change(session: sa.orm.Session) -> None:
        session.execute(sa.text(statements[turn % len(statements)]))

    database.Database(engine).run(change)


@pytest.mark.parametrize(
    "shared", [pytest.param(False, id="alone", marks=pytest.mark.heavy), pytest.param(True, id="sharing")]
)
def test_repair_during_bookings_leaves_no_drift(engine: sa.Engine, pools: dict[str, StoragePool], shared: bool) -> None:
    ledger = database.Database(engine)
    first = World(pools, engine=engine).started()
    if shared:
        report = first.agent.look()
        first.deliver(dataclasses.replace(report, pools=[{**pool, "storage_id": "one"} for pool in report.pools]))
        assert first.rows("SELECT DISTINCT storage_id FROM pools") == [("one",)]
    worlds = [World(pools, engine=engine) for _ in range(WRITERS)]
    going = threading.Event()
    writing = threading.Event()

    def write(world: World) -> int:
        going.wait(60)
        placed = 0
        for _ in range(BOOKINGS):
            # Two volumes at a time, which often go to different pools.
            placed += sum(isinstance(answer, Answer) and answer.pool is not None for answer in world.create(1, 2))
        return placed

    def watch() -> int:
        """Add drift and repair until all writers have ended, and return the number of repaired values."""
        repaired = turn = 0
        going.set()
        while writing.is_set() or turn < 4:
            add_drift(engine, turn)
            repaired += len(repairs.repair(ledger).changes)
            turn += 1
        return repaired

    writing.set()
    with futures.ThreadPoolExecutor(WRITERS + 1) as threads:
        watcher = threads.submit(watch)
        writers = [threads.submit(write, world) for world in worlds]
        try:
            placed = sum(writer.result(150) for writer in writers)
        finally:
            writing.clear()
        assert watcher.result(150) >= 4
    assert placed == WRITERS * BOOKINGS * 2
    assert consistency_check.check(ledger).drift == []
    [(claims, size)] = first.rows("SELECT COUNT(*), SUM(size_gb) FROM claims")
    assert (claims, size) == (placed, placed // 2 * 3)
    assert first.rows("SELECT SUM(allocated_capacity_gb), SUM(in_flight_gb) FROM pools") == [(size, size)]
    assert first.rows("SELECT allocated_capacity_gb FROM backends") == [(size,)]
    assert repairs.repair(ledger).changes == []


def test_a_check_reads_one_snapshot_during_bookings(engine: sa.Engine, pools: dict[str, StoragePool]) -> None:
    """Different statements read counters and claims. A commit between them must not appear as drift."""
    ledger = database.Database(engine)
    World(pools, engine=engine).started()
    worlds = [World(pools, engine=engine) for _ in range(WRITERS)]
    done = threading.Event()

    def write(world: World) -> None:
        for _ in range(BOOKINGS):
            world.create(1, 2)

    def watch() -> list[consistency_check.Finding]:
        seen: list[consistency_check.Finding] = []
        while not done.is_set():
            seen += consistency_check.check(ledger).drift
        return seen

    with futures.ThreadPoolExecutor(WRITERS + 1) as threads:
        watcher = threads.submit(watch)
        try:
            for writer in [threads.submit(write, world) for world in worlds]:
                writer.result(150)
        finally:
            done.set()
        assert watcher.result(150) == []


def test_a_repair_invalidates_decisions_on_old_counters(engine: sa.Engine, pools: dict[str, StoragePool]) -> None:
    """A scheduler that has read too low counters reads the pool again, and does not over-commit it."""
    small = {"p0": StoragePool(10, 1.0, thin=True, thick=False)}
    world = World(small, engine=engine).started()
    world.create(8)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pools SET in_flight_gb = 0, allocated_capacity_gb = 0"))
    misled = World(small, engine=engine)
    repairs.repair(database.Database(engine))
    [answer] = misled.create(5)
    assert isinstance(answer, Answer)
    assert answer.pool is None
    assert consistency_check.check(database.Database(engine)).drift == []


def test_the_findings_of_a_listing_are_recorded(engine: sa.Engine, pools: dict[str, StoragePool]) -> None:
    world = World(pools, engine=engine).started()
    world.create(3, 3, 3)
    world.settle()
    storage = {volume_id: pool for pool in pools.values() for volume_id in pool.volumes}
    lost, grown, kept = sorted(storage)
    del storage[lost].volumes[lost]
    storage[grown].volumes[grown] = (4, Provisioning.THIN)
    for name in ("Orphan", "orphan", "or\0phan", "orphan "):
        pools["p0"].volumes[name] = (1, Provisioning.THIN)
    for _ in range(2):
        [receipt] = world.registration.listings([world.agent.listing()])
        assert not isinstance(receipt, Exception)
        found = consistency_check.check(database.Database(engine))
        assert {(one.cause.value, one.subject) for one in found.drift} == {("lost", lost), ("size", grown)}
        named = {one.subject for one in found.findings if one.cause is consistency_check.Cause.ORPHAN}
        assert named == {"Orphan", "orphan", "'or\\x00phan'", "orphan "}
        assert world.rows("SELECT SUM(external_gb) FROM pools") == [(4.0,)]
    del pools["p0"].volumes["Orphan"]
    world.registration.listings([world.agent.listing()])
    with database.Database(engine).reading() as session:
        assert "Orphan" not in {one.name for one in orphans.load(session)}
    assert kept


def test_an_orphan_whose_name_equals_a_volume_in_the_database_is_not_purged(
    engine: sa.Engine, pools: dict[str, StoragePool]
) -> None:
    """The end of a purge releases the claims of that name in the pool, and a database may ignore case."""
    world = World({"p0": pools["p0"]}, engine=engine).started()
    volume_id = world.made(3)
    twin = volume_id.upper()
    pools["p0"].volumes[twin] = (1, Provisioning.THIN)
    for _ in range(2):
        world.registration.listings([world.agent.listing()])
    with database.Database(engine).reading() as session:
        assert [one.name for one in orphans.load(session)] == [twin]
        same = session.scalar(sa.text("SELECT COUNT(*) FROM claims WHERE volume_id = :name"), {"name": twin})
    if same:
        with pytest.raises(errors.Conflict):
            world.database.run(orphans.purge, "host@backend#p0", twin)
    else:
        world.database.run(orphans.purge, "host@backend#p0", twin)
        world.settle()
    assert volume_id in pools["p0"].volumes
    assert world.rows("SELECT allocated_capacity_gb FROM pools") == [(3,)]
