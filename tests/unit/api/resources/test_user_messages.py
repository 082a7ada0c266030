# SPDX-License-Identifier: Apache-2.0
"""User messages: who sees them, and what of them."""

import datetime
import uuid

from tests.unit.api.cluster import OWN_KEYS, Client, Cluster


def test_a_failed_volume_has_the_reason(cluster: Cluster, client: Client, member: Client, project: str) -> None:
    with cluster.storage.failing("the disk is on fire"):
        volume_id = client.create(1, path=f"/v3/{project}/volumes")["id"]
        volume = client.wait_until_settled(volume_id)
    assert volume["status"] == "error"
    assert "the disk is on fire" in volume["status_reason"]

    told = client.simulate_get(f"/v3/{project}/messages?resource_uuid={volume_id}").json["messages"]
    assert len(told) == 1
    assert "the disk is on fire" in told[0]["user_message"]
    assert (told[0]["resource_type"], told[0]["message_level"]) == ("VOLUME", "ERROR")
    made, kept = (datetime.datetime.fromisoformat(told[0][each]) for each in ("created_at", "guaranteed_until"))
    assert kept - made == datetime.timedelta(days=30)
    for path in (f"/v3/{project}/volumes/{volume_id}", f"/v3/{project}/messages", f"/v3/{project}/volumes/detail"):
        seen = member.at("GET", path, OWN_KEYS)
        assert seen.status_code == 200
        assert "the disk is on fire" not in seen.text
        assert "An administrator can see the reason." in seen.text
    path = f"/v3/{project}/messages/{told[0]['id']}"
    assert client.simulate_get(path).json["message"] == told[0]
    assert client.simulate_delete(path).status_code == 204
    assert client.simulate_get(path).status_code == 404

    client.simulate_delete(f"/v3/{project}/volumes/{volume_id}")
    assert client.wait_until_settled(volume_id) is None


def test_messages_are_isolated(cluster: Cluster, client: Client, member: Client) -> None:
    with cluster.storage.failing("no"):
        volume_id = client.create(1, path=f"/v3/{uuid.uuid4().hex}/volumes")["id"]
        volume = client.wait_until_settled(volume_id)
    path = f"/v3/{volume['os-vol-tenant-attr:tenant_id']}/messages"
    message_id = client.simulate_get(path).json["messages"][0]["id"]
    assert member.simulate_get("/v3/messages").json == {"messages": []}
    assert member.simulate_get(f"/v3/messages/{message_id}").status_code == 404
    assert member.simulate_delete(f"/v3/messages/{message_id}").status_code == 404
    assert client.simulate_get(f"/v3/messages/{message_id}").status_code == 200
