# SPDX-License-Identifier: Apache-2.0
"""The details of recorded plans."""

from dataclasses import replace

from tests.unit.extensions.moves.clouds import Cloud
from tests.unit.ledger.records import new_id
from tonnage.extensions.moves.planning.plan import StayingVolume
from tonnage.extensions.moves.records import plan_details, plan_records
from tonnage.extensions.moves.records.plan_details import PoolLevels
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.records.plan_records import NewPlan


def test_a_plan_is_read_as_it_was_recorded() -> None:
    cloud = Cloud().add("a", 100, [30, 20]).add("b", 40, [10]).add("c", 200, thin=True, ratio=9.0)
    plan = cloud.plan("empty", target="h@a#p")
    stays = StayingVolume(volume_id=new_id(), size_gb=5, pool="h@a#p", reason="it is in use")
    plan = replace(plan, staying=(stays,), is_reached=False)
    new_plan = NewPlan(id=new_id(), goal="empty", arguments={"target": "h@a#p"}, limits=Limits())
    cloud.database.run(plan_records.insert, new_plan, plan)
    with cloud.database.reading() as session:
        assert plan_details.answer(session, new_plan.id) == plan
        assert plan_details.answer(session, new_id()) is None
    [into] = [change for change in plan.pools if change.pool == "h@c#p"]
    assert (into.before.promised_gb, into.after.promised_gb, into.after.promise_limit_gb) == (0, 50, 1800)


def test_a_new_generation_keeps_the_levels_from_before_the_plan() -> None:
    cloud = Cloud().add("a", 100, [30, 20]).add("b", 50, [10]).add("c", 100)
    first = cloud.plan("empty", target="h@a#p")
    new_plan = NewPlan(id=new_id(), goal="empty", arguments={"target": "h@a#p"}, limits=Limits())
    cloud.database.run(plan_records.insert, new_plan, first)
    [change] = [change for change in first.pools if change.pool == "h@a#p"]
    later = replace(change, before=replace(change.before, promised_gb=7), after=replace(change.after, promised_gb=6))
    stays = tuple(
        StayingVolume(volume_id=new_id(), size_gb=1, pool="h@a#p", reason="it is in use")
        for _ in range(plan_details.MOST_STAYING + 1)
    )
    second = replace(first, pools=(later,), staying=stays, outcome="the second")
    assert cloud.database.run(plan_records.add_generation, new_plan.id, 1, second, "again", 0.0)
    with cloud.database.reading() as session:
        levels = {change.pool: change for change in plan_details.pools(session, new_plan.id)}
        assert len(plan_details.staying(session, new_plan.id)) == plan_details.MOST_STAYING
        assert plan_records.get(session, new_plan.id).outcome == "the second"
        again = plan_details.answer(session, new_plan.id)
    assert levels.keys() == {change.pool for change in first.pools}
    assert levels["h@a#p"].before.promised_gb == 50
    assert (levels["h@a#p"].after or change.after).promised_gb == 6
    # The second plan uses no other pool.
    [unused] = levels.keys() - {"h@a#p"}
    [before] = [change.before for change in first.pools if change.pool == unused]
    assert levels[unused] == PoolLevels(pool=unused, before=before, after=None)
    # The request that comes again gets its moves, and the rest of the plan as it was made last.
    assert again is not None
    assert (again.moves, again.outcome, len(again.staying)) == (first.moves, "the second", plan_details.MOST_STAYING)
    assert again.pools == (replace(later, before=change.before),)


def test_a_pool_that_a_later_generation_uses_again_has_its_levels_again() -> None:
    cloud = Cloud().add("a", 100, [30]).add("b", 100)
    plan = cloud.plan("empty", target="h@a#p")
    new_plan = NewPlan(id=new_id(), goal="empty", arguments={"target": "h@a#p"}, limits=Limits())
    run = cloud.database.run
    run(plan_records.insert, new_plan, plan)
    assert run(plan_records.add_generation, new_plan.id, 1, replace(plan, pools=()), "again", 0.0)
    assert [levels.after for levels in run(plan_details.pools, new_plan.id)] == [None, None]
    with cloud.engine.connect() as connection:
        nulls = "SELECT COUNT(*) FROM move_plan_levels WHERE level_after IS NULL"
        assert connection.exec_driver_sql(nulls).scalar() == 2
    assert run(plan_records.add_generation, new_plan.id, 2, plan, "again", 0.0)
    assert [levels.after for levels in run(plan_details.pools, new_plan.id)] == [change.after for change in plan.pools]
