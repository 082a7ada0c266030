# SPDX-License-Identifier: Apache-2.0
"""Tests of projects and roles: users cannot see, change or count objects of other projects."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api.auth import policies
from tonnage.api.schemas import group_bodies, volume_bodies


@pytest.fixture
def foreign_volume(cluster: Cluster, client: Client) -> Any:
    """A volume of another project, with a message about it."""
    return client.wait_until_settled(client.create(1, path=f"/v3/{uuid.uuid4().hex}/volumes", name="secret")["id"])


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


@pytest.mark.parametrize("roles", [("member", "reader"), ("admin", "member", "reader")])
def test_users_without_a_project_are_rejected(cluster: Cluster, foreign_volume: Any, roles: tuple[str, ...]) -> None:
    """Tokens for a domain or for the system have roles and no project."""
    nobody = cluster.client(*roles, project=None)
    volumes = [
        "volumes",
        "volumes/detail",
        "volumes/summary",
        f"volumes/{foreign_volume['id']}",
        "volumes?all_tenants=1",
    ]
    for path in (*volumes, "groups", "groups/detail", "group_types", "types", "limits", "messages", "os-services"):
        answer = nobody.at("GET", f"/v3/{path}", 72)
        assert (answer.status_code, foreign_volume["id"] in answer.text) == (403, False), path
    for path, body in (("volumes", {"volume": {"size": 1}}), ("groups", {"group": {}})):
        assert nobody.at("POST", f"/v3/{path}", 72, json=body).status_code == 403


def test_lists_have_only_objects_of_the_users_project(member: Client, project: str, foreign_volume: Any) -> None:
    own = member.create(1, name="own")
    for query in (
        "",
        "?all_tenants=1",
        "?name=secret",
        f"?project_id={foreign_volume['os-vol-tenant-attr:tenant_id']}",
    ):
        found = member.simulate_get(f"/v3/volumes/detail{query}").json["volumes"]
        assert {volume["id"] for volume in found} <= {own["id"]}
    assert member.at("GET", "/v3/volumes?with_count=True&all_tenants=1", 45).json["count"] == 1
    assert member.simulate_get(f"/v3/volumes?marker={foreign_volume['id']}").status_code == 404


def test_members_cannot_filter_by_host(client: Client, member: Client) -> None:
    member.create(1)
    answer = member.simulate_get("/v3/volumes?host=box")
    assert (answer.status_code, list(answer.json)) == (403, ["forbidden"])
    assert member.at("GET", "/v3/volumes/summary?host=box", 36).status_code == 403
    assert client.simulate_get("/v3/volumes?host=box").status_code == 200


def test_administrators_can_list_all_projects(client: Client, foreign_volume: Any) -> None:
    def listed(query: str) -> set[str]:
        return {volume["id"] for volume in client.simulate_get(f"/v3/volumes{query}").json["volumes"]}

    assert foreign_volume["id"] not in listed("")
    assert foreign_volume["id"] in listed("?all_tenants=1")
    project = foreign_volume["os-vol-tenant-attr:tenant_id"]
    assert listed(f"?all_tenants=1&project_id={project}") == {foreign_volume["id"]}


def test_members_cannot_see_the_pool(member: Client, project: str) -> None:
    volume = member.create(1)
    assert "os-vol-host-attr:host" not in volume
    assert "provider_id" not in member.at("GET", f"/v3/volumes/{volume['id']}", 71).json["volume"]
    assert volume["os-vol-tenant-attr:tenant_id"] == project


def test_readers_cannot_change_anything(cluster: Cluster, member: Client, project: str) -> None:
    reader = cluster.client("reader", project=project)
    volume = member.create(1)
    member.wait_until_settled(volume["id"])
    assert reader.show(volume["id"])["id"] == volume["id"]
    assert reader.simulate_get("/v3/volumes").status_code == 200
    for method, suffix, body in CALLS[1:]:
        answer = reader.simulate_request(method, f"/v3/volumes/{volume['id']}{suffix}", json=body)
        assert answer.status_code == 403
        assert answer.json["forbidden"]["message"].startswith("Policy doesn't allow volume")
    for path in ("volumes", "snapshots", "backups"):
        assert reader.simulate_post(f"/v3/{path}", json={"volume": {"size": 1}}).status_code == 403


#: Calls for all users, as in Cinder.
OPEN = {
    ("GET", "/group_types"),
    ("GET", "/group_types/{group_type_id}"),
    ("GET", "/group_types/default"),
    ("GET", "/extensions"),
    ("GET", "/resource_filters"),
    ("GET", "/openapi.json"),
}

#: Bodies of calls whose rule depends on the body.
BODIES: dict[str, Any] = {
    "/types/{type_id}/action": {"addProjectAccess": {"project": "p"}},
    "/volumes/{volume_id}/action": {"os-unmanage": None},
    "/groups/{group_id}/action": {"delete": {}},
}

#: Arguments of actions on existing objects.
ARGUMENTS: dict[str, Any] = {
    "os-extend": {"new_size": 2},
    "os-migrate_volume": {"host": "x"},
    "os-reset_status": {"status": "error"},
    "os-retype": {"new_type": "x"},
    "delete": {"delete-volumes": True},
    "reset_status": {"status": "error"},
}

#: Kinds of objects of a project, by the name of their id in paths.
OWNED = ("volume_id", "group_id", "message_id")


def documented(client: Client) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each call below /v3 with the names of its rules."""
    for path, operations in client.simulate_get("/v3/openapi.json").json["paths"].items():
        for method, operation in operations.items():
            if method != "parameters" and path.startswith("/v3/"):
                yield method.upper(), path.removeprefix("/v3"), operation.get("x-policies", [])


def asked(asker: Client, method: str, path: str, body: Any = None, **names: str) -> Any:
    filled = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "x"), path)
    return asker.at(method, f"/v3{filled}", 72, json=body if body is not None else BODIES.get(path, {}))


def test_each_call_requires_the_roles_of_its_rules(cluster: Cluster, client: Client, project: str) -> None:
    """A user without a role may do nothing; members and readers may not make calls for administrators."""
    checks = {str(rule.name): rule.check_str for rule in policies.enabled_rules(configuration())}
    outsider, member = cluster.client("stranger", project=project), cluster.client("member", "reader", project=project)
    let_in, seen = [], 0
    for method, path, rules in documented(client):
        if (method, path) in OPEN:
            continue
        seen += 1
        # A call with the id of an object first looks it up among the objects that the user can see.
        refusal = 404 if any(f"{{{name}}}" in path for name in OWNED) else 403
        for_administrators = all(checks[rule] == policies.ADMIN for rule in rules)
        for asker in (outsider, member) if for_administrators else (outsider,):
            answer = asked(asker, method, path)
            if answer.status_code != refusal:
                let_in.append((method, path, asker is member, answer.status_code, answer.text))
    assert let_in == []
    assert seen > 90


def test_foreign_objects_get_the_same_responses_as_missing_ones(
    cluster: Cluster, client: Client, member: Client, foreign_volume: Any
) -> None:
    """This applies to all methods and all actions, and the calls change nothing."""
    other = foreign_volume["os-vol-tenant-attr:tenant_id"]
    name = uuid.uuid4().hex
    client.simulate_post("/v3/types", json={"volume_type": {"name": name}})
    client.at("POST", "/v3/group_types", 13, json={"group_type": {"name": name}})
    group = {"group": {"group_type": name, "volume_types": [name], "name": "secret"}}
    group_id = client.at("POST", f"/v3/{other}/groups", 13, json=group).json["group"]["id"]
    with cluster.storage.failing("no"):
        client.wait_until_settled(client.create(1, path=f"/v3/{other}/volumes")["id"])
    message_id = client.simulate_get(f"/v3/{other}/messages").json["messages"][0]["id"]
    ids = {"volume_id": foreign_volume["id"], "group_id": group_id, "message_id": message_id}
    absent = {key: str(uuid.uuid4()) for key in ids}
    whole = [client.simulate_get(f"/v3/{other}/{each}").text for each in ("volumes/detail", "messages")]
    whole.append(client.at("GET", f"/v3/{other}/groups/detail", 13).text)

    tried = 0
    for method, path, _ in documented(client):
        key = next((name for name in OWNED if f"{{{name}}}" in path), None)
        if key is None:
            continue
        actions = volume_bodies.VOLUME_ACTIONS if key == "volume_id" else group_bodies.GROUP_ACTIONS
        bodies = (
            [{action: ARGUMENTS.get(action)} for action in actions]
            if path.endswith("/action")
            else [{"volume": {"name": "mine"}, "group": {"name": "mine"}, "metadata": {"x": "y"}, "meta": {"x": "y"}}]
        )
        for body in bodies:
            tried += 1
            foreign, gone = (asked(member, method, path, body, **which) for which in (ids, absent))
            assert foreign.status_code == gone.status_code == 404, (method, path, body, foreign.text)
            assert foreign.text.replace(ids[key], absent[key]) == gone.text
            assert ids[key] in foreign.text
    assert tried >= 20
    assert [client.simulate_get(f"/v3/{other}/{each}").text for each in ("volumes/detail", "messages")] == whole[:2]
    assert client.at("GET", f"/v3/{other}/groups/detail", 13).text == whole[2]
