# SPDX-License-Identifier: Apache-2.0
"""Refusals to come: recorded days are repeated on the pools as they are."""

import json
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import StoragePool, World
from tonnage.cli.overviews import forecasts
from tonnage.cli.simulation import scheduler_query
from tonnage.ledger import models
from tonnage.ledger.history.history_reader import TypeDay
from tonnage.scheduler.simulation import coming_refusals, simulator
from tonnage.scheduler.simulation.coming_refusals import ComingRefusals
from tonnage.scheduler.simulation.simulator import Simulator, Snapshot


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
    return {each.type_id: each for each in coming_refusals.expect(Simulator(world.database), snapshot(world), days)}


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


def test_what_if_says_the_same_to_the_word(world: World) -> None:
    found = expected(world, *[{"t1": TypeDay(2, 20, 20), "": TypeDay(1, 1, 1)}] * 30)["t1"]
    text = forecasts._requests(forecasts._TypeRow("gold", found))
    assert text is not None
    question = {"requests": json.loads(text)}
    message = scheduler_query.as_message(question, "demo", None)
    outlooks = Simulator(world.database).what_if(message, simulator.requests_of(message), snapshot(world))
    *placed, refused = [outlook.volumes[0] for outlook in outlooks]
    assert all(each.pool is not None for each in placed)
    assert refused.pool is None
    assert refused.message == found.message
    assert refused.refusal is not None
    assert refused.refusal.reason[0] == found.filter == "CapacityFilter"
