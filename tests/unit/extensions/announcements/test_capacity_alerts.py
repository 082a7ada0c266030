# SPDX-License-Identifier: Apache-2.0
"""What schedulers announce of the reports that they apply."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ledger import faults
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.extensions.announcements import notification_outbox, options
from tonnage.extensions.announcements.announcer import NOTIFICATIONS, Announcer, AnnouncerConfig
from tonnage.extensions.announcements.capacity_alerts import CapacityAlerts
from tonnage.ledger.db import database

POOL = f"{BACKEND}#p0"
EXCEEDED, RECOVERED = "capacity.pool.exceeded", "capacity.pool.recovered"
#: By so much binary fractions may be off.
HAIR = 1e-6


class Recorder:
    """Stands for the message bus; nothing is started that would send to it."""

    def send(self, message_id: str, event_type: str, payload: Any) -> None:
        raise AssertionError("no thread runs")

    def close(self) -> None: ...


def announcer(world: World, *, percent: float = 90.0, hysteresis: float = 5.0) -> Announcer:
    """Have the world's scheduler announce."""
    wanted = options.Settings(
        host="here",
        drivers=["test"],
        only_changes=False,
        thresholds=options.Thresholds(percent, hysteresis),
        alert_urls=[],
    )
    made = Announcer(world.database, AnnouncerConfig(wanted), Recorder())  # type: ignore[arg-type]
    world.report_handler.observers = [CapacityAlerts(world.hosts, made)]
    return made


def announced(world: World) -> list[notification_outbox.Message]:
    """Return what waits in the outbox."""
    with world.database.reading() as session:
        return notification_outbox.load(session, NOTIFICATIONS, 100)


def events(world: World) -> list[str]:
    return [message.event_type for message in announced(world)]


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    engine = database.create_engine("sqlite://")
    yield engine
    engine.dispose()


@pytest.fixture
def pool() -> StoragePool:
    return StoragePool(100, 2.0, thin=True, thick=True)


@pytest.fixture
def world(engine: sa.Engine, pool: StoragePool) -> World:
    world = World({"p0": pool}, engine=engine).started()
    announcer(world)
    return world


def fill(pool: StoragePool, thick: int, thin: int = 0) -> None:
    """Have so much there, without Tonnage's doing."""
    pool.volumes = {"thick": (thick, Provisioning.THICK), "thin": (thin, Provisioning.THIN)}


def test_a_pool_that_fills_up_is_announced_once_and_so_is_its_recovery(world: World, pool: StoragePool) -> None:
    fill(pool, 90)
    world.report()
    assert events(world) == []
    for used in (91, 95, 88, 86):
        fill(pool, used)
        world.report()
        assert events(world) == [EXCEEDED], used
    fill(pool, 85)
    world.report()
    world.report()
    assert events(world) == [EXCEEDED, RECOVERED]
    first, second = (message.payload for message in announced(world))
    assert {key: first[key] for key in ("name_to_id", "backend", "total", "free", "allocated", "provisioned")} == {
        "name_to_id": POOL,
        "backend": BACKEND,
        "total": 100.0,
        "free": 9.0,
        "allocated": 0.0,
        "provisioned": 91.0,
    }
    assert (first["used_percent"], first["provisioned_limit"], first["virtual_free"]) == (91.0, 200.0, 109.0)
    assert (first["reasons"], first["exceeded_at"]) == (["physical"], None)
    assert (second["reasons"], second["free"]) == ([], 15.0)
    assert second["exceeded_at"] is not None


def test_a_pool_that_shrinks_below_what_it_holds(world: World, pool: StoragePool) -> None:
    for _ in range(4):
        world.made(50)
    assert events(world) == []  # exactly what the ratio permits
    pool.total = 99
    world.report()
    [message] = announced(world)
    assert message.event_type == EXCEEDED
    figures = {
        key: message.payload[key] for key in ("reasons", "allocated", "provisioned", "provisioned_limit", "free")
    }
    assert figures == {
        "reasons": ["provisioned"],
        "allocated": 200.0,
        "provisioned": 200.0,
        "provisioned_limit": 198.0,
        "free": 99.0,
    }
    pool.total = 105
    world.report()
    assert events(world) == [EXCEEDED]
    pool.total = 106
    world.report()
    assert events(world) == [EXCEEDED, RECOVERED]


def test_thick_volumes_may_be_there_as_far_as_there_is_storage(world: World, pool: StoragePool) -> None:
    """The ratio, which is 2, says nothing about them. Where no provisioned capacity is reported, allocated counts."""
    pool.thin, pool.reports_provisioned = False, False
    world.report()
    world.made(80)
    world.report()
    assert events(world) == []
    seen = world.agent.look()
    shrunk = {**seen.pools[0], "total_capacity_gb": 79, "free_capacity_gb": 0}
    world.deliver(replace(seen, pools=[shrunk]))
    assert [message.payload["reasons"] for message in announced(world)] == [["physical", "provisioned"]]
    assert announced(world)[0].payload["provisioned"] == 80.0


def test_a_crossing_is_not_announced_if_the_report_is_not_applied(world: World, pool: StoragePool) -> None:
    fill(pool, 95)
    gone = errors.Unavailable("the database is gone")
    with faults.failing(world.engine, "INSERT INTO announcements", gone):
        world.report()
    assert events(world) == []
    assert world.rows("SELECT free_capacity_gb, exceeded_at FROM pools") == [(100.0, None)]
    world.report()
    assert events(world) == [EXCEEDED]


def test_schedulers_announce_a_crossing_once(world: World, pool: StoragePool, engine: sa.Engine) -> None:
    other = World({"p0": pool}, engine=engine)
    announcer(other)
    fill(pool, 95)
    seen = world.agent.look()
    world.deliver(seen)
    other.deliver(seen)
    other.deliver(world.agent.look())
    assert events(world) == [EXCEEDED]
    fill(pool, 10)
    seen = world.agent.look()
    other.deliver(seen)
    world.deliver(seen)
    assert events(world) == [EXCEEDED, RECOVERED]


def test_a_scheduler_that_is_started_finds_what_is_over_by_its_thresholds(world: World, pool: StoragePool) -> None:
    """The figures are not new, but what the configuration says of them is."""
    fill(pool, 70)
    world.report()
    world.start_scheduler()
    announcer(world, percent=60)
    world.report()
    assert events(world) == [EXCEEDED]


def test_without_recipients_no_crossings_are_searched(world: World, pool: StoragePool) -> None:
    """Whoever is told later is told then."""
    nobody = options.Settings(
        host="here", drivers=[], only_changes=False, thresholds=options.Thresholds(), alert_urls=[]
    )
    silent = Announcer(world.database, AnnouncerConfig(nobody), None)
    world.report_handler.observers = [CapacityAlerts(world.hosts, silent)]
    fill(pool, 95)
    world.report()
    assert world.rows("SELECT free_capacity_gb, exceeded_at FROM pools") == [(5.0, None)]
    announcer(world)
    world.report()
    assert events(world) == [EXCEEDED]


def test_a_pool_that_is_not_known_to_be_full_is_not(world: World, pool: StoragePool) -> None:
    pool.total = 0
    world.report()
    assert events(world) == []
    fill(pool, 0, 1)
    world.report()
    assert [message.payload["used_percent"] for message in announced(world)] == [None]


@settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 300), st.integers(50, 150)), max_size=12),
    hysteresis=st.sampled_from([0.0, 5.0, 50.0]),
    restarts=st.sets(st.integers(0, 11)),
)
def test_whatever_is_reported_exceeded_and_recovered_alternate(
    steps: list[tuple[int, int, int]], hysteresis: float, restarts: set[int]
) -> None:
    pool = StoragePool(100, 2.0, thin=True, thick=True)
    world = World({"p0": pool}).started()
    announcer(world, hysteresis=hysteresis)
    over, expected = False, []
    for number, (thick, thin, total) in enumerate(steps):
        if number in restarts:
            world.start_scheduler()
            announcer(world, hysteresis=hysteresis)
        pool.total = max(total, thick)
        fill(pool, thick, thin)
        world.report()
        used, held, limit = thick / pool.total * 100, thick + thin, pool.total * 2
        if used > 90 + HAIR or held > limit + HAIR:
            expected += [] if over else [EXCEEDED]
            over = True
        elif used <= 90 - hysteresis + HAIR and held <= limit * (1 - hysteresis / 100) + HAIR:
            expected += [RECOVERED] if over else []
            over = False
    assert events(world) == expected
    assert expected == [(EXCEEDED, RECOVERED)[place % 2] for place in range(len(expected))]
