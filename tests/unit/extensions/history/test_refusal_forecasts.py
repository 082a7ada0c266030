# SPDX-License-Identifier: Apache-2.0
"""Refusals to come: recorded days are repeated on the pools as they are."""

import datetime
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import StoragePool, World
from tonnage.cli.simulation import scheduler_query
from tonnage.extensions.history import coming_refusals, history_writer, refusal_forecasts, tables
from tonnage.extensions.history import forecast_commands as forecasts
from tonnage.extensions.history.coming_refusals import ComingRefusals, StoredRefusals
from tonnage.extensions.history.history_reader import TypeDay
from tonnage.extensions.history.refusal_forecasts import RefusalForecaster
from tonnage.ledger import models
from tonnage.scheduler.simulation import simulator
from tonnage.scheduler.simulation.simulator import MAX_REQUESTS, Simulator, Snapshot

LONG_AGO = datetime.datetime(2026, 1, 1)  # noqa: DTZ001  (the ledger's times are UTC without a zone)

POOL_SUMS = ("in_flight_max", "allocated", "created", "deleted", "moved", "deleted_sum", "moved_sum")


@pytest.fixture
def world() -> Iterator[World]:
    """A pool with 100 GiB, and the type gold."""
    world = World({"p0": StoragePool(100, 1.0, thin=False, thick=True)}).started()
    with world.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType), [{"id": "t1", "name": "gold", "is_public": False}])
    yield world
    world.engine.dispose()


def snapshot(world: World) -> Snapshot:
    return Snapshot(world.hosts.table, world.rules.current, 20.0, dict(world.hosts.entries), "nova")


def expected(world: World, *days: dict[str, TypeDay] | None) -> dict[str, ComingRefusals]:
    found = refusal_forecasts.expect(Simulator(world.database), snapshot(world), days)
    assert found is not None
    return {each.type_id: each for each in found}


def add_days(world: World, number: int, created_gb: int) -> None:
    """Add days up to yesterday, with a new volume of the type gold on each."""
    with world.database.reading() as session:
        today = history_writer.database_time(session).replace(hour=0, minute=0, second=0, microsecond=0)
    slots = [today - datetime.timedelta(days=ago + 1) for ago in range(number)]
    same = {"grain": "day", "samples": 144}
    pool = {**same, "pool_id": 1, **{f"{name}_gb": 0 for name in POOL_SUMS}}
    flows = {"creates": 1, "created_gb": created_gb, "deleted_gb": 0, "retyped_gb": 0}
    kind = {**same, "type_id": "t1", "volumes": 1, "allocated_gb": 9, **flows}
    with world.engine.begin() as connection:
        connection.execute(sa.insert(tables.PoolHistory), [{**pool, "slot": slot} for slot in slots])
        connection.execute(sa.insert(tables.TypeHistory), [{**kind, "slot": slot} for slot in slots])


def stored(world: World) -> list[StoredRefusals]:
    with world.database.reading() as session:
        return coming_refusals.latest(session)


def forecaster(world: World, snapshots: Callable[[], Snapshot] | None = None, **clock: Any) -> RefusalForecaster:
    taker: Any = SimpleNamespace(take=snapshots or (lambda: snapshot(world)))
    return RefusalForecaster(world.database, Simulator(world.database), taker, **clock)


def test_the_filter_that_refuses_first_is_told(world: World) -> None:
    """Of two of three days each takes 12 GiB: after 14 days about 112."""
    full, idle = {"t1": TypeDay(3, 12, 12)}, {"t1": TypeDay(0, 0, 0)}
    found = expected(world, *[full, full, idle] * 10)["t1"]
    assert found.runs == 20
    assert found.refused > 0
    assert found.text() == f"refused in {found.refused} of 20 runs within 14 days, CapacityFilter first"
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]


def test_deleted_volumes_make_room(world: World) -> None:
    found = expected(world, *[{"t1": TypeDay(10, 100, 0), "": TypeDay(1, 1, 1)}] * 30)
    # At the end, one more volume of 10 GiB fits.
    assert {type_id: each.text() for type_id, each in found.items()} == dict.fromkeys(
        ("t1", ""), "not refused in 20 runs of 14 days"
    )


@pytest.mark.heavy
def test_many_small_volumes_are_asked_for_as_fewer_larger_ones(world: World) -> None:
    found = expected(world, *[{"": TypeDay(1000, 1000, 1000)}] * 30)[""]
    assert found.refused == 20
    assert expected(world, *[{"": TypeDay(300, 300, 6)}] * 30)[""].refused == 0


def test_a_short_history_is_named(world: World) -> None:
    found = expected(world, *[None] * 40, *[{"t1": TypeDay(1, 1, 1)}] * 6)["t1"]
    assert found.text() == "no forecast: 6 of 21 days of history"
    assert expected(world) == {}


def test_the_same_history_has_the_same_result(world: World) -> None:
    days = [{"t1": TypeDay(1, number % 17, number % 17)} for number in range(40)]
    assert expected(world, *days)["t1"].text() == expected(world, *days)["t1"].text()


def test_what_if_says_the_same_to_the_word_when_a_forecast_is_made(world: World) -> None:
    add_days(world, 30, 20)
    forecaster(world).work(lambda: True)
    [found] = stored(world)
    text = forecasts._requests(found)
    assert text is not None
    message = scheduler_query.as_message({"requests": json.loads(text)}, "demo", None)
    outlooks = Simulator(world.database).what_if(message, simulator.requests_of(message), snapshot(world))
    *placed, refused = [outlook.volumes[0] for outlook in outlooks]
    assert all(each.pool is not None for each in placed)
    assert refused.pool is None
    assert refused.message == found.of.message
    assert refused.refusal is not None
    assert refused.refusal.reason[0] == found.of.filter == "CapacityFilter"


@pytest.mark.heavy
def test_more_types_than_requests_of_a_question_are_forecast(world: World) -> None:
    kinds = [{"id": f"u{number}", "name": f"kind{number}", "is_public": False} for number in range(MAX_REQUESTS + 1)]
    with world.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType), kinds)
    # Each grows by no volume in a run; at its end one is asked for, and the pool has room for 100 of them.
    found = expected(world, *[{kind["id"]: TypeDay(1, 1, 0) for kind in kinds}] * 30)
    assert sum(each.refused for each in found.values()) == refusal_forecasts.RUNS * (len(kinds) - 100)


def test_refusals_are_expected_once_an_hour(world: World) -> None:
    add_days(world, 30, 20)
    now = 0.0
    played = []

    def snapshots() -> Snapshot:
        played.append(now)
        return snapshot(world)

    forecasters = [forecaster(world, snapshots, clock=lambda: now) for _ in range(2)]
    for each in forecasters:
        each.work(lambda: True)
    # The second scheduler finds the result of the first.
    assert played == [0.0]
    [found] = stored(world)
    assert (found.volume_type, found.of.refused, found.of.filter) == ("gold", 20, "CapacityFilter")
    assert found.of.requests[0] == ("t1", 20)
    assert found.of.message is not None
    with world.engine.begin() as connection:
        an_hour_ago = sa.func.datetime(tables.ComingRefusals.made_at, "-3600 seconds")
        connection.execute(sa.update(tables.ComingRefusals).values(made_at=an_hour_ago))
    forecasters[0].work(lambda: True)
    assert played == [0.0]
    now = refusal_forecasts.INTERVAL
    forecasters[0].work(lambda: True)
    assert played == [0.0, now]
    assert len(stored(world)) == 1


def test_runs_end_with_the_thread(world: World) -> None:
    add_days(world, 30, 20)
    forecaster(world).work(lambda: False)
    assert stored(world) == []


def test_without_a_history_nothing_is_stored_until_there_is_one(world: World) -> None:
    without = forecaster(world)
    without.work(lambda: True)
    assert stored(world) == []
    add_days(world, 1, 20)
    without.work(lambda: True)
    assert [each.of.text() for each in stored(world)] == ["no forecast: 1 of 21 days of history"]


def test_a_day_later_the_result_is_not_shown(world: World) -> None:
    world.database.run(coming_refusals.store, [ComingRefusals(type_id="", known_days=1)])
    assert [each.of.text() for each in stored(world)] == ["no forecast: 1 of 21 days of history"]
    with world.engine.begin() as connection:
        connection.execute(sa.update(tables.ComingRefusals).values(made_at=LONG_AGO))
    assert stored(world) == []
