# SPDX-License-Identifier: Apache-2.0
"""What users learn of refusals and of a ledger that does not answer, by the policy."""

import logging
import sqlite3

import pytest

from tests.unit.api.cluster import OWN_KEYS, Client, Cluster, wait_until
from tests.unit.ledger import faults


def test_a_member_learns_no_names_and_figures_of_pools(member: Client, client: Client, project: str) -> None:
    path = f"/v3/{project}/volumes"
    volume_id = member.create(1, path=path)["id"]
    client.wait_until_settled(volume_id)
    refused = [
        member.at("POST", path, OWN_KEYS, json={"volume": {"size": 5000}}),
        member.at("POST", f"{path}/{volume_id}/action", OWN_KEYS, json={"os-extend": {"new_size": 5000}}),
    ]
    for answer in refused:
        assert answer.status_code == 409
        assert "box@disk" not in answer.text
        assert "headroom" not in answer.text
        fault = answer.json["conflictingRequest"]
        assert {"filter": "CapacityFilter", "refused": fault["refusal"]["pools"]} in fault["refusal"]["outcomes"]
        assert f"; {fault['largest_size_gb']} GiB would fit" in fault["message"]
    size = refused[0].json["conflictingRequest"]["largest_size_gb"]
    assert member.simulate_post(path, json={"volume": {"size": size + 1}}).status_code == 409
    fitting = member.create(size, path=path)["id"]
    client.wait_until_settled(fitting)
    assert member.simulate_delete(f"{path}/{fitting}").status_code == 202
    wait_until(lambda: client.simulate_get(f"/v3/volumes/{fitting}").status_code == 404)


def full_disk() -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_only_administrators_see_why_the_ledger_does_not_work(
    cluster: Cluster, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [
        cluster.client(),
        cluster.client("member", "reader", project=project),
        cluster.client("admin", project=project),
    ]
    with faults.failing(cluster.database.engine, "", full_disk()):
        answers = [client.simulate_get("/v3/types") for client in clients for _ in range(2)]
    assert [answer.status_code for answer in answers] == [503] * 6
    messages = [answer.json["serviceUnavailable"]["message"] for answer in answers]
    words = "The cause: the ledger cannot be written: database or disk is full"
    assert [message.endswith(words) for message in messages] == [True, True, False, False, True, True]
    assert not any("full" in message for message in messages[2:4])
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == [
        f"The ledger in {cluster.database.engine.url} cannot be written: database or disk is full; requests that "
        "need it fail until it can"
    ]
    assert not any(record.exc_info for record in caplog.records)
    cluster.database.connectivity.quiet = 0.0
    cluster.database.run(lambda session: None)
