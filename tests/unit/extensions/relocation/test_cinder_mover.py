# SPDX-License-Identifier: Apache-2.0
"""Cinder as the mover of a plan's volumes."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.extensions.relocation.cloud_api import CLOUD, INTERVAL, PROJECT, A, B, C, CloudApi, CloudWorld
from tests.unit.ledger.records import new_id
from tonnage.capacity import errors
from tonnage.extensions.moves.execution import step_outcomes
from tonnage.extensions.moves.execution.step_outcomes import StepOutcome
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.extensions.moves.records import plan_records
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.records.tables import MovePlanRow, MoveStepRow
from tonnage.extensions.relocation import plan_choices
from tonnage.extensions.relocation.cinder_mover import CinderMover
from tonnage.extensions.relocation.plan_choices import Choices


class Started:
    """A plan that empties pool A of one volume; its step is marked, and no request was sent."""

    def __init__(self, api: CloudApi, volume_id: str, **choices: Any) -> None:
        self.api, self.volume_id = api, volume_id
        self.world = CloudWorld(api)
        options = Choices(cloud=CLOUD, **choices).as_options()
        query = PlanQuery(goal="empty", arguments={"target": A}, options=options)
        new_plan = plan_records.NewPlan(
            id=new_id(), goal="empty", arguments=query.arguments, limits=Limits(), mover="cinder", mover_options=options
        )
        self.plan_id = new_plan.id
        run = self.world.database.run
        run(plan_records.insert, new_plan, self.world.planner.plan_beside(query, {}))
        self.world.planner.model(query)
        [volume] = self.world.planner.volumes(query).read([volume_id]).values()
        run(plan_records.start, self.plan_id, [1], {1: volume.state})
        self.mover = self.world.mover()
        api.requests.clear()

    @property
    def plan(self) -> MovePlanRow:
        return self.world.database.read(plan_records.get, self.plan_id)

    @property
    def step(self) -> MoveStepRow:
        [step] = self.world.database.read(plan_records.steps, self.plan_id)
        return step

    def outcome(self, mover: CinderMover | None = None) -> StepOutcome:
        return (mover or self.mover).outcomes(self.plan, [self.step])[1]

    def request(self, mover: CinderMover | None = None) -> StepOutcome:
        return (mover or self.mover).request(self.plan, self.step)

    def grow_older(self, seconds: float) -> None:
        """Let the mark of the step be so many seconds older."""
        text = f"UPDATE move_steps SET started_at = datetime(started_at, '-{seconds} seconds')"
        with self.world.engine.begin() as connection:
            connection.exec_driver_sql(text)

    def orders(self) -> list[Any]:
        return [body for method, _, body in self.api.requests if method == "POST"]


@pytest.fixture
def api() -> CloudApi:
    return CloudApi({A: 100, B: 100, C: 50})


@pytest.fixture
def started(api: CloudApi) -> Started:
    return Started(api, api.add(A, 10))


def test_a_move_is_ordered_once_and_watched_until_it_ends(started: Started) -> None:
    assert started.request() is started.outcome() is step_outcomes.UNDER_WAY
    assert started.api.volumes[started.volume_id]["status"] == "maintenance"
    assert started.request() is step_outcomes.UNDER_WAY
    assert started.orders() == [{"os-migrate_volume": {"host": B, "force_host_copy": False, "lock_volume": True}}]
    started.api.pass_time()
    assert started.outcome() == started.request() == StepOutcome("moved")
    assert len(started.orders()) == 1


def test_another_process_orders_a_move_only_after_a_while(started: Started) -> None:
    other = started.world.mover()
    assert started.outcome(other) is step_outcomes.UNDER_WAY, "the process that has marked the step is about to"
    started.grow_older(20)
    assert started.request() is step_outcomes.UNDER_WAY, "it was suspended"
    assert started.orders() == []
    started.grow_older(20)
    assert started.outcome(other) is step_outcomes.UNDECIDED
    assert started.request(other) is started.outcome() is step_outcomes.UNDER_WAY
    assert len(started.orders()) == 1


def test_of_two_orders_at_the_same_time_cinder_accepts_one(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate, other = started.world.client.migrate, started.world.mover()

    def be_late(*arguments: Any, **more: Any) -> None:
        monkeypatch.setattr(started.world.client, "migrate", migrate)
        assert started.request(other) is step_outcomes.UNDER_WAY
        migrate(*arguments, **more)

    monkeypatch.setattr(started.world.client, "migrate", be_late)
    assert started.request() is step_outcomes.UNDER_WAY
    assert list(started.api.targets) == [started.volume_id]


def test_a_move_that_cinder_refuses_is_skipped_with_its_reason(started: Started) -> None:
    started.api.snapshots.append(("s1", started.volume_id))
    outcome = started.request()
    assert (outcome.state, str(outcome.message).startswith("Cinder refuses: Volume")) == ("skipped", True)
    assert started.outcome() is step_outcomes.UNDER_WAY


def test_a_move_that_fails_is_a_failure(started: Started) -> None:
    started.api.refused.add(B)
    started.request()
    started.api.pass_time()
    outcome = started.outcome()
    assert (outcome.state, "migration status error" in str(outcome.message)) == ("failed", True)
    assert started.request() == outcome, "it is not ordered again"
    assert len(started.orders()) == 1


def test_an_old_failure_is_none_of_this_move(api: CloudApi) -> None:
    started = Started(api, api.add(A, 10, **{"os-vol-mig-status-attr:migstat": "error"}))
    assert started.request() is step_outcomes.UNDER_WAY
    api.refused.add(B)
    api.pass_time()
    assert started.outcome().state == "failed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda api, volume_id: api.volumes.pop(volume_id), "the volume has been deleted meanwhile"),
        (lambda api, volume_id: api.change(volume_id, status="deleting"), "the volume has been deleted meanwhile"),
        (lambda api, volume_id: api.change(volume_id, host=C), f"the volume is in {C} meanwhile"),
    ],
)
def test_a_volume_that_went_on_is_no_failure(
    started: Started, change: Callable[[CloudApi, str], None], message: str
) -> None:
    change(started.api, started.volume_id)
    assert started.outcome() == started.request() == StepOutcome("skipped", message)
    assert started.orders() == []


def test_a_volume_that_has_changed_is_not_moved(started: Started) -> None:
    started.api.change(started.volume_id, name="other")
    assert started.request().state == "failed"
    assert started.orders() == []


def test_volumes_in_use_are_not_locked_and_locks_can_be_left_out(api: CloudApi) -> None:
    used = {"status": "in-use", "attachments": [{"server_id": "s1"}]}
    for fields, choices in ((used, {"attached": True}), ({}, {"lock": False})):
        started = Started(api, api.add(A, 10, **fields), **choices)
        started.request()
        assert started.orders()[0]["os-migrate_volume"]["lock_volume"] is False
        api.pass_time()
        assert started.outcome() == StepOutcome("moved")


def test_a_pool_of_a_cluster_is_named_as_such(api: CloudApi) -> None:
    api.services["h@b"]["cluster"] = "h@b"
    started = Started(api, api.add(A, 10))
    started.request()
    assert started.orders()[0]["os-migrate_volume"]["cluster"] == B


def test_a_volume_gets_its_new_type_where_the_scheduler_chooses(api: CloudApi) -> None:
    for name, pool in zip("abc", (A, B, C), strict=True):
        api.pools[pool]["volume_backend_name"] = name
    api.types |= {"gold": {"volume_backend_name": "a"}, "silver": {"volume_backend_name": "c"}}
    started = Started(api, api.add(A, 10, volume_type="gold"), retype={"gold": "silver"})
    assert started.request() is step_outcomes.UNDER_WAY
    assert started.orders() == [{"os-retype": {"new_type": "silver", "migration_policy": "on-demand"}}]
    assert started.outcome() == StepOutcome("moved")
    api.change(started.volume_id, host=B)
    assert started.outcome() == StepOutcome("moved", f"Cinder's scheduler chose {B}")
    api.change(started.volume_id, host=A)
    assert started.outcome() == StepOutcome("failed", "Cinder gave it the type silver and left it in its pool")


def test_without_an_answer_the_next_look_tells(started: Started) -> None:
    started.api.status = 503
    with pytest.raises(errors.Unavailable):
        started.request()


def test_room_is_unsettled_until_reports_show_it(started: Started) -> None:
    database = started.world.database
    # Cinder's clock is that of the database.
    with database.reading() as session:
        started.api.now = session.execute(sa.select(sa.func.current_timestamp())).scalar_one()
    database.run(plan_records.end_step, started.plan_id, 1, "moved", None)

    def unsettled() -> set[str]:
        with database.reading() as session:
            return started.mover.unsettled(session, started.plan)

    assert unsettled() == {started.volume_id}
    started.api.now += datetime.timedelta(seconds=INTERVAL)
    assert unsettled() == {started.volume_id}, "that report may be the old one again"
    started.api.now += datetime.timedelta(seconds=5)
    assert unsettled() == set()
    started.api.now -= datetime.timedelta(seconds=INTERVAL)
    with started.world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE move_steps SET ended_at = datetime(ended_at, '-301 seconds')")
    assert unsettled() == set(), "a backend that does not report is not waited for"


def test_it_has_the_name_of_its_plans(started: Started) -> None:
    assert started.mover.name == plan_choices.MOVER
    assert started.world.database.read(plan_records.open_plans, "cinder")[0].mover_options["cloud"] == CLOUD
    assert PROJECT not in CLOUD
