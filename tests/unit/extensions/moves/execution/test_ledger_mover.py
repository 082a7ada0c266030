# SPDX-License-Identifier: Apache-2.0
"""The mover of Tonnage's own volumes."""

from tests.unit.extensions.moves.execution.plan_world import PLAN, PlanWorld, pool
from tonnage.extensions.moves.execution import step_outcomes
from tonnage.extensions.moves.execution.ledger_mover import LedgerMover
from tonnage.extensions.moves.records import plan_records

A, B = "a@x#p", "b@x#p"


def test_a_request_takes_effect_once() -> None:
    world = PlanWorld({A: pool(100), B: pool(50)})
    world.report_all()
    world.fill({A: [10]})
    world.apply("empty", target=A)
    core = world.schedulers[0].core
    core.database.run(plan_records.start, PLAN, [1])
    mover = LedgerMover(core.database, core.decisions.move)
    plan, [step] = core.database.run(plan_records.get, PLAN), core.database.run(plan_records.steps, PLAN)
    assert mover.outcomes(plan, [step]) == {1: step_outcomes.UNDECIDED}
    assert mover.request(plan, step) is mover.request(plan, step) is step_outcomes.UNDER_WAY
    assert mover.outcomes(plan, [step]) == {1: step_outcomes.UNDER_WAY}
    assert world.rows("SELECT COUNT(*) FROM claims WHERE verb = 'migrate'") == [(1,)]
    world.report_everything()
    assert mover.outcomes(plan, [step]) == {1: step_outcomes.StepOutcome("moved")}
    with core.database.reading() as session:
        assert mover.unsettled(session, plan) == set()
