# SPDX-License-Identifier: Apache-2.0
"""REST API for the storage of Kubernetes clusters."""

import json
import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import Client, Cluster
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.fit.node_fit_messages import FIT_NODES, FitQuery, NodeVolume

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
    # The client would add its own Content-Type with json=.
    answer = client.simulate_patch(f"/v3/csi-drivers/{name}", body=json.dumps(body), headers=MERGE)
    assert answer.status_code == expect, answer.text
    return answer.json


def query_fit(client: Client, driver: str, *sizes: str | None, **more: Any) -> Any:
    volumes = [
        {"name": f"v{number}", "driver": driver, "storageClassName": "fast", "size": size}
        for number, size in enumerate(sizes)
    ]
    nodes = [{"name": "n1", "labels": None}, {"name": "n2", "labels": {"zone": "b"}}, {"name": "n3"}]
    answer = client.simulate_post("/v3/csi-capacity/fit", json={"volumes": volumes, "nodes": nodes, **more})
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_large_cluster_is_written_in_several_patches(client: Client) -> None:
    name = f"{uuid.uuid4()}.example.com"
    names = [f"node-{number:04}" for number in range(5000)]
    pools = [{"name": f"pool-of-{node}", "nodeList": [node], "capacity": "10Gi"} for node in names]
    patch(client, name, spec={"capacityTracking": True})
    refused = patch(client, name, 413, status=storage(*pools))
    assert "osapi_max_request_body_size" in refused["overLimit"]["message"]
    for start in range(0, len(pools), 500):
        patch(client, name, status=storage(*pools[start : start + 500]))
    [stored] = client.simulate_get(f"/v3/csi-drivers/{name}").json["status"]["storage"]
    assert [each["name"] for each in stored["pools"]] == [each["name"] for each in pools]


def test_a_driver_is_created_shown_patched_and_deleted(client: Client, driver: str) -> None:
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
def test_a_malformed_patch_is_refused_with_its_field(client: Client, driver: str, body: Any, words: str) -> None:
    assert words in patch(client, driver, 400, **body)["badRequest"]["message"]


def test_a_scheduler_gives_the_same_answer_over_rpc(cluster: Cluster, client: Client, driver: str) -> None:
    wanted = [
        NodeVolume(name=f"v{number}", driver=driver, storage_class="fast", size=size)
        for number, size in enumerate((2 * 2**30, 4 * 2**30))
    ]
    answer = cluster.scheduler.call(
        FIT_NODES, FitQuery(volumes=wanted, nodes={"n1": {}, "n2": {"zone": "b"}, "n3": {}})
    )
    result = query_fit(client, driver, "2Gi", "4Gi")
    assert [{"name": name, "left": left} for name, left in answer.nodes.items()] == result["nodes"]
    assert [(name, why.message) for name, why in answer.refused.items()] == [
        (each["name"], each["message"]) for each in result["refused"]
    ]
    assert list(answer.nodes) == ["n1"]
    with pytest.raises(errors.InvalidInput, match="'v0' is named twice"):
        cluster.scheduler.call(FIT_NODES, FitQuery(volumes=wanted[:1] * 2, nodes={}))


def test_refused_nodes_have_reasons_and_pools(client: Client, driver: str) -> None:
    result = query_fit(client, driver, "6Gi", "6Gi")
    assert result["nodes"] == []
    assert result["claim"] is None
    why = {each["name"]: each for each in result["refused"]}
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
    assert query_fit(client, driver, "6Gi", "4Gi")["nodes"] == [{"name": "n1", "left": 0.0}]
    assert [each["name"] for each in query_fit(client, driver, "1Gi", None)["nodes"]] == ["n1", "n2"]


def test_unchecked_volumes_are_listed(client: Client, driver: str) -> None:
    """A volume of a misspelled driver fits everywhere."""
    assert query_fit(client, driver, "1Gi")["unchecked"] == []
    result = query_fit(client, f"{driver}x", "600Gi")
    assert [each["name"] for each in result["nodes"]] == ["n1", "n2", "n3"]
    assert result["unchecked"] == [
        {
            "name": "v0",
            "code": "UnknownDriver",
            "message": f"volume 'v0' was not checked: driver {driver}x is not known",
        }
    ]


def test_patches_of_other_media_types_are_refused(client: Client, driver: str) -> None:
    """A merge patch would remove the pools that it does not name."""
    for kind in ("merge-patch", "json-patch"):
        headers = {"Content-Type": f"application/{kind}+json"}
        body = json.dumps({"status": storage()})
        answer = client.simulate_patch(f"/v3/csi-drivers/{driver}", body=body, headers=headers)
        assert (answer.status_code, "application/strategic-merge-patch+json" in answer.text) == (415, True)


def test_claimed_capacity_is_unavailable_until_released(client: Client, driver: str) -> None:
    holder = str(uuid.uuid4())
    path = f"/v3/csi-capacity/claims/{holder}"
    claim = query_fit(client, driver, "6Gi", claim={"holder": holder, "lease": 600})["claim"]
    assert (claim["holder"], claim["node"]) == (holder, "n1")
    assert [(each["name"], each["pool"], each["size"]) for each in claim["volumes"]] == [("v0", "one", "6Gi")]
    assert client.simulate_get(path).json == claim
    assert query_fit(client, driver, "6Gi", claim={"holder": "another"})["claim"] is None
    assert client.simulate_delete(path).status_code == 204
    assert client.simulate_get(path).json == {"holder": holder, "node": None, "expiresAt": None, "volumes": []}
    assert [each["name"] for each in query_fit(client, driver, "6Gi")["nodes"]] == ["n1"]


@pytest.mark.parametrize("holder", ["default/redis", "redis ", ""])
def test_a_holder_that_does_not_fit_into_a_path_is_refused(client: Client, holder: str) -> None:
    body = {"volumes": [], "nodes": [], "claim": {"holder": holder}}
    answer = client.simulate_post("/v3/csi-capacity/fit", json=body)
    assert (answer.status_code, "claim.holder" in answer.text) == (400, True)


def test_names_with_trailing_spaces_are_refused(client: Client, driver: str) -> None:
    """MariaDB ignores trailing spaces in comparisons."""
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


def test_duplicate_names_and_members_are_refused(client: Client, member: Client, driver: str) -> None:
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
