# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder plan list``, ``show``, ``pause``, ``resume`` and ``stop``."""

import json

import pytest

from tests.unit.extensions.relocation.cloud_api import A, B
from tests.unit.extensions.relocation.conftest import Served
from tonnage.capacity import errors

#: openstacksdk warns of a part of itself.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


@pytest.fixture
def plan_id(cloud: Served) -> str:
    """A plan of one move that nobody carries out."""
    cloud.api.add(A, 10)
    return str(json.loads(cloud.run("cinder plan apply empty h@a --start -f json")[1])["id"])


def test_plans_are_listed_and_shown(cloud: Served, plan_id: str) -> None:
    [row] = json.loads(cloud.run("cinder plan list -f json")[1])
    assert (row["id"], row["goal"], row["state"], row["moves"]) == (plan_id, "empty h@a", "running", 1)
    assert row["mover"] == "cinder"
    assert cloud.run("cinder plan list --state finished")[1].strip() == "No plan was carried out."
    status, output = cloud.run(f"cinder plan show {plan_id} -f json")
    [step] = json.loads(output)["steps"]
    assert (status, step["source"], step["target"], step["state"]) == (0, A, B, "waiting")
    with pytest.raises(errors.NotFound, match="plan nothing could not be found"):
        cloud.run("cinder plan show nothing")


def test_plans_are_paused_resumed_and_stopped(cloud: Served, plan_id: str) -> None:
    for action, done, state in (
        ("pause", "is paused", "paused"),
        ("resume", "runs", "running"),
        ("stop", "is stopped", "stopped"),
    ):
        assert cloud.run(f"cinder plan {action} {plan_id}") == (0, f"Plan {plan_id} {done}\n")
        [row] = json.loads(cloud.run("cinder plan list -f json")[1])
        assert row["state"] == state
    assert cloud.run(f"cinder plan show {plan_id}")[0] == 3
    with pytest.raises(errors.Conflict, match="only a running or paused plan can be paused"):
        cloud.run(f"cinder plan pause {plan_id}")
