# SPDX-License-Identifier: Apache-2.0
"""The outcomes of steps, by the rows of the ledger."""

import pytest

from tests.unit.extensions.moves.execution.plan_world import PLAN, PlanWorld, pool
from tonnage.extensions.moves.execution import step_outcomes
from tonnage.extensions.moves.execution.step_outcomes import StepOutcome
from tonnage.extensions.moves.records import plan_records
from tonnage.rpc.messages import DeleteVolume, MigrateVolume
from tonnage.scheduler.requests.placement_requests import Move

A, B, C = "a@x#p", "b@x#p", "c@x#p"


@pytest.fixture
def plans() -> PlanWorld:
    """A world with a plan of one step, whose request has not been made."""
    world = PlanWorld({A: pool(100), B: pool(50), C: pool(40)})
    world.report_all()
    world.fill({A: [10]})
    world.apply("empty", target=A)
    world.schedulers[0].core.database.run(plan_records.start, PLAN, [1])
    return world


def outcome(plans: PlanWorld) -> StepOutcome:
    database = plans.schedulers[0].core.database
    with database.reading() as session:
        return step_outcomes.read(session, plan_records.steps(session, PLAN))[1]


def request(plans: PlanWorld) -> StepOutcome:
    [step] = plans.schedulers[0].core.database.run(plan_records.steps, PLAN)
    return step_outcomes.of_answer(plans.schedulers[0].core.decisions.move(step_outcomes.move_of(step)))


def volume(plans: PlanWorld) -> str:
    [[volume_id]] = plans.rows("SELECT volume_id FROM move_steps")
    return str(volume_id)


def test_a_step_is_undecided_then_under_way_then_moved(plans: PlanWorld) -> None:
    assert outcome(plans) is step_outcomes.UNDECIDED
    assert request(plans) is outcome(plans) is step_outcomes.UNDER_WAY
    plans.report_everything()
    assert outcome(plans) == StepOutcome("moved")
    assert request(plans) is step_outcomes.UNDER_WAY, "the same answer, without a second move"
    assert outcome(plans) == StepOutcome("moved")


def test_a_refused_step_is_skipped_with_the_reason(plans: PlanWorld) -> None:
    plans._open(B, False)
    assert request(plans) == outcome(plans)
    assert outcome(plans).state == "skipped"
    assert "is on a disabled backend" in str(outcome(plans).message)


def test_a_step_whose_volume_is_busy_is_skipped_with_the_reason(plans: PlanWorld) -> None:
    database = plans.schedulers[0].core.database
    plans.place(plans.schedulers[0], Move(MigrateVolume(request_id="other", volume_id=volume(plans), destination=C)))
    plans.executor(plans.schedulers[0]).work()
    [step] = database.run(plan_records.steps, PLAN)
    assert (step.state, "only an available volume can be moved" in str(step.message)) == ("skipped", True)


def test_a_volume_that_went_on_or_is_gone_is_no_failure(plans: PlanWorld) -> None:
    request(plans)
    plans.report_everything()
    plans.place(plans.schedulers[0], Move(MigrateVolume(request_id="other", volume_id=volume(plans), destination=C)))
    plans.report_everything()
    assert outcome(plans) == StepOutcome("skipped", f"the volume is in {C} meanwhile")
    plans.schedulers[0].core.operations.delete([DeleteVolume(request_id="req-delete", volume_id=volume(plans))])
    plans.report_everything()
    assert outcome(plans) == StepOutcome("skipped", "the volume has been deleted meanwhile")


def test_the_room_of_a_move_is_unsettled_until_reports_show_it(plans: PlanWorld) -> None:
    database = plans.schedulers[0].core.database

    def unsettled() -> set[str]:
        with database.reading() as session:
            return step_outcomes.unsettled(session, PLAN, 1)

    request(plans)
    plans._flush()
    plans.executor(plans.schedulers[0]).work()
    assert unsettled() == {volume(plans)}
    plans.report_everything()
    assert unsettled() == set()


def test_a_backend_that_stays_away_is_not_waited_for(plans: PlanWorld) -> None:
    request(plans)
    plans._flush()
    plans.executor(plans.schedulers[0]).work()
    plans.pass_time(61)
    with plans.schedulers[0].core.database.reading() as session:
        assert step_outcomes.unsettled(session, PLAN, 1) == set()
