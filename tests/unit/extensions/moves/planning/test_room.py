# SPDX-License-Identifier: Apache-2.0
"""Moves that make room."""

import time

import pytest

from tests.unit.extensions.moves.clouds import Cloud, moves_of
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planning import pool_model, room
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.extensions.moves.planning.room import Demand


def size(volume: PlacedVolume) -> float:
    return volume.size_gb


def short(model: PoolModel) -> list[tuple[int, str, str]]:
    return moves_of(model.plan("", "", is_reached=True))


def test_a_pool_is_freed_by_an_amount() -> None:
    cloud = Cloud().add("a", 100, [50, 20, 10]).add("b", 100)
    model = cloud.model()
    assert room.free(model, Demand("h@a#p", 25, size)) is None
    assert short(model) == [(20, "a", "b"), (10, "a", "b")]


def test_nothing_moves_if_the_amount_cannot_be_freed() -> None:
    cloud = Cloud().add("a", 100, [50, 20]).add("b", 30)
    model = cloud.model()
    staying = room.free(model, Demand("h@a#p", 25, size))
    assert staying is not None
    assert [(volume.size_gb, "CapacityFilter refused 1" in volume.reason) for volume in staying] == [(50, True)]
    assert short(model) == []


def test_a_request_gets_room_with_the_fewest_gib_copied() -> None:
    cloud = Cloud().add("a", 50, [30]).add("b", 50, [25]).add("c", 30).add("d", 40, [40])
    model = cloud.model()
    [volume] = model.volumes("h@d#p")
    model.sources.add("h@d#p")
    assert room.make_room_for(model, model.request_of(volume), physical_gb=40) == "h@b#p"
    assert short(model) == [(25, "b", "c")]


def test_no_room_is_made_in_pools_that_are_emptied() -> None:
    cloud = Cloud().add("a", 50, [30, 20]).add("b", 25)
    model = cloud.model()
    model.sources.add("h@a#p")
    assert room.make_room_for(model, model.request_of(model.volumes("h@a#p")[0]), physical_gb=30) is None
    assert len(model) == 0


def test_thin_volumes_leave_no_physical_room_for_a_copy() -> None:
    """The copy of 40 GiB needs physical room, and the move of a thin volume is not certain to leave any."""
    cloud = Cloud().add("a", 100, [90], thin=True, ratio=2.0).add("b", 100, thin=True).add("d", 40, [40])
    model = cloud.model()
    [volume] = model.volumes("h@d#p")
    model.sources.update({"h@d#p", "h@b#p"})
    assert room.make_room_for(model, model.request_of(volume), physical_gb=40) is None


def test_no_move_is_tried_for_a_volume_that_is_larger_than_all_room(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud().add("large", 11, [11])
    for name in "abcde":
        cloud.add(name, 52, [20, 20, 10])
    model = cloud.model()
    model.sources.add("h@large#p")
    [volume] = model.volumes("h@large#p")
    monkeypatch.setattr(model, "target", lambda *arguments: pytest.fail("a move is tried"))
    assert model.total_room_gb() == 10
    assert room.make_room_for(model, model.request_of(volume), physical_gb=11, levels=1) is None


def test_a_plan_that_tries_for_long_ends_with_direct_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 30 GiB would fit in b if its 10 GiB moved to c, which is not tried any more."""
    cloud = Cloud().add("a", 50, [30, 5]).add("b", 35, [10]).add("c", 20)
    plan = goal_loader.load("empty", {"target": "h@a#p"}).plan(cloud.model())
    assert (plan.is_reached, moves_of(plan)) == (True, [(5, "a", "b"), (10, "b", "c"), (30, "a", "b")])
    monkeypatch.setattr(pool_model, "LONGEST_TRIALS", 0.0)
    plan = goal_loader.load("empty", {"target": "h@a#p"}).plan(cloud.model())
    assert not plan.is_reached
    assert [(size_gb, source) for size_gb, source, _ in moves_of(plan)] == [(5, "a")]
    assert plan.outcome.endswith("(after 0 s of trials; other moves may do it)")
    assert [volume.size_gb for volume in plan.staying] == [30]


def test_inner_trials_count_as_a_part_of_the_outer_one() -> None:
    model = Cloud().add("a", 50).model()
    began = time.thread_time()
    with model.trial():
        with model.trial():
            model.count_trial(began - 100)
        assert not model.is_exhausted
    model.count_trial(began - 100)
    assert model.is_exhausted
