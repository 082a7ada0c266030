# SPDX-License-Identifier: Apache-2.0
"""Storage of Kubernetes clusters over REST."""

import json
import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import Client, Cluster
from tonnage.capacity import errors
from tonnage.rpc.node_fit_messages import FitQuery, NodeVolume

MERGE = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.fixture
def driver(client: Client) -> str:
    """A driver with 10 Gi on n1 and 4 Gi on n2."""
    name = f"{uuid.uuid4()}.example.com"
    pools = [
        {"name": "one", "capacity": "10Gi", "nodeList": ["n1"]},
        {"name": "two", "capacity": "4Gi", "maximumVolumeSize": "3Gi", "nodeTopology": zone("b")},
    ]
    patch(client, name, spec={"capacityTracking": True}, status=storage(*pools))
    return name


def zone(name: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}]}


def storage(*pools: dict[str, Any]) -> dict[str, Any]:
    return {"storage": [{"storageClassName": "fast", "pools": list(pools)}]}


def patch(client: Client, name: str, expect: int = 200, **body: Any) -> Any:
    # With json= its own Content-Type would be sent.
    answer = client.simulate_patch(f"/v3/csi-drivers/{name}", body=json.dumps(body), headers=MERGE)
    assert answer.status_code == expect, answer.text
    return answer.json


def ask(client: Client, driver: str, *sizes: str | None, **more: Any) -> Any:
    volumes = [
        {"name": f"v{number}", "driver": driver, "storageClassName": "fast", "size": size}
        for number, size in enumerate(sizes)
    ]
    nodes = [{"name": "n1", "labels": None}, {"name": "n2", "labels": {"zone": "b"}}, {"name": "n3"}]
    answer = client.simulate_post("/v3/csi-capacity/fit", json={"volumes": volumes, "nodes": nodes, **more})
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_driver_is_made_shown_changed_and_removed(client: Client, driver: str) -> None:
    path = f"/v3/csi-drivers/{driver}"
    shown = client.simulate_get(path).json
    assert shown["status"]["storage"] == [
        {
            "storageClassName": "fast",
            "pools": [
                {"name": "one", "capacity": "10Gi", "nodeList": ["n1"]},
                {"name": "two", "capacity": "4Gi", "maximumVolumeSize": "3Gi", "nodeTopology": zone("b")},
            ],
        }
    ]
    listed = {each["metadata"]["name"]: each for each in client.simulate_get("/v3/csi-drivers").json["items"]}
    assert listed[driver] == {"metadata": shown["metadata"], "spec": {"capacityTracking": True}}

    version = {"resourceVersion": shown["metadata"]["resourceVersion"]}
    changed = patch(client, driver, metadata=version, status=storage({"name": "one", "capacity": "9Gi"}))
    assert changed["metadata"]["resourceVersion"] != version["resourceVersion"]
    refused = patch(client, driver, 409, metadata=version, status=storage({"name": "one", "capacity": "8Gi"}))
    assert changed["metadata"]["resourceVersion"] in refused["conflictingRequest"]["message"]

    assert client.simulate_delete(path).status_code == 204
    assert client.simulate_get(path).status_code == client.simulate_delete(path).status_code == 404
    patch(client, driver, 404, status=storage({"name": "one", "capacity": "8Gi"}))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"status": storage({"name": "one", "capacity": "1K"})}, "status.storage[0].pools[0].capacity"),
        ({"status": storage({"name": "one", "nodelist": ["n1"]})}, "nodelist"),
        ({"status": storage({"name": "x", "nodeList": ["n1", "n1"]})}, "names a node twice"),
        ({"metadata": {"name": "another"}}, "metadata.name is another one"),
        ({"spec": {"capacityTracking": "yes"}}, "spec.capacityTracking"),
    ],
)
def test_what_is_wrong_is_named(client: Client, driver: str, body: Any, words: str) -> None:
    assert words in patch(client, driver, 400, **body)["badRequest"]["message"]


def test_a_scheduler_says_the_same_over_the_bus(cluster: Cluster, client: Client, driver: str) -> None:
    wanted = [
        NodeVolume(name=f"v{number}", driver=driver, storage_class="fast", size=size)
        for number, size in enumerate((2 * 2**30, 4 * 2**30))
    ]
    answer = cluster.scheduler.fit_nodes(FitQuery(volumes=wanted, nodes={"n1": {}, "n2": {"zone": "b"}, "n3": {}}))
    found = ask(client, driver, "2Gi", "4Gi")
    assert [{"name": name, "left": left} for name, left in answer.nodes.items()] == found["nodes"]
    assert [(name, why.message) for name, why in answer.refused.items()] == [
        (each["name"], each["message"]) for each in found["refused"]
    ]
    assert list(answer.nodes) == ["n1"]
    with pytest.raises(errors.InvalidInput, match="'v0' is named twice"):
        cluster.scheduler.fit_nodes(FitQuery(volumes=wanted[:1] * 2, nodes={}))


def test_which_nodes_take_volumes_together(client: Client, driver: str) -> None:
    found = ask(client, driver, "6Gi", "6Gi")
    assert found["nodes"] == []
    assert found["claim"] is None
    why = {each["name"]: each for each in found["refused"]}
    assert (why["n1"]["code"], why["n1"]["exact"]) == ("NotTogether", True)
    assert why["n1"]["message"] == "volumes 'v0' 6Gi + 'v1' 6Gi, together 12Gi, do not fit: pool one has 10Gi left"
    assert why["n2"]["message"] == (
        "volume 'v0' of 6Gi (storage class 'fast'): pool two has 4Gi left, largest volume 3Gi"
    )
    assert why["n2"]["pools"] == [
        {
            "driver": driver,
            "storageClassName": "fast",
            "name": "two",
            "capacity": "4Gi",
            "left": "4Gi",
            "largest": "3Gi",
            "expired": False,
        }
    ]
    assert (why["n3"]["code"], why["n3"]["pools"]) == ("Unreachable", [])
    assert ask(client, driver, "6Gi", "4Gi")["nodes"] == [{"name": "n1", "left": 0.0}]
    assert [each["name"] for each in ask(client, driver, "1Gi", None)["nodes"]] == ["n1", "n2"]


def test_an_answer_tells_what_was_not_checked(client: Client, driver: str) -> None:
    """A misspelled driver has room everywhere."""
    assert ask(client, driver, "1Gi")["unchecked"] == []
    found = ask(client, f"{driver}x", "600Gi")
    assert [each["name"] for each in found["nodes"]] == ["n1", "n2", "n3"]
    assert found["unchecked"] == [
        {
            "name": "v0",
            "code": "UnknownDriver",
            "message": f"volume 'v0' was not checked: driver {driver}x is not known",
        }
    ]


def test_a_patch_of_another_kind_is_refused(client: Client, driver: str) -> None:
    """A merge patch would take away the pools that it does not name."""
    for kind in ("merge-patch", "json-patch"):
        headers = {"Content-Type": f"application/{kind}+json"}
        body = json.dumps({"status": storage()})
        answer = client.simulate_patch(f"/v3/csi-drivers/{driver}", body=body, headers=headers)
        assert (answer.status_code, "application/strategic-merge-patch+json" in answer.text) == (415, True)


def test_what_is_claimed_is_held_until_it_is_given_back(client: Client, driver: str) -> None:
    holder = str(uuid.uuid4())
    path = f"/v3/csi-capacity/claims/{holder}"
    claim = ask(client, driver, "6Gi", claim={"holder": holder, "lease": 600})["claim"]
    assert (claim["holder"], claim["node"]) == (holder, "n1")
    assert [(each["name"], each["pool"], each["size"]) for each in claim["volumes"]] == [("v0", "one", "6Gi")]
    assert client.simulate_get(path).json == claim
    assert ask(client, driver, "6Gi", claim={"holder": "another"})["claim"] is None
    assert client.simulate_delete(path).status_code == 204
    assert client.simulate_get(path).json == {"holder": holder, "node": None, "expiresAt": None, "volumes": []}
    assert [each["name"] for each in ask(client, driver, "6Gi")["nodes"]] == ["n1"]


@pytest.mark.parametrize("holder", ["default/redis", "redis ", ""])
def test_who_claims_has_a_name_that_an_address_can_hold(client: Client, holder: str) -> None:
    asked = {"volumes": [], "nodes": [], "claim": {"holder": holder}}
    answer = client.simulate_post("/v3/csi-capacity/fit", json=asked)
    assert (answer.status_code, "claim.holder" in answer.text) == (400, True)


def test_names_that_a_database_may_take_for_others_are_refused(client: Client, driver: str) -> None:
    """MariaDB compares them without spaces at their end."""
    body = {"spec": {"capacityTracking": True}}
    for method, path in (
        ("GET", f"csi-drivers/{driver}%20"),
        ("PATCH", f"csi-drivers/{driver}%20"),
        ("DELETE", f"csi-drivers/{driver}%20"),
        ("GET", "csi-capacity/claims/a%20"),
        ("DELETE", "csi-capacity/claims/a%20"),
    ):
        answer = client.simulate_request(method, f"/v3/{path}", json=body)
        assert (answer.status_code, "ends with a space" in answer.text) == (400, True), path
    document = client.simulate_get("/v3/openapi.json").json
    for path in ("csi-drivers/{driver}", "csi-capacity/claims/{holder}"):
        for method, described in document["paths"][f"/v3/{path}"].items():
            assert described["parameters"][0]["schema"] == {"type": "string", "pattern": "[^ ]$"}, (method, path)


def test_names_are_unique_and_members_may_not(client: Client, member: Client, driver: str) -> None:
    for body in ({"volumes": [], "nodes": [{"name": "a"}] * 2}, {"volumes": [{"name": "v", "driver": "d"}] * 2}):
        answer = client.simulate_post("/v3/csi-capacity/fit", json={"volumes": [], "nodes": [], **body})
        assert (answer.status_code, "twice" in answer.text) == (400, True)
    for method, path in (
        ("GET", "csi-drivers"),
        ("GET", f"csi-drivers/{driver}"),
        ("PATCH", f"csi-drivers/{driver}"),
        ("DELETE", f"csi-drivers/{driver}"),
        ("POST", "csi-capacity/fit"),
        ("GET", "csi-capacity/claims/a"),
        ("DELETE", "csi-capacity/claims/a"),
    ):
        assert member.simulate_request(method, f"/v3/{path}", json={}).status_code == 403
