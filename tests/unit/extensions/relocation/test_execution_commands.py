# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder plan apply`` and ``run``."""

import json
from typing import Any

import pytest

from tests.unit.extensions.relocation.cloud_api import A, B
from tests.unit.extensions.relocation.conftest import Served
from tonnage.capacity import errors
from tonnage.extensions.moves.records import plan_records
from tonnage.ledger.db import database

#: openstacksdk warns of a part of itself.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


def test_a_plan_is_carried_out_until_it_has_ended(moving: Served) -> None:
    moving.api.add(A, 10), moving.api.add(A, 20)
    status, output = moving.run("cinder plan apply empty h@a --per-backend 1 -f json")
    plan = json.loads(output)
    assert (status, plan["state"], plan["message"]) == (0, "finished", "h@a has no volume")
    assert set(moving.api.places().values()) == {B}


def test_a_plan_that_was_started_is_carried_on_by_another_process(
    moving: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    moving.api.add(A, 10)
    status, output = moving.run("cinder plan apply empty h@a --start -f json")
    plan = json.loads(output)
    assert (status, plan["state"]) == (0, "running")
    assert set(moving.api.places().values()) == {A}
    assert moving.run("cinder plan run")[0] == 0
    assert set(moving.api.places().values()) == {B}
    status, output = moving.run(f"cinder plan show {plan['id']} -f json")
    assert (status, json.loads(output)["state"]) == (0, "finished")


def test_a_plan_without_moves_leaves_no_record(moving: Served) -> None:
    status, output = moving.run("cinder plan apply empty h@a -f json")
    assert (status, json.loads(output)["id"]) == (0, None)
    assert moving.run("cinder plan list")[1].strip() == "No plan was carried out."


def test_a_plan_that_fails_has_another_status(moving: Served) -> None:
    moving.api.add(A, 10)
    moving.api.refused = {B, "h@c#p"}
    status, output = moving.run("cinder plan apply empty h@a --failures 1 -f json")
    assert (status, json.loads(output)["state"]) == (3, "failed")


def test_plans_of_another_cloud_are_left_alone(cloud: Served) -> None:
    cloud.api.add(A, 10)
    plan_id = json.loads(cloud.run("cinder plan apply empty h@a --start -f json")[1])["id"]
    ledger = database.connect(cloud.conf)

    def change(session: Any) -> None:
        row = plan_records.get(session, plan_id)
        row.mover_options = {**row.mover_options, "cloud": "http://else"}

    ledger.run(change)
    ledger.close()
    for line in ("cinder plan run", "cinder plan run --forever", "cinder plan apply empty h@b"):
        with pytest.raises(errors.ConfigurationError, match=f"plan {plan_id} in the database is one of the cloud"):
            cloud.run(line)


def test_plans_are_carried_out_with_a_database(cloud: Served) -> None:
    cloud.conf.clear_override("connection", "database")
    with pytest.raises(errors.ConfigurationError, match=r"set \[database\] connection"):
        cloud.run("cinder plan run")
