# SPDX-License-Identifier: Apache-2.0
"""Samples of the history: one row for each slot, whoever writes, and none that was not sampled."""

import contextlib
import datetime
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.ledger import faults
from tests.unit.scheduler.world import StoragePool, World
from tonnage.extensions.history import history_reader, history_writer, tables
from tonnage.extensions.history.history_writer import DAY, HOUR, INTERVAL, TEN_MINUTES, HistoryWriter
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.rpc.messages import MigrateVolume
from tonnage.scheduler.requests.placement_requests import Move

START = datetime.datetime.fromisoformat("2026-03-01 00:05:00")
HOUR_LENGTH = datetime.timedelta(hours=1)


class Clock:
    """A clock in the place of the database's."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self, session: orm.Session) -> datetime.datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += datetime.timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[database.Database]:
    """A ledger with two pools of a backend that has just reported."""
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        session.add(models.Backend(id=1, name="host@b", last_report_at=models.utcnow()))
        session.flush()
        for number in (1, 2):
            figures = {"total_capacity_gb": 100.0, "free_capacity_gb": 60.0, "provisioned_capacity_gb": 50.0}
            stats = {"thin_provisioning_support": number == 1}
            limits = {"stats": stats, "thin_limit_gb": 200.0, "physical_limit_gb": 55.0, "in_flight_gb": 3}
            session.add(models.Pool(backend_id=1, name=f"host@b#p{number}", **figures, **limits))
        session.commit()
    found = database.Database(engine)
    yield found
    found.close()


def change(ledger: database.Database, pool_id: int = 1, **values: object) -> None:
    ledger.run(lambda session: session.execute(sa.update(models.Pool).where(models.Pool.id == pool_id).values(values)))


def rows(ledger: database.Database, grain: str, pool_id: int = 1) -> list[tables.PoolHistory]:
    row = tables.PoolHistory
    with ledger.reading() as session:
        found = sa.select(row).where(row.grain == grain, row.pool_id == pool_id).order_by(row.slot)
        return list(session.scalars(found))


def test_samples_of_an_hour_are_one_row(ledger: database.Database, clock: Clock) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    assert writer.sample()
    for free, in_flight in ((50.0, 9), (70.0, 1)):
        clock.advance(seconds=INTERVAL)
        change(ledger, free_capacity_gb=free, in_flight_gb=in_flight)
        assert writer.sample()
    [hour] = rows(ledger, HOUR)
    [day] = rows(ledger, DAY)
    assert (hour.slot, hour.samples, hour.total_gb) == (START.replace(minute=0), 3, 100.0)
    assert (hour.used_min_gb, hour.used_max_gb, hour.used_gb) == (30.0, 50.0, 30.0)
    assert (hour.provisioned_gb, hour.virtual_limit_gb, hour.physical_limit_gb) == (51.0, 200.0, 85.0)
    assert hour.in_flight_max_gb == day.in_flight_max_gb == 9
    assert (day.slot, day.samples) == (START.replace(minute=0), 3)
    # A pool without thin volumes has no such limit.
    assert [row.virtual_limit_gb for row in rows(ledger, HOUR, 2)] == [None]


def test_a_sample_is_not_due_before_its_time(ledger: database.Database, clock: Clock) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    assert writer.sample()
    clock.advance(seconds=INTERVAL / 2 - 1)
    assert not writer.sample()
    assert rows(ledger, HOUR)[0].samples == 1


def test_each_ten_minutes_have_a_row_although_the_writer_looks_late(ledger: database.Database, clock: Clock) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    for second in range(0, 3600, 59):
        clock.now = START + datetime.timedelta(seconds=second)
        change(ledger, free_capacity_gb=60.0 - second / 100)
        writer.sample()
    slots = rows(ledger, TEN_MINUTES)
    assert [row.slot.minute for row in slots] == [0, 10, 20, 30, 40, 50, 0]
    assert {row.samples for row in slots} == {1}
    assert [row.used_gb for row in slots] == sorted({row.used_gb for row in slots})
    assert [row.samples for row in rows(ledger, HOUR)] == [6, 1]


def test_what_happens_between_samples_is_split(ledger: database.Database, clock: Clock) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    change(ledger, allocated_capacity_gb=50, deleted_gb=1000, moved_gb=-7)
    writer.sample()
    clock.advance(seconds=INTERVAL)
    change(ledger, allocated_capacity_gb=60, deleted_gb=1004, moved_gb=-5)
    writer.sample()
    clock.advance(hours=1)
    change(ledger, allocated_capacity_gb=58, deleted_gb=1006)
    writer.sample()
    hours, [day] = rows(ledger, HOUR), rows(ledger, DAY)
    assert [(row.created_gb, row.deleted_gb, row.moved_gb) for row in hours] == [(12, 4, 2), (0, 2, 0)]
    assert (day.created_gb, day.deleted_gb, day.moved_gb) == (12, 6, 2)


def test_a_missed_hour_stays_a_hole_and_nothing_is_credited_to_the_hour_after(
    ledger: database.Database, clock: Clock
) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    writer.sample()
    clock.advance(hours=3)
    change(ledger, allocated_capacity_gb=30)
    writer.sample()
    hours = rows(ledger, HOUR)
    assert [row.slot.hour for row in hours] == [0, 3]
    assert [row.created_gb for row in hours] == [0, 0]
    # The day had both.
    assert [row.created_gb for row in rows(ledger, DAY)] == [30]


def test_a_pool_of_a_silent_backend_or_without_usable_figures_has_no_row(
    ledger: database.Database, clock: Clock
) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    reported = sa.select(models.Backend.last_report_at).scalar_subquery()
    change(ledger, 2, unheard_at=reported)
    writer.sample()
    assert len(rows(ledger, HOUR)) == 1
    assert rows(ledger, HOUR, 2) == []
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("UPDATE backends SET last_report_at = '2020-01-01 00:00:00'"))
    clock.advance(hours=1)
    writer.sample()
    assert len(rows(ledger, HOUR)) == 1


def test_a_new_pool_does_not_get_the_history_of_a_deleted_one(ledger: database.Database, clock: Clock) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    writer.sample()
    with ledger.engine.begin() as connection:
        connection.execute(sa.delete(models.Pool).where(models.Pool.id == 2))
        new_id = connection.execute(sa.insert(models.Pool).values(name="h@b#new", backend_id=1)).inserted_primary_key[0]
    clock.advance(days=1)
    writer.sample()
    with ledger.reading() as session:
        assert history_reader.pools_of(session, START.replace(minute=0)) == [1]
    assert new_id == 3
    assert [len(rows(ledger, DAY, pool_id)) for pool_id in (1, 2, 3)] == [2, 1, 1]


def test_unknown_figures_are_null(ledger: database.Database, clock: Clock) -> None:
    change(ledger, total_capacity_gb=None, thin_limit_gb=None, provisioned_capacity_gb=None, external_gb=4.0)
    HistoryWriter(ledger, 60.0, clock).sample()
    [row] = rows(ledger, HOUR)
    assert (row.total_gb, row.used_gb, row.used_min_gb, row.virtual_limit_gb) == (None, None, None, None)
    assert row.provisioned_gb == 4.0


def test_of_two_writers_one_writes_each_sample(ledger: database.Database, clock: Clock) -> None:
    writers = [HistoryWriter(ledger, 60.0, clock) for _ in range(2)]
    for _ in range(4):
        together = threading.Barrier(2)
        wrote = []

        def write(writer: HistoryWriter, together: threading.Barrier = together, wrote: list[bool] = wrote) -> None:
            together.wait(60)
            wrote.append(writer.sample())

        threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(wrote) == [False, True]
        clock.advance(seconds=INTERVAL)
    for pool_id in (1, 2):
        assert [row.samples for row in rows(ledger, HOUR, pool_id)] == [4]
        assert [row.samples for row in rows(ledger, DAY, pool_id)] == [4]


def after_first_part(
    ledger: database.Database, act: Callable[[sa.Connection], object]
) -> contextlib.AbstractContextManager[None]:
    """Act after the first part of a sample: its third transaction, after the one that takes the turn."""
    return faults.before_transaction(ledger.engine, faults.once(act, skipped=2))


def test_a_writer_that_is_killed_within_a_sample_leaves_a_smaller_sample(
    ledger: database.Database, clock: Clock
) -> None:
    def kill(connection: sa.Connection) -> None:
        raise SystemExit

    with after_first_part(ledger, kill), pytest.raises(SystemExit):
        HistoryWriter(ledger, 60.0, clock, part=1).sample()
    # The next one continues in the same hour.
    assert not HistoryWriter(ledger, 60.0, clock).sample()
    clock.advance(seconds=INTERVAL)
    assert HistoryWriter(ledger, 60.0, clock).sample()
    assert [row.samples for row in rows(ledger, HOUR)] == [2]
    assert [row.samples for row in rows(ledger, HOUR, 2)] == [1]


def test_a_writer_that_was_suspended_writes_nothing_after_a_later_turn(ledger: database.Database, clock: Clock) -> None:
    def overtake(connection: sa.Connection) -> None:
        clock.advance(hours=1)
        change(ledger, 2, free_capacity_gb=10.0)
        assert HistoryWriter(ledger, 60.0, clock).sample()

    with after_first_part(ledger, overtake):
        assert not HistoryWriter(ledger, 60.0, clock, part=1).sample()
    assert [(row.slot.hour, row.used_gb) for row in rows(ledger, HOUR)] == [(0, 40.0), (1, 40.0)]
    assert [(row.slot.hour, row.used_gb) for row in rows(ledger, HOUR, 2)] == [(1, 90.0)]


def test_a_clock_that_was_set_back_leaves_a_hole(ledger: database.Database, clock: Clock) -> None:
    writer = HistoryWriter(ledger, 60.0, clock)
    writer.sample()
    clock.advance(hours=-3)
    for _ in range(18):
        assert not writer.sample()
        clock.advance(seconds=INTERVAL)
    clock.advance(seconds=INTERVAL)
    assert writer.sample()
    assert [(row.slot, row.samples) for row in rows(ledger, HOUR)] == [(START.replace(minute=0), 2)]


def test_a_clock_that_was_a_year_ahead_does_not_end_the_history(ledger: database.Database) -> None:
    now = Clock()
    with ledger.reading() as session:
        now.now = history_writer.database_time(session)
    right = now.now
    writer = HistoryWriter(ledger, 60.0, now)
    now.advance(days=365)
    assert writer.sample()
    now.now = right
    assert writer.sample()
    assert not writer.sample()
    while ledger.run(history_writer.purge):
        pass
    assert [row.slot for row in rows(ledger, HOUR)] == [right.replace(minute=0, second=0, microsecond=0)]
    assert len(rows(ledger, DAY)) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("ledger_url", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_after_a_year_the_size_does_not_grow(
    ledger: database.Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each day has two samples, in two hours."""
    writer = HistoryWriter(ledger, 1e9, clock)
    monkeypatch.setattr(history_writer, "database_time", clock)
    numbers = []
    for day in range(450):
        for _ in range(2):
            writer.sample()
            clock.advance(hours=12)
        while ledger.run(history_writer.purge, 7):
            pass
        if day % 10 == 0:
            numbers.append((len(rows(ledger, HOUR)), len(rows(ledger, DAY))))
            assert len(rows(ledger, TEN_MINUTES)) <= 2
    assert numbers[3][0] == numbers[-1][0] <= 2 * 14 + 1
    assert numbers[-3][1] == numbers[-1][1] <= 400


def test_volume_types_have_rows(ledger: database.Database, clock: Clock) -> None:
    def create(number: int, size: int) -> None:
        ledger.run(
            lambda session: session.add(
                models.Volume(
                    id=str(uuid.UUID(int=number)),
                    project_id="demo",
                    size_gb=size,
                    status="available",
                    pool_id=1,
                    created_at=clock.now,
                )
            )
        )

    writer = HistoryWriter(ledger, 60.0, clock)
    create(1, 10)
    create(2, 30)
    writer.sample()
    clock.advance(seconds=INTERVAL)
    create(3, 5)
    ledger.run(lambda session: session.execute(sa.delete(models.Volume).where(models.Volume.size_gb == 10)))
    writer.sample()
    with ledger.reading() as session:
        found = session.scalars(sa.select(tables.TypeHistory)).all()
    assert {(row.grain, row.samples, row.volumes, row.allocated_gb) for row in found} == {
        (HOUR, 2, 2, 35),
        (DAY, 2, 2, 35),
    }
    assert {(row.type_id, row.creates, row.created_gb, row.deleted_gb, row.retyped_gb) for row in found} == {
        ("", 1, 5, 10, 0)
    }


@pytest.fixture
def world() -> Iterator[World]:
    pools = {name: StoragePool(100, 2.0, thin=False, thick=True) for name in ("p0", "p1")}
    world = World(pools).started()
    yield world
    world.engine.dispose()


def flows(world: World) -> list[tuple[int, int, int]]:
    """Return the created, deleted and moved capacity of each pool in all, by name."""
    return [
        (allocated + deleted - moved, deleted, moved)
        for allocated, deleted, moved in world.rows(
            "SELECT allocated_capacity_gb, deleted_gb, moved_gb FROM pools ORDER BY name"
        )
    ]


def test_the_ledger_counts_created_deleted_and_moved_capacity_apart(world: World) -> None:
    first, second = world.made(10), world.made(20)
    before = flows(world)
    assert sum(created for created, _, _ in before) == 30
    world.extend(first, 15)
    world.settle()
    world.place([Move(MigrateVolume(request_id="req-m", volume_id=first))])
    world.settle()
    after = flows(world)
    assert sum(created for created, _, _ in after) == 35
    assert sorted(moved for _, _, moved in after) == [-15, 15]
    world.delete(first)
    world.delete(second)
    world.settle()
    last = flows(world)
    assert sum(deleted for _, deleted, _ in last) == 35
    assert [(created, moved) for created, _, moved in last] == [(created, moved) for created, _, moved in after]
    world.check()


def test_a_create_that_fails_is_no_deletion(world: World) -> None:
    world.create(10)
    outcome = world.agent.work(fails=True, clean=True)
    assert outcome is not None
    world.deliver(outcome)
    world.settle()
    assert sorted(flows(world)) == [(0, 0, 0), (10, 0, 0)]
