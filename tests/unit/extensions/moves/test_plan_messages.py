# SPDX-License-Identifier: Apache-2.0
"""Questions for plans on the message bus."""

from tests.unit.extensions.moves.clouds import Cloud
from tonnage.extensions.moves.plan_messages import PLAN_MOVES, PlanQuery
from tonnage.rpc import serialization


def test_a_question_and_its_answer_survive_the_bus() -> None:
    query = PlanQuery(goal="relieve", arguments={"pool": "h@a#p", "below": 50})
    assert serialization.unpack(serialization.pack(query), PLAN_MOVES.message) == query
    plan = Cloud().add("a", 100, [60]).add("b", 100).plan(query.goal, **query.arguments)
    received = serialization.unpack(serialization.pack(plan), PLAN_MOVES.answer)
    assert received == plan
