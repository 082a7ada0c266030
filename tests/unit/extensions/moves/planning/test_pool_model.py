# SPDX-License-Identifier: Apache-2.0
"""The pools while a plan is made."""

from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.extensions.moves.clouds import Cloud
from tonnage.capacity.decision import Placement
from tonnage.capacity.pools.pool import Pool
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.scheduler.simulation.growth_forecasts import PoolGrowth


def figures(pools: PoolTable) -> list[tuple[float, ...]]:
    return [
        (pool.allocated, pool.claimed, pool.claimed_physical, pool.in_flight, pool.in_flight_physical)
        for pool in (pools.row(index) for index in range(len(pools)))
    ]


def moved(model: PoolModel, pool: str) -> None:
    [volume, *_] = model.volumes(pool)
    target = model.target(volume)
    assert not isinstance(target, str)
    model.move(volume, *target)


def test_moves_that_are_taken_back_leave_no_trace() -> None:
    cloud = Cloud().add("a", 100, [30, 10]).add("b", 100, [5])
    model = cloud.model()
    before = figures(model.pools)
    moved(model, "h@a#p")
    after_one = figures(model.pools)
    moved(model, "h@a#p")
    assert (len(model), model.copied_since(1)) == (2, 10)
    model.take_back(1)
    assert figures(model.pools) == after_one
    model.take_back(0)
    assert figures(model.pools) == before
    assert [volume.size_gb for volume in model.volumes("h@a#p")] == [30, 10]


def test_a_thin_volume_leaves_its_promise_but_no_physical_room() -> None:
    cloud = Cloud().add("a", 100, [30], thin=True, ratio=2.0).add("b", 100, thin=True)
    model = cloud.model()
    before = model.level("h@a#p")
    moved(model, "h@a#p")
    after = model.level("h@a#p")
    assert (before.promised_gb, after.promised_gb) == (30, 0)
    assert (before.used_gb, after.used_gb) == (30, 30)


def test_the_levels_count_the_reserve_and_the_ratio() -> None:
    level = Cloud().add("a", 100, [40], thin=True, ratio=3.0, written=0.5).model().level("h@a#p")
    assert (level.promised_gb, level.promise_limit_gb, level.used_gb, level.physical_limit_gb) == (40, 300, 20, 100)


def test_an_unlimited_pool_has_no_bounds() -> None:
    level = Cloud().add("a", float("inf")).model().level("h@a#p")
    assert (level.promise_limit_gb, level.used_gb, level.physical_limit_gb) == (None, None, None)
    with pytest.raises(LookupError, match="the plan has no pool h@x#p"):
        Cloud().model().level("h@x#p")


def test_a_new_volume_takes_room_for_the_moves_after_it() -> None:
    cloud = Cloud().add("a", 100, [60]).add("b", 70)
    model = cloud.model()
    [volume] = model.volumes("h@a#p")
    model.take_room(Placement("h@b#p", Provisioning.THICK), model.request_of(volume))
    assert isinstance(model.target(volume), str)


POOLS = st.tuples(
    st.integers(10, 60),
    st.lists(st.integers(1, 20), max_size=5),
    st.sampled_from([(False, 1.0), (True, 1.0), (True, 2.0)]),
)
GOALS = st.sampled_from(
    [
        ("empty", {"target": "h@a#p"}),
        ("relieve", {"pool": "h@a#p", "below": 40}),
        ("relieve", {"pool": "h@a#p", "below": 30, "bound": "promised"}),
        ("balance", {"points": 5}),
        ("fit", {"size": 15, "count": 2}),
    ]
)


@pytest.fixture(scope="module")
def shared() -> Cloud:
    """A cloud with the ledger that all examples use, one after another."""
    return Cloud()


@given(st.lists(POOLS, min_size=2, max_size=5), GOALS)
def test_no_plan_passes_a_bound(
    shared: Cloud, pools: list[tuple[int, list[int], tuple[bool, float]]], goal: tuple[str, dict[str, Any]]
) -> None:
    """The check of each plan in :meth:`Cloud.plan` plays it with an arithmetic of its own."""
    cloud = Cloud(engine=shared.engine)
    for letter, (total, sizes, (thin, ratio)) in zip("abcde", pools, strict=False):
        cloud.add(letter, total, sizes, thin=thin, ratio=ratio, written=min(1.0, total / max(1, sum(sizes))))
    plan = cloud.plan(goal[0], **goal[1])
    if goal[0] == "empty" and plan.is_reached:
        assert cloud.promised["h@a#p"] == 0
    if goal[0] == "empty":
        assert len(plan.staying) == list(cloud.places.values()).count("h@a#p")


def test_a_pool_accepts_a_volume_that_passes_neither_bound() -> None:
    """The scheduler looks at the promises of a thin volume alone; its copy is written in full."""
    cloud = Cloud().add("a", 100, [30], thin=True).add("b", 100, [80], thin=True, ratio=2.0)
    cloud.add("c", 40, thin=True)
    model = cloud.model()
    [volume] = model.volumes("h@a#p")
    assert "a copy of 30 GiB passes a bound: 20.0 GiB are free" in str(model.accepts(volume, "h@b#p"))
    assert model.accepts(volume, "h@x#p") == "no report has named pool h@x#p"
    placement = model.accepts(volume, "h@c#p")
    assert placement == Placement("h@c#p", Provisioning.THIN)
    model.copy(volume, placement)
    assert "CapacityFilter refused 1" in str(model.accepts(volume, "h@c#p"))
    assert model.level("h@a#p").promised_gb == 30


def test_a_pool_of_another_plan_gives_and_takes_nothing() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100, [10])
    snapshot = cloud.model()
    model = PoolModel(snapshot.pools, cloud.rules, PlacedVolumes(cloud.database), {"h@b#p": "seven"})
    [volume] = model.volumes("h@a#p")
    assert str(model.target(volume)).endswith("would go to h@b#p, which plan seven uses")
    [held] = model.volumes("h@b#p")
    assert (held.spec, held.reason) == (None, "plan seven uses h@b#p")


def test_no_volume_leaves_a_backend_whose_driver_says_that_it_is_down() -> None:
    cloud = Cloud().add("a", 100, [30], backend_state="down").add("b", 100)
    model = cloud.model()
    [volume] = model.volumes("h@a#p")
    assert (volume.spec, volume.reason) == (None, "backend h@a is down")
    [read] = PlacedVolumes(cloud.database).read(cloud.ids["a"]).values()
    assert model.accepts(read, "h@b#p") == "backend h@a is down"


def test_a_volume_that_has_changed_since_it_was_listed_cannot_be_moved() -> None:
    cloud = Cloud().add("a", 100, [30, 20, 10]).add("b", 100)
    model = cloud.model()
    volumes = model.candidates("h@a#p")
    with cloud.engine.begin() as connection:
        connection.execute(sa.text(f"DELETE FROM volumes WHERE id = '{volumes[0].id}'"))
        connection.execute(sa.text(f"UPDATE volumes SET size_gb = 21 WHERE id = '{volumes[1].id}'"))
    gone, grown, same = model.in_full(volumes)
    for volume in (gone, grown):
        assert (volume.spec, volume.is_brief) == (None, False)
        assert volume.reason == f"volume {volume.id} has changed meanwhile"
    assert same.spec is not None
    assert model.in_full([same]) == [same]
    assert [volume.size_gb for volume in model.volumes("h@a#p")] == [30, 20, 10]


def test_a_moved_volume_is_no_candidate_until_the_move_is_taken_back() -> None:
    cloud = Cloud().add("a", 100, [30, 20]).add("b", 100)
    model = cloud.model()
    first, second = model.volumes("h@a#p")
    target = model.target(first)
    assert isinstance(target, tuple)
    model.move(first, *target)
    assert [volume.id for volume in model.candidates("h@a#p")] == [second.id]
    model.take_back(0)
    assert [volume.id for volume in model.candidates("h@a#p")] == [first.id, second.id]


def pools_on_storages(**storages: tuple[str | None, float]) -> PoolModel:
    """Return the model of thin pools, each with the name and the free GiB of its storage, nan for a whole one."""
    cloud = Cloud()
    for name, (storage_id, storage_free) in storages.items():
        cloud.table.put(
            Pool(
                name=f"h@{name}#p",
                total=1000,
                free=800,
                provisioned=200,
                allocated=200,
                thin=True,
                storage_id=storage_id,
                storage_free=storage_free,
            )
        )
    return cloud.model()


def levels_after_growth(model: PoolModel, **growth: tuple[float, float]) -> dict[str, tuple[float, float | None]]:
    """Return the used and the promised GiB of pools and their room after a physical and a promised growth."""
    model.grow(
        {
            f"h@{name}#p": PoolGrowth(physical_gb=physical_gb, promised_gb=promised_gb)
            for name, (physical_gb, promised_gb) in growth.items()
        }
    )
    levels = {name: model.level(f"h@{name}#p") for name in growth}
    return {name: (level.promised_gb, level.used_gb) for name, level in levels.items()}


NAN = float("nan")


def test_the_growth_of_a_storage_counts_once_for_all_of_its_pools() -> None:
    """Each of them reports the figures of the whole storage, so each has a forecast for all of it."""
    model = pools_on_storages(a=("s", NAN), b=("s", NAN), c=("s", NAN), d=("t", NAN), e=(None, NAN))
    growth = {"a": (100.0, 90.0), "b": (120.0, -5.0), "c": (110.0, 80.0), "d": (30.0, 40.0), "e": (10.0, 20.0)}
    shared = (290, 320)
    expected = {"a": shared, "b": shared, "c": shared, "d": (240, 230), "e": (220, 210)}
    assert levels_after_growth(model, **growth) == expected


def test_each_part_of_a_storage_grows_by_itself() -> None:
    model = pools_on_storages(a=("s", 900.0), b=("s", 900.0))
    growth = {"a": (100.0, 90.0), "b": (120.0, 70.0)}
    assert levels_after_growth(model, **growth) == {"a": (290, 300), "b": (270, 320)}
    assert model.physical_room("h@a#p") == 900 - 220


def test_the_growth_of_a_whole_storage_contains_that_of_its_parts() -> None:
    model = pools_on_storages(a=("s", NAN), b=("s", 750.0), c=("s", 750.0))
    growth = {"a": (100.0, 90.0), "b": (20.0, 30.0), "c": (40.0, 50.0)}
    assert levels_after_growth(model, **growth) == {"a": (290, 300), "b": (230, 220), "c": (250, 240)}
    assert model.physical_room("h@b#p") == 750 - 100
