# SPDX-License-Identifier: Apache-2.0
"""Volumes over REST."""

import json
import uuid
from typing import Any
from urllib import parse

import pytest

from tests.unit.api.cluster import BACKEND, OWN_KEYS, Client, Cluster, wait_until
from tonnage.ledger.catalog import volumes

NULLS = dict.fromkeys(
    (
        "snapshot_id",
        "backup_id",
        "imageRef",
        "consistencygroup_id",
        "source_volid",
        "description",
        "metadata",
        "availability_zone",
        "name",
        "volume_type",
    )
)


def nested(depth: int) -> Any:
    """Return nested objects."""
    found: Any = 1
    for _ in range(depth):
        found = {"a": found}
    return found


def test_a_hint_is_a_whole_number_of_any_size(client: Client) -> None:
    body = {"volume": {"size": 1}, "OS-SCH-HNT:scheduler_hints": {"number": 10**30}}
    assert client.simulate_post("/v3/volumes", json=body).status_code == 202


def test_the_life_of_a_volume(client: Client) -> None:
    answer = client.simulate_post(
        "/v3/demo/volumes",
        json={
            "volume": {**NULLS, "size": 2, "name": " data ", "metadata": {"a": "b"}},
            "OS-SCH-HNT:scheduler_hints": None,
        },
    )
    assert answer.status_code == 202, answer.text
    volume = answer.json["volume"]
    assert volume["status"] in ("creating", "available")
    assert (volume["name"], volume["size"], volume["metadata"]) == ("data", 2, {"a": "b"})
    assert volume["availability_zone"] == "nova"

    shown = client.wait_until_settled(volume["id"])
    assert shown["status"] == "available"
    assert shown["os-vol-host-attr:host"] == f"{BACKEND}#thin"
    assert shown["os-vol-tenant-attr:tenant_id"] == "demo"
    assert shown["bootable"] == "false"
    assert shown["links"][0]["href"].endswith(f"/v3/demo/volumes/{volume['id']}")

    answer = client.simulate_post(f"/v3/volumes/{volume['id']}/action", json={"os-extend": {"new_size": 5}})
    assert (answer.status_code, answer.text) == (202, "")
    assert client.wait_until_settled(volume["id"])["size"] == 5

    answer = client.simulate_delete(f"/v3/demo/volumes/{volume['id']}?cascade=False&force=False")
    assert (answer.status_code, answer.text) == (202, "")
    assert client.wait_until_settled(volume["id"]) is None


def test_size_may_be_a_numeric_string(client: Client) -> None:
    volume = client.create("3")
    assert volume["size"] == 3
    client.wait_until_settled(volume["id"])
    answer = client.simulate_post(f"/v3/volumes/{volume['id']}/action", json={"os-extend": {"new_size": "4"}})
    assert answer.status_code == 202, answer.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "missing required field size"),
        ({"size": 0}, "volume.size: 0: expected a whole number of GiB from 1 to 2147483647"),
        ({"size": -1}, "volume.size: -1:"),
        ({"size": 1.5}, "volume.size: 1.5:"),
        ({"size": True}, "volume.size: true:"),
        ({"size": None}, "volume: size is null: expected a whole number of GiB from 1 to 2147483647"),
        ({"size": 2**31}, "volume.size: 2147483648:"),
        ({"size": "9" * 5000}, "volume.size:"),
        ({"size": "\u0663"}, "volume.size:"),
        ({"size": 1, "name": 5}, "volume.name: 5: expected str | null, got int"),
        ({"size": 1, "name": "n" * 256}, "volume.name: "),
        ({"size": 1, "metadata": {"k": 1}}, "volume.metadata[...]: expected str, got int"),
        ({"size": 1, "metadata": {"k" * 256: "v"}}, "a key of volume.metadata: expected str of length <= 255"),
        ({"size": 1, "source_volid": 5}, "volume.source_volid: 5: expected str | null, got int"),
        ({"size": 1, "scheduler_hints": 5}, "volume.scheduler_hints: 5: expected object | null, got int"),
        ({"size": 1, "imageRef": "x"}, "imageRef is set"),
        ({"size": 1, "consistencygroup_id": "x"}, "consistencygroup_id is set"),
        ({"size": 1, "backup_id": "x"}, "backup_id is set"),
        ({"size": 1, "multiattach": True}, "multiattach is true"),
        ({"size": 1, "multiattach": "YES"}, "multiattach is true"),
        ({"size": 1, "multiattach": "maybe"}, "multiattach is neither true nor false"),
        ({"size": 1, "OS-SCH-HNT:scheduler_hints": {"a": [["b"]]}}, "scheduler_hints"),
        ({"size": 1, "OS-SCH-HNT:scheduler_hints": {"a": {"b": [{"c": {"d": ["e"]}}]}}}, "scheduler_hints"),
        ({"size": 1, "scheduler_hints": {"a": nested(900)}}, "scheduler_hints"),
    ],
)
def test_errors_have_the_field_and_its_value(client: Client, fields: dict[str, Any], message: str) -> None:
    answer = client.simulate_post("/v3/volumes", json={"volume": fields})
    assert answer.status_code == 400
    assert answer.json["badRequest"]["code"] == 400
    assert message in answer.json["badRequest"]["message"]


def test_a_refusal_has_reasons_and_numbers(client: Client, project: str) -> None:
    answer = client.at("POST", f"/v3/{project}/volumes", OWN_KEYS, json={"volume": {"size": 5000}})
    assert answer.status_code == 409
    fault = answer.json["conflictingRequest"]
    assert fault["code"] == 409
    assert "No pool for 5000 GiB" in fault["message"]
    assert "CapacityFilter refused 2, nearest box@disk#thin has headroom" in fault["message"]
    refusal = fault["refusal"]
    assert refusal["pools"] == 2
    assert {"filter": "CapacityFilter", "refused": 2} in refusal["outcomes"]
    assert refusal["nearest"]["pool"] == f"{BACKEND}#thin"
    assert refusal["nearest"]["rejection"]["numbers"]
    assert client.simulate_get(f"/v3/{project}/volumes").json == {"volumes": []}


def test_a_refused_extension_changes_nothing(client: Client) -> None:
    volume_id = client.create(1)["id"]
    client.wait_until_settled(volume_id)
    answer = client.at("POST", f"/v3/volumes/{volume_id}/action", OWN_KEYS, json={"os-extend": {"new_size": 5000}})
    assert answer.status_code == 409
    assert answer.json["conflictingRequest"]["refusal"]["nearest"]["pool"].startswith(f"{BACKEND}#")
    assert (client.show(volume_id)["size"], client.show(volume_id)["status"]) == (1, "available")


def test_an_extension_must_increase_the_size(client: Client) -> None:
    volume_id = client.create(2)["id"]
    client.wait_until_settled(volume_id)
    for size in (1, 2):
        answer = client.simulate_post(f"/v3/volumes/{volume_id}/action", json={"os-extend": {"new_size": size}})
        assert answer.status_code == 400, answer.text


def test_hints_reach_the_scheduler_from_both_places_and_keys(client: Client, cluster: Cluster) -> None:
    topologies = [{"segments": {"zone": "z1", "rack": "r3"}}, {"segments": {"zone": "z2"}}]
    places = {"requisite": topologies, "preferred": topologies[:1]}
    hints = {"same_host": [client.create(1)["id"]], "n": 1, "accessibility_requirements": places}
    for body in (
        {"volume": {"size": 1}, "OS-SCH-HNT:scheduler_hints": hints},
        {"volume": {"size": 1, "OS-SCH-HNT:scheduler_hints": hints}},
        {"volume": {"size": 1}, "scheduler_hints": hints},
        {"volume": {"size": 1, "scheduler_hints": {"n": 1}}, "scheduler_hints": {**hints, "n": 2}},
    ):
        volume_id = client.simulate_post("/v3/volumes", json=body).json["volume"]["id"]
        with cluster.database.engine.connect() as connection:
            row = connection.exec_driver_sql("SELECT hints FROM volumes WHERE id = ?", (volume_id,)).one()
        assert json.loads(row[0]) == hints


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({"display_name": " a ", "display_description": "b"}, ("a", "b")),
        ({"name": " a ", "display_name": "not this", "description": "b "}, ("a", "b")),
        ({"name": "", "display_name": "not this"}, ("", None)),
    ],
)
def test_name_and_description_have_two_keys(client: Client, sent: dict[str, str], shown: tuple[str, str]) -> None:
    made = client.simulate_post("/v3/volumes", json={"volume": {"size": 1, **sent}}).json["volume"]
    assert (made["name"], made["description"]) == shown
    plain = client.create(1)
    changed = client.simulate_put(f"/v3/volumes/{plain['id']}", json={"volume": sent}).json["volume"]
    assert (changed["name"], changed["description"]) == shown


def test_a_type_is_found_by_name_and_by_id(client: Client) -> None:
    specs = {"provisioning:type": "thick"}
    name = f"t-{uuid.uuid4()}"
    kind = client.simulate_post("/v3/types", json={"volume_type": {"name": name, "extra_specs": specs}}).json
    for asked in (name, kind["volume_type"]["id"]):
        volume = client.create(1, volume_type=asked)
        assert volume["volume_type"] == name
        assert client.wait_until_settled(volume["id"])["status"] == "available"
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 1, "volume_type": "nowhere"}})
    assert answer.status_code == 404
    assert "nowhere" in answer.json["itemNotFound"]["message"]


def test_default_type(cluster: Cluster, client: Client) -> None:
    name = f"t-{uuid.uuid4()}"
    other = cluster.client(default_volume_type=name)
    answer = other.simulate_post("/v3/volumes", json={"volume": {"size": 1}})
    assert answer.status_code == 400
    assert "default_volume_type" in answer.json["badRequest"]["message"]
    client.simulate_post("/v3/types", json={"volume_type": {"name": name}})
    assert other.create(1)["volume_type"] == name
    assert client.create(1)["volume_type"] == "__DEFAULT__"
    assert cluster.client(default_volume_type="").create(1)["volume_type"] is None


@pytest.mark.parametrize("body", [{"volume": {"size": 1}}, {"volumes": [{"size": 1}, {"size": 2}]}])
@pytest.mark.parametrize("path", ["volumes", "scheduler-stats/explain", "scheduler-stats/what-if"])
def test_a_missing_default_type(cluster: Cluster, path: str, body: Any) -> None:
    sent = {"requests": [body]} if path.endswith("what-if") else body
    answer = cluster.client(default_volume_type="lost").simulate_post(f"/v3/{path}", json=sent)
    assert answer.status_code == 400, answer.text
    assert "'lost'" in answer.json["badRequest"]["message"]
    assert "option default_volume_type" in answer.json["badRequest"]["message"]


def test_a_private_default_type_is_for_all_projects(cluster: Cluster, client: Client, project: str) -> None:
    name = f"t-{uuid.uuid4()}"
    kind = client.simulate_post("/v3/types", json={"volume_type": {"name": name}}).json["volume_type"]
    client.simulate_put(f"/v3/types/{kind['id']}", json={"volume_type": {"is_public": False}})
    member = cluster.client("member", "reader", project=project, default_volume_type=name)
    assert member.create(1)["volume_type"] == name
    assert member.simulate_get("/v3/types/default").json["volume_type"]["id"] == kind["id"]
    answer = member.simulate_post("/v3/volumes", json={"volume": {"size": 1, "volume_type": name}})
    assert answer.status_code == 404


def test_update(client: Client) -> None:
    volume_id = client.create(1, name="old", description="d")["id"]
    answer = client.simulate_put(f"/v3/volumes/{volume_id}", json={"volume": {"name": "new", "metadata": {"x": "y"}}})
    assert answer.status_code == 200, answer.text
    volume = client.show(volume_id)
    assert (volume["name"], volume["description"], volume["metadata"]) == ("new", "d", {"x": "y"})


def test_an_operation_in_progress_blocks_others(cluster: Cluster, client: Client) -> None:
    cluster.storage.paused = True
    volume_id = client.create(1)["id"]
    try:
        assert client.show(volume_id)["status"] == "creating"
        answers = [
            client.simulate_delete(f"/v3/volumes/{volume_id}"),
            client.simulate_post(f"/v3/volumes/{volume_id}/action", json={"os-extend": {"new_size": 2}}),
            client.simulate_post(f"/v3/volumes/{volume_id}/action", json={"os-reset_status": {"status": "error"}}),
        ]
    finally:
        cluster.storage.resume()
    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert all("creating" in answer.json["badRequest"]["message"] for answer in answers)
    assert client.wait_until_settled(volume_id)["status"] == "available"


def test_a_volume_whose_backend_does_not_answer_says_so_when_it_is_deleted(
    cluster: Cluster, client: Client, member: Client
) -> None:
    cluster.storage.paused = True
    try:
        volume_ids = [client.create(1)["id"], member.create(1)["id"]]
        before = client.simulate_delete(f"/v3/volumes/{volume_ids[0]}").json["badRequest"]["message"]
        assert "waits for" not in before
        cluster.storage.notify("not mounted")

        def refused() -> list[str]:
            answers = [
                user.simulate_delete(f"/v3/volumes/{volume_id}")
                for user, volume_id in zip((client, member), volume_ids, strict=True)
            ]
            return [answer.json["badRequest"]["message"] for answer in answers]

        wait_until(lambda: all("waits for" in message for message in refused()))
        of_administrator, of_member = refused()
    finally:
        cluster.storage.resume()
    assert f"its operation waits for backend {BACKEND} (its agent cannot report: not mounted)" in of_administrator
    assert f"tonnage-manage backend remove {BACKEND} --volumes-are-lost" in of_administrator
    assert BACKEND not in of_member
    assert of_member.endswith(
        "its operation waits for storage that does not answer at present; an administrator can see which"
    )


def test_metadata(cluster: Cluster, client: Client, member: Client, project: str) -> None:
    volume_id = member.create(1, metadata={"a": "1"})["id"]
    path = f"/v3/volumes/{volume_id}/metadata"
    assert member.simulate_get(path).json == {"metadata": {"a": "1"}}
    assert member.simulate_post(path, json={"metadata": {"b": "2"}}).json == {"metadata": {"a": "1", "b": "2"}}
    assert member.simulate_put(path, json={"metadata": {"c": "3", "b": "2"}}).json == {"metadata": {"b": "2", "c": "3"}}
    assert member.simulate_put(f"{path}/c", json={"meta": {"c": "4"}}).json == {"meta": {"c": "4"}}
    assert member.simulate_get(f"{path}/c").json == {"meta": {"c": "4"}}
    assert member.simulate_put(f"{path}/c", json={"meta": {"d": "4"}}).status_code == 400
    for bad in ({}, {"metadata": {"": "x"}}, {"metadata": {"a": 1}}, {"metadata": None}):
        assert member.simulate_post(path, json=bad).status_code == 400
    assert member.simulate_delete(f"{path}/b").status_code == 200
    assert member.simulate_delete(f"{path}/b").status_code == 404
    assert member.simulate_get(f"{path}/b").status_code == 404
    assert member.show(volume_id)["metadata"] == {"c": "4"}

    reader = cluster.client("reader", project=project)
    outsider = cluster.client("member", "reader", project="another")
    for asker, status in ((reader, 403), (outsider, 404)):
        assert asker.simulate_post(path, json={"metadata": {"x": "y"}}).status_code == status
        assert asker.simulate_put(path, json={"metadata": {}}).status_code == status
        assert asker.simulate_put(f"{path}/c", json={"meta": {"c": "5"}}).status_code == status
        assert asker.simulate_delete(f"{path}/c").status_code == status
    assert (reader.simulate_get(path).status_code, outsider.simulate_get(path).status_code) == (200, 404)
    assert member.show(volume_id)["metadata"] == {"c": "4"}


@pytest.mark.parametrize("key", ["a/b", "cinder.csi.openstack.org/cluster", "a/b/c"])
@pytest.mark.parametrize("slash", ["/", "%2F"])
def test_keys_of_metadata_may_contain_slashes(member: Client, key: str, slash: str) -> None:
    path = f"/v3/volumes/{member.create(1, metadata={key: '1'})['id']}/metadata"
    item = f"{path}/{key.replace('/', slash)}"
    assert member.simulate_get(item).json == {"meta": {key: "1"}}
    assert member.simulate_put(item, json={"meta": {key: "2"}}).json == {"meta": {key: "2"}}
    assert member.simulate_delete(item).status_code == 200
    assert member.simulate_delete(item).status_code == 404
    assert member.simulate_get(path).json == {"metadata": {}}


@pytest.mark.parametrize("word", [False, 0, None, "false", "False", "FALSE", "0", "no", "off", "n", "f"])
def test_words_for_false_ask_for_no_multiattach(client: Client, word: Any) -> None:
    assert client.create(1, multiattach=word)["multiattach"] is False


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "volumes", {"volume": {"size": 1}, "sizes": 2}),
        ("POST", "volumes", {"volumes": [{"size": 1, "volume_typ": "gold"}]}),
        ("PUT", "volumes/{volume}", {"volume": {"name": "new", "size": 2}}),
        ("POST", "volumes/{volume}/metadata", {"metadata": {}, "meta": {}}),
        ("PUT", "volumes/{volume}/metadata/a", {"meta": {"a": "b"}, "metadata": {}}),
        ("POST", "volumes/{volume}/action", {"os-extend": {"new_size": 2, "force": True}}),
        ("POST", "volumes/{volume}/action", {"os-retype": {"new_type": "gold", "policy": "never"}}),
        ("POST", "volumes/{volume}/action", {"os-migrate_volume": {"hosts": "a@b"}}),
        ("POST", "volumes/{volume}/action", {"os-reset_status": {"status": "error", "bootable": True}}),
        ("POST", "manageable_volumes", {"volume": {"host": "box@disk#thin", "ref": "r", "size": 1}}),
        ("POST", "types", {"volume_type": {"name": "t", "specs": {}}}),
        ("POST", "types/x/extra_specs", {"extra_specs": {}, "specs": {}}),
        ("POST", "types/x/action", {"addProjectAccess": {"project": "p", "user": "u"}}),
        ("PUT", "types/x", {"volume_type": {"name": "t", "extra_specs": {}}}),
        ("PUT", "qos-specs/x/delete_keys", {"keys": ["a"], "force": True}),
        ("POST", "group_types", {"group_type": {"name": "t", "specs": {}}}),
        ("POST", "groups", {"group": {"group_type": "x", "volume_types": ["y"], "volumes": []}}),
        ("PUT", "os-services/disable", {"host": "a@b", "binary": "tonnage-agent", "disabled_reason": "r"}),
        ("PUT", "os-quota-sets/p", {"quota_set": {"volumes": 1}, "force": True}),
    ],
)
def test_unknown_keys_are_refused_in_each_microversion(client: Client, method: str, path: str, body: Any) -> None:
    path = path.format(volume=client.create(1)["id"])
    for minor in (13, 71, 72):
        answer = client.at(method, f"/v3/{path}", minor, json=body)
        assert answer.status_code == 400, answer.text
        assert "unknown field" in answer.json["badRequest"]["message"], answer.text


@pytest.mark.parametrize("path", ["volumes", "scheduler-stats/explain"])
def test_unknown_keys_of_a_new_volume_are_ignored_before_they_were_errors_in_cinder(client: Client, path: str) -> None:
    body = {"volume": {"size": 1, "volume_typ": "gold"}}
    assert client.at("POST", f"/v3/{path}", 52, json=body).status_code in (200, 202)
    for minor in (53, 72):
        answer = client.at("POST", f"/v3/{path}", minor, json=body)
        assert answer.status_code == 400
        assert "volume: object contains unknown field volume_typ" in answer.json["badRequest"]["message"]


def test_the_number_of_metadata_items_is_limited(member: Client) -> None:
    """Each request is bounded, and together they would be more than a database takes in one statement."""
    volume_id = member.create(1)["id"]
    path = f"/v3/volumes/{volume_id}/metadata"
    some, more = ({f"{name}{number}": "x" * 250 for number in range(300)} for name in "ab")
    assert member.simulate_post(path, json={"metadata": some}).status_code == 200
    answer = member.simulate_post(path, json={"metadata": more})
    assert answer.status_code == 400
    assert answer.json["badRequest"]["message"].startswith(f"Metadata of volume {volume_id} would have ")
    assert member.simulate_put(f"{path}/a1", json={"meta": {"a1": "y"}}).status_code == 200
    assert member.simulate_put(path, json={"metadata": more}).json == {"metadata": more}


def test_summary(client: Client, member: Client) -> None:
    client.create(5)
    for metadata in ({"a": "1"}, {"a": "2", "b": "1"}):
        member.create(2, metadata=metadata)
    path = "/v3/volumes/summary"
    assert member.at("GET", path, 12).json == {"volume-summary": {"total_count": 2, "total_size": 4}}
    told = member.at("GET", path, 36).json["volume-summary"]
    assert told["metadata"] == {"a": ["1", "2"], "b": ["1"]}
    assert member.at("GET", f"{path}?metadata={{'a':'1'}}", 36).json["volume-summary"]["total_count"] == 1
    assert member.at("GET", f"{path}?all_tenants=1", 36).json["volume-summary"] == told
    assert client.at("GET", f"{path}?all_tenants=1", 36).json["volume-summary"]["total_count"] >= 3
    assert member.at("GET", path, 11).status_code == 404


def test_pages_have_every_volume_once(client: Client, project: str) -> None:
    made = [client.create(size, path=f"/v3/{project}/volumes", name=f"v{size}")["id"] for size in (1, 2, 3, 1, 2)]
    seen: list[str] = []
    path = f"/v3/{project}/volumes?limit=2&sort=size:asc"
    while path:
        answer = client.simulate_get(path).json
        seen += [volume["id"] for volume in answer["volumes"]]
        links = answer.get("volumes_links", [])
        path = links[0]["href"].partition("falconframework.org")[2] if links else ""
    assert sorted(seen) == sorted(made)
    assert [client.show(volume_id)["size"] for volume_id in seen] == [1, 1, 2, 2, 3]
    newest = client.simulate_get(f"/v3/{project}/volumes/detail?limit=1").json["volumes"][0]
    assert newest["created_at"] == max(client.show(volume_id)["created_at"] for volume_id in made)


def test_links_work_for_all_project_names(client: Client) -> None:
    project = f"a #?%é {uuid.uuid4().hex}"
    path = f"/v3/{parse.quote(project, safe='')}/volumes"
    made = {client.create(1, path=path)["id"] for _ in range(2)}
    page = client.simulate_get(f"{path}?limit=1").json
    [link] = page["volumes_links"]
    assert link["href"].isascii()
    assert " " not in link["href"]
    [other] = client.simulate_get(link["href"].partition("falconframework.org")[2]).json["volumes"]
    assert {other["id"], page["volumes"][0]["id"]} == made
    itself = other["links"][0]["href"].partition("falconframework.org")[2]
    assert client.simulate_get(itself).json["volume"]["id"] == other["id"]


def test_pages_work_with_every_sort_key(client: Client, project: str) -> None:
    made = [client.create(1, path=f"/v3/{project}/volumes", name=name)["id"] for name in (None, "b", None, "a")]
    for volume_id in made:  # what changes meanwhile may be on two pages, or on none
        client.wait_until_settled(volume_id)
    assert volumes.SORT_KEYS.keys() >= {"name", "display_name", "bootable"}
    for key in volumes.SORT_KEYS:
        for direction in ("asc", "desc"):
            seen: list[str] = []
            marker = ""
            while True:
                path = f"/v3/{project}/volumes?limit=1&sort_key={key}&sort_dir={direction}{marker}"
                page = client.simulate_get(path).json["volumes"]
                if not page:
                    break
                seen += [volume["id"] for volume in page]
                marker = f"&marker={seen[-1]}"
            assert len(seen) == len(set(seen)) == 4, (key, direction)


@pytest.mark.parametrize("more", ["sort_key=size", "sort_dir=asc", "sort_key=size&sort_dir=down"])
def test_both_kinds_of_sort_parameters_are_rejected(client: Client, project: str, more: str) -> None:
    answer = client.simulate_get(f"/v3/{project}/volumes?sort=name:asc&{more}")
    assert answer.status_code == 400
    assert answer.json["badRequest"]["message"] == (
        "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter."
    )


def test_filters(client: Client, project: str) -> None:
    base = f"/v3/{project}/volumes"
    for name in ("alpha", "beta", "al%"):
        client.wait_until_settled(client.create(1, path=base, name=name)["id"])

    def names(query: str) -> list[str]:
        answer = client.simulate_get(f"{base}/detail?{query}")
        assert answer.status_code == 200, answer.text
        return sorted(volume["name"] for volume in answer.json["volumes"])

    assert names("name=alpha") == ["alpha"]
    assert names("name~=al") == ["al%", "alpha"]
    assert names("name~=l%25") == ["al%"]
    assert names("status=available&name=beta") == ["beta"]
    assert names("status=error") == []
    assert names("bootable=true") == names("migration_status=success") == []
    assert names("bootable=false&host=box") == names("host=box@disk") == names("host=box@disk%23thin")
    assert names("host=box@disk%23thin") == ["al%", "alpha", "beta"]
    assert names("host=box@disk%23thick") == names("host=bo") == []
    beta = client.simulate_get(f"{base}?name=beta").json["volumes"][0]["id"]
    client.simulate_post(f"{base}/{beta}/metadata", json={"metadata": {"tier": "1", "a.b": "it's"}})
    assert names("metadata={'tier': '1'}") == names("metadata={'a.b': \"it's\", 'tier': '1'}") == ["beta"]
    assert names("metadata={'tier': '2'}") == names("metadata={'b': '1'}") == []
    for bad in ("a=b", "{}x", "{'a': 1}", "['a']", "{'a\\'': 'b'}"):
        assert client.simulate_get(f"{base}?metadata={bad}").status_code == 400
    answer = client.simulate_get(f"{base}?colour=red")
    assert answer.status_code == 400
    assert "Invalid filters colour" in answer.json["badRequest"]["message"]


@pytest.mark.parametrize(("path", "what"), [("volumes", "metadata"), ("types", "extra_specs")])
def test_the_number_of_pairs_in_a_filter_is_limited(client: Client, path: str, what: str) -> None:
    def asked(count: int) -> Any:
        pairs = ", ".join(f"'{number}': 'x'" for number in range(count))
        return client.at("GET", f"/v3/{path}", 52, params={what: f"{{{pairs}}}"})

    key = "volume_types" if path == "types" else path
    assert asked(64).json == {key: []}
    for count in (65, 2000):  # SQLite refuses a thousand
        answer = asked(count)
        assert answer.status_code == 400
        assert "at most 64 pairs" in answer.json["badRequest"]["message"]


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=x", "sort=colour", "sort=name:up", "sort=", "offset=3", "all_tenants=perhaps"]
)
def test_invalid_list_parameters_are_rejected(client: Client, query: str) -> None:
    assert client.simulate_get(f"/v3/volumes?{query}").status_code == 400


def test_an_unknown_marker_is_an_error(client: Client) -> None:
    assert client.simulate_get(f"/v3/volumes?marker={uuid.uuid4()}").status_code == 404
    assert client.simulate_get("/v3/volumes?marker=nothing").status_code == 404


def test_lists_have_a_count_since_3_45(client: Client, project: str) -> None:
    for _ in range(3):
        client.create(1, path=f"/v3/{project}/volumes")
    path = f"/v3/{project}/volumes?with_count=True&limit=1"
    assert client.at("GET", path, 45).json["count"] == 3
    assert "count" not in client.at("GET", path, 44).json


def test_limit_is_bounded_by_the_option(cluster: Cluster, project: str) -> None:
    client = cluster.client(osapi_max_limit=2)
    for _ in range(3):
        client.create(1, path=f"/v3/{project}/volumes")
    answer = client.simulate_get(f"/v3/{project}/volumes?limit=50").json
    assert len(answer["volumes"]) == 2
    assert "limit=2" in answer["volumes_links"][0]["href"]


def test_keys_follow_the_microversion(client: Client) -> None:
    volume_id = client.create(1)["id"]
    path = f"/v3/volumes/{volume_id}"
    for minor, key in ((13, "group_id"), (21, "provider_id"), (48, "shared_targets"), (63, "volume_type_id")):
        assert key in client.at("GET", path, minor).json["volume"]
        assert key not in client.at("GET", path, minor - 1).json["volume"]
