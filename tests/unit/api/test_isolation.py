# SPDX-License-Identifier: Apache-2.0
"""Projects and roles: nobody sees, changes or counts what belongs to another project."""

import os
import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import Client
from tests.unit.api.cluster import Cluster


@pytest.fixture
def theirs(cluster: Cluster, client: Client) -> Any:
    """A volume of another project, with a message about it."""
    return client.settled(client.create(1, path=f"/v3/{uuid.uuid4().hex}/volumes", name="secret")["id"])


CALLS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("PUT", "", {"volume": {"name": "mine"}}),
    ("DELETE", "", None),
    ("POST", "/action", {"os-extend": {"new_size": 2}}),
    ("POST", "/action", {"os-reset_status": {"status": "error"}}),
    ("POST", "/action", {"os-retype": {"new_type": "x"}}),
    ("POST", "/action", {"os-migrate_volume": {"host": "x"}}),
    ("POST", "/action", {"os-unmanage": None}),
    ("POST", "/action", {"os-force_delete": None}),
]


@pytest.mark.parametrize(("method", "suffix", "body"), CALLS)
def test_a_foreign_volume_is_answered_as_an_absent_one(
    client: Client, member: Client, theirs: Any, method: str, suffix: str, body: Any
) -> None:
    absent = str(uuid.uuid4())
    answers = [
        member.simulate_request(method, f"/v3/volumes/{volume_id}{suffix}", json=body)
        for volume_id in (theirs["id"], absent)
    ]
    assert answers[0].status_code == answers[1].status_code == 404
    assert answers[0].text.replace(theirs["id"], absent) == answers[1].text
    assert client.show(theirs["id"]) == theirs


@pytest.mark.parametrize("roles", [("member", "reader"), ("admin", "member", "reader")])
def test_who_asks_for_no_project_may_do_nothing(cluster: Cluster, theirs: Any, roles: tuple[str, ...]) -> None:
    """Tokens for a domain or for the system have roles and no project."""
    nobody = cluster.client(*roles, project=None)
    volumes = ["volumes", "volumes/detail", "volumes/summary", f"volumes/{theirs['id']}", "volumes?all_tenants=1"]
    for path in (*volumes, "groups", "groups/detail", "group_types", "types", "limits", "messages", "os-services"):
        answer = nobody.at("GET", f"/v3/{path}", 72)
        assert (answer.status_code, theirs["id"] in answer.text) == (403, False), path
    for path, body in (("volumes", {"volume": {"size": 1}}), ("groups", {"group": {}})):
        assert nobody.at("POST", f"/v3/{path}", 72, json=body).status_code == 403


def test_lists_show_the_own_project_alone(member: Client, project: str, theirs: Any) -> None:
    own = member.create(1, name="own")
    for query in ("", "?all_tenants=1", "?name=secret", f"?project_id={theirs['os-vol-tenant-attr:tenant_id']}"):
        found = member.simulate_get(f"/v3/volumes/detail{query}").json["volumes"]
        assert {volume["id"] for volume in found} <= {own["id"]}
    assert member.at("GET", "/v3/volumes?with_count=True&all_tenants=1", 45).json["count"] == 1
    assert member.simulate_get(f"/v3/volumes?marker={theirs['id']}").status_code == 404


def test_where_a_volume_is_cannot_be_found_out_by_trying(client: Client, member: Client) -> None:
    member.create(1)
    answer = member.simulate_get("/v3/volumes?host=box")
    assert (answer.status_code, list(answer.json)) == (403, ["forbidden"])
    assert member.at("GET", "/v3/volumes/summary?host=box", 36).status_code == 403
    assert client.simulate_get("/v3/volumes?host=box").status_code == 200


def test_an_administrator_sees_all_when_he_asks(client: Client, theirs: Any) -> None:
    def listed(query: str) -> set[str]:
        return {volume["id"] for volume in client.simulate_get(f"/v3/volumes{query}").json["volumes"]}

    assert theirs["id"] not in listed("")
    assert theirs["id"] in listed("?all_tenants=1")
    project = theirs["os-vol-tenant-attr:tenant_id"]
    assert listed(f"?all_tenants=1&project_id={project}") == {theirs["id"]}


def test_members_are_not_told_the_pool(member: Client, project: str) -> None:
    volume = member.create(1)
    assert "os-vol-host-attr:host" not in volume
    assert "provider_id" not in member.at("GET", f"/v3/volumes/{volume['id']}", 71).json["volume"]
    assert volume["os-vol-tenant-attr:tenant_id"] == project


def test_readers_look_and_touch_nothing(cluster: Cluster, member: Client, project: str) -> None:
    reader = cluster.client("reader", project=project)
    volume = member.create(1)
    member.settled(volume["id"])
    assert reader.show(volume["id"])["id"] == volume["id"]
    assert reader.simulate_get("/v3/volumes").status_code == 200
    for method, suffix, body in CALLS[1:]:
        answer = reader.simulate_request(method, f"/v3/volumes/{volume['id']}{suffix}", json=body)
        assert answer.status_code == 403
        assert answer.json["forbidden"]["message"].startswith("Policy doesn't allow volume")
    for path in ("volumes", "snapshots", "backups"):
        assert reader.simulate_post(f"/v3/{path}", json={"volume": {"size": 1}}).status_code == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/scheduler-stats/get_pools"),
        ("POST", "/scheduler-stats/explain"),
        ("POST", "/scheduler-stats/what-if"),
        ("GET", "/os-services"),
        ("GET", "/os-hosts"),
        ("GET", "/os-hosts/box@disk"),
        ("GET", "/types/x/encryption"),
        ("PUT", "/os-services/enable"),
        ("PUT", "/os-services/drain"),
        ("GET", "/manageable_volumes"),
        ("GET", "/manageable_volumes/detail"),
        ("POST", "/manageable_volumes"),
        ("GET", "/os-volume-manage"),
        ("POST", "/os-volume-manage"),
        ("POST", "/types"),
        ("PUT", "/types/x"),
        ("DELETE", "/types/x"),
        ("GET", "/types/x/os-volume-type-access"),
        ("POST", "/types/x/extra_specs"),
        ("PUT", "/types/x/extra_specs/k"),
        ("DELETE", "/types/x/extra_specs/k"),
    ],
)
def test_what_is_for_administrators(member: Client, method: str, path: str) -> None:
    answer = member.simulate_request(method, f"/v3{path}", json={})
    assert answer.status_code == 403, answer.text


def test_nobody_without_a_role_may_do_anything(cluster: Cluster, project: str) -> None:
    stranger = cluster.client("stranger", project=project)
    for path in ("volumes", "volumes/detail", "types", "messages", "os-availability-zone", "snapshots", "backups"):
        assert stranger.simulate_get(f"/v3/{path}").status_code == 403


def test_messages_are_isolated(cluster: Cluster, client: Client, member: Client) -> None:
    with cluster.storage.failing("no"):
        volume_id = client.create(1, path=f"/v3/{uuid.uuid4().hex}/volumes")["id"]
        volume = client.settled(volume_id)
    path = f"/v3/{volume['os-vol-tenant-attr:tenant_id']}/messages"
    message_id = client.simulate_get(path).json["messages"][0]["id"]
    assert member.simulate_get("/v3/messages").json == {"messages": []}
    assert member.simulate_get(f"/v3/messages/{message_id}").status_code == 404
    assert member.simulate_delete(f"/v3/messages/{message_id}").status_code == 404
    assert client.simulate_get(f"/v3/messages/{message_id}").status_code == 200


def test_operators_may_change_rules(cluster: Cluster, project: str, tmp_path: Any) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text('"scheduler_extension:scheduler_stats:get_pools": "role:reader"\n')
    conf_file = tmp_path / "tonnage.conf"
    conf_file.write_text(f"[oslo_policy]\npolicy_file = {rules}\n")
    reader = cluster.client("reader", project=project, files=[str(conf_file)])
    assert reader.simulate_get("/v3/scheduler-stats/get_pools").status_code == 200
    rules.write_text('"scheduler_extension:scheduler_stats:get_pools": "role:admin"\n')
    later = rules.stat().st_mtime + 5
    os.utime(rules, (later, later))
    assert reader.simulate_get("/v3/scheduler-stats/get_pools").status_code == 403, "from the next request on"
