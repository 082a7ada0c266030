# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler."""

from tests.unit.api.cluster import BACKEND, Client, Cluster
from tonnage.extensions.moves.plan_messages import PLAN_MOVES
from tonnage.extensions.moves.planning.plan import PlanQuery


def test_a_scheduler_answers_questions_for_plans(cluster: Cluster, client: Client) -> None:
    volume = client.wait_until_settled(client.create(1)["id"])
    plan = cluster.scheduler.call(PLAN_MOVES, PlanQuery(goal="empty", arguments={"target": f"{BACKEND}#thin"}))
    assert volume["id"] in {move.volume_id for move in plan.moves}
    client.simulate_delete(f"/v3/volumes/{volume['id']}")
    client.wait_until_settled(volume["id"])
