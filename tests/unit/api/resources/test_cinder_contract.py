# SPDX-License-Identifier: Apache-2.0
"""Keys and answers as Cinder's API reference publishes them, for clients that decode strictly."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND, Client, Cluster

#: The last microversion of Cinder, and the one that adds the keys of Tonnage.
CINDER, OWN = 71, 72

VOLUME = {
    "attachments", "availability_zone", "bootable", "consistencygroup_id", "created_at", "description", "encrypted",
    "id", "links", "metadata", "migration_status", "multiattach", "name", "replication_status", "size", "snapshot_id",
    "source_volid", "status", "updated_at", "user_id", "volume_type",
}  # fmt: skip
NEWER_VOLUME = {
    "cluster_name", "consumes_quota", "group_id", "provider_id", "service_uuid", "shared_targets", "volume_type_id",
}  # fmt: skip
ATTRIBUTES = {
    "os-vol-host-attr:host",
    "os-vol-mig-status-attr:migstat",
    "os-vol-mig-status-attr:name_id",
    "os-vol-tenant-attr:tenant_id",
}
SCHEDULER = {"binary", "disabled_reason", "host", "state", "status", "updated_at", "zone"}
BACKEND_KEYS = SCHEDULER | {"active_backend_id", "frozen", "replication_status"}
POOL_KEYS = {
    "QoS_support", "allocated_capacity_gb", "backend_state", "driver_version", "free_capacity_gb",
    "max_over_subscription_ratio", "pool_name", "provisioned_capacity_gb", "reserved_percentage", "storage_protocol",
    "thick_provisioning_support", "thin_provisioning_support", "timestamp", "total_capacity_gb", "updated",
    "vendor_name", "volume_backend_name",
}  # fmt: skip


def name() -> str:
    return f"n-{uuid.uuid4()}"


@pytest.fixture
def kind(client: Client) -> Any:
    """A created volume type."""
    return client.simulate_post("/v3/types", json={"volume_type": {"name": name()}}).json["volume_type"]


@pytest.fixture
def volume(client: Client) -> str:
    return str(client.wait_until_settled(client.create(1)["id"])["id"])


def message_of(answer: Any) -> str:
    return str(next(iter(answer.json.values()))["message"])


# Keys


def test_a_type_has_its_keys(client: Client, kind: Any) -> None:
    keys = {"id", "name", "description", "is_public", "extra_specs"}
    assert set(kind) == keys | {"os-volume-type-access:is_public"}
    path = f"/v3/types/{kind['id']}"
    changed = client.simulate_put(path, json={"volume_type": {"description": "d"}})
    assert set(changed.json["volume_type"]) == keys
    shown = client.simulate_get(path).json["volume_type"]
    assert set(shown) == keys | {"os-volume-type-access:is_public", "qos_specs_id"}


@pytest.mark.parametrize(("minor", "newer"), [(0, set()), (CINDER, NEWER_VOLUME)])
def test_a_volume_has_its_keys(client: Client, minor: int, newer: set[str]) -> None:
    created = client.at("POST", "/v3/volumes", minor, json={"volume": {"size": 1}}).json["volume"]
    assert set(created) == VOLUME | newer
    path = f"/v3/volumes/{created['id']}"
    changed = client.at("PUT", path, minor, json={"volume": {"name": "other"}}).json["volume"]
    assert set(changed) == VOLUME | newer
    assert set(client.at("GET", path, minor).json["volume"]) == VOLUME | newer | ATTRIBUTES
    listed = client.at("GET", f"/v3/volumes/detail?id={created['id']}", minor).json["volumes"]
    assert set(listed[0]) == VOLUME | newer | ATTRIBUTES


@pytest.mark.parametrize("minor", [0, CINDER, OWN])
def test_a_managed_volume_has_the_oldest_keys(client: Client, minor: int) -> None:
    body = {"volume": {"host": f"{BACKEND}#thin", "ref": {"source-name": name()}}}
    managed = client.at("POST", "/v3/os-volume-manage", minor, json=body)
    assert (managed.status_code, set(managed.json["volume"])) == (202, VOLUME)


def test_services_have_their_keys(client: Client) -> None:
    for minor, newer, of_backend in ((0, set(), set()), (CINDER, {"cluster"}, {"backend_state"})):
        [scheduler] = client.at("GET", "/v3/os-services?binary=cinder-scheduler", minor).json["services"]
        assert set(scheduler) == SCHEDULER | newer
        [backend] = client.at("GET", "/v3/os-services?binary=cinder-volume", minor).json["services"]
        assert set(backend) == BACKEND_KEYS | newer | of_backend
    body = {"host": BACKEND, "binary": "cinder-volume"}
    enabled = client.at("PUT", "/v3/os-services/enable", CINDER, json=body)
    assert set(enabled.json) == {"host", "service", "binary", "status", "disabled"}


@pytest.mark.parametrize("query", ["detail=True", f"detail=True&name={BACKEND}%23thin"])
def test_pools_have_their_keys(client: Client, query: str) -> None:
    pools = client.at("GET", f"/v3/scheduler-stats/get_pools?{query}", CINDER).json["pools"]
    assert pools
    for pool in pools:
        assert set(pool) == {"name", "capabilities"}
        assert set(pool["capabilities"]) == POOL_KEYS
        assert type(pool["capabilities"]["reserved_percentage"]) is int


def test_the_keys_of_tonnage_have_a_microversion(client: Client, volume: str) -> None:
    assert "status_reason" in client.at("GET", f"/v3/volumes/{volume}", OWN).json["volume"]
    [backend] = client.at("GET", "/v3/os-services?binary=cinder-volume", OWN).json["services"]
    assert backend["draining"] is False
    for query in ("detail=True", f"detail=True&name={BACKEND}%23thin"):
        pool = client.at("GET", f"/v3/scheduler-stats/get_pools?{query}", OWN).json["pools"][-1]
        assert pool["capacity_factors"]
        assert {"in_flight_capacity_gb", "figures_age_seconds", "availability_zone"} <= set(pool["capabilities"])
    too_large = {"volume": {"size": 10**6}}
    refused = client.at("POST", "/v3/volumes", CINDER, json=too_large)
    assert refused.status_code == 409
    assert set(refused.json["conflictingRequest"]) == {"code", "message"}
    refused = client.at("POST", "/v3/volumes", OWN, json=too_large)
    assert {"refusal", "largest_size_gb"} <= set(refused.json["conflictingRequest"])


@pytest.mark.parametrize("key", ["quota_set", "quota_class_set"])
def test_the_answer_to_new_limits_has_no_id(client: Client, key: str) -> None:
    path = f"/v3/os-{key.replace('_', '-')}s/{name()}"
    changed = client.simulate_put(path, json={key: {"volumes": 7}}).json[key]
    shown = client.simulate_get(path).json[key]
    assert "id" not in changed
    assert {**changed, "id": path.rpartition("/")[2]} == shown


# Services


def test_the_name_of_a_host_finds_its_backends(client: Client) -> None:
    def found(host: str) -> set[tuple[str, str]]:
        rows = client.simulate_get(f"/v3/os-services?host={host}").json["services"]
        return {(row["binary"], row["host"]) for row in rows}

    assert found("box") == {("cinder-scheduler", "box"), ("cinder-volume", BACKEND)}
    assert found(BACKEND) == {("cinder-volume", BACKEND)}
    assert found("bo") == found("disk") == set()


def test_binaries_have_the_names_that_tools_know(client: Client, cluster: Cluster) -> None:
    def names(of: Client) -> tuple[set[str], set[str]]:
        services = of.simulate_get("/v3/os-services").json["services"]
        hosts = of.simulate_get("/v3/os-hosts").json["hosts"]
        return {row["binary"] for row in services}, {row["service"] for row in hosts}

    cinder = {"cinder-volume", "cinder-scheduler"}
    assert names(client) == (cinder, cinder)
    own = {"tonnage-agent", "tonnage-scheduler"}
    assert names(cluster.client(cinder_service_names=False)) == (own, own)
    for service in ("cinder-volume", "tonnage-agent"):
        [host] = client.simulate_get(f"/v3/os-hosts?service={service}").json["hosts"]
        assert host["host_name"] == BACKEND
        body = {"host": BACKEND, "binary": service}
        assert client.simulate_put("/v3/os-services/enable", json=body).json["binary"] == service


@pytest.mark.parametrize("action", ["enable", "disable", "disable-log-reason", "drain"])
def test_an_unknown_binary_is_not_found(client: Client, action: str) -> None:
    body = {"host": BACKEND, "binary": "invalid_binary"}
    if action == "disable-log-reason":
        body["disabled_reason"] = "r"
    answer = client.simulate_put(f"/v3/os-services/{action}", json=body)
    assert answer.status_code == 404
    assert message_of(answer).startswith(f"Service invalid_binary could not be found on host {BACKEND}")


# Groups


@pytest.fixture
def group(client: Client, kind: Any) -> Iterator[str]:
    group_type = client.at("POST", "/v3/group_types", 11, json={"group_type": {"name": name()}}).json["group_type"]
    body = {"group_type": group_type["id"], "volume_types": [kind["id"]], "name": "g"}
    made = str(client.at("POST", "/v3/groups", 13, json={"group": body}).json["group"]["id"])
    yield made
    deleted = client.at("POST", f"/v3/groups/{made}/action", 13, json={"delete": {"delete-volumes": True}})
    assert deleted.status_code == 202


def test_a_group_without_a_zone_shows_the_default_one(client: Client, group: str) -> None:
    assert client.at("GET", f"/v3/groups/{group}", 13).json["group"]["availability_zone"] == "nova"
    listed = client.at("GET", f"/v3/groups/detail?id={group}", 13).json["groups"]
    assert [each["availability_zone"] for each in listed] == ["nova"]


def test_the_status_of_a_group_can_be_reset(client: Client, group: str) -> None:
    def reset(status: str) -> Any:
        return client.at("POST", f"/v3/groups/{group}/action", 20, json={"reset_status": {"status": status}})

    for status in ("creating", "ERROR", "updating", "in-use", "error_deleting", "available"):
        assert reset(status).status_code == 202
        assert client.at("GET", f"/v3/groups/{group}", 20).json["group"]["status"] == status.lower()
    for status in ("deleting", "deleted", "", "good"):
        answer = reset(status)
        assert answer.status_code == 400
        assert "expected available, creating, error" in message_of(answer)


# Empty ids and missing features


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("prefix", ["/v3", "/v3/demo"])
def test_an_empty_id_is_not_found(client: Client, method: str, prefix: str) -> None:
    answer = client.simulate_request(method, f"{prefix}/volumes/", json={"volume": {"name": "n"}})
    assert answer.status_code == 404
    assert answer.json["itemNotFound"]["message"] == "The resource could not be found."
    assert client.simulate_get("/v3/").status_code == 200


def test_a_volume_has_no_encryption_key(client: Client, volume: str) -> None:
    assert client.simulate_get(f"/v3/volumes/{volume}/encryption").json == {"encryption_key_id": None}
    assert client.simulate_get(f"/v3/volumes/{uuid.uuid4()}/encryption").status_code == 404


def test_a_snapshot_is_not_found(client: Client) -> None:
    missing = str(uuid.uuid4())
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 1, "snapshot_id": missing}})
    assert answer.status_code == 404
    assert message_of(answer) == f"Snapshot {missing} could not be found."


def test_missing_actions_on_groups(client: Client, group: str) -> None:
    answer = client.at("POST", f"/v3/groups/{group}/action", 38, json={"enable_replication": {}})
    assert answer.status_code == 501
    assert "replication" in answer.json["notImplemented"]["message"]


@pytest.mark.parametrize("action", ["freeze", "thaw", "failover_host", "failover"])
def test_missing_actions_on_backends(client: Client, member: Client, action: str) -> None:
    path = f"/v3/os-services/{action}"
    assert client.simulate_put(path, json={"host": BACKEND}).status_code == 501
    unknown = client.simulate_put(path, json={"host": "invalid_host"})
    assert unknown.status_code == 400
    assert message_of(unknown).startswith("Host invalid_host could not be found")
    assert member.simulate_put(path, json={"host": BACKEND}).status_code == 403


def test_missing_actions_on_services(client: Client) -> None:
    for action in ("set-log", "get-log"):
        assert client.at("PUT", f"/v3/os-services/{action}", 32, json={"binary": "*"}).status_code == 501
    assert client.at("POST", "/v3/workers/cleanup", 24, json={}).status_code == 501


# The default type


def test_the_default_type(client: Client, volume: str) -> None:
    kind = client.simulate_get("/v3/types/default").json["volume_type"]
    assert (kind["name"], kind["description"], kind["is_public"], kind["extra_specs"]) == (
        "__DEFAULT__",
        "Default Volume Type",
        True,
        {},
    )
    assert client.types()["__DEFAULT__"] == kind["id"]
    assert client.show(volume)["volume_type"] == "__DEFAULT__"
    shown = client.at("GET", f"/v3/volumes/{volume}", CINDER).json["volume"]
    assert shown["volume_type_id"] == kind["id"]


def test_the_default_type_cannot_be_deleted(client: Client) -> None:
    kind = client.types()["__DEFAULT__"]
    answer = client.simulate_delete(f"/v3/types/{kind}")
    assert answer.status_code == 400
    assert message_of(answer) == f"The volume type {kind} is a default volume type and cannot be deleted."


def test_the_default_type_can_be_changed(client: Client) -> None:
    path = f"/v3/types/{client.types()['__DEFAULT__']}"
    for changes in ({"name": name(), "is_public": False}, {"name": "__DEFAULT__", "is_public": True}):
        answer = client.simulate_put(path, json={"volume_type": changes})
        assert (answer.status_code, answer.json["volume_type"]["name"]) == (200, changes["name"])


# Volumes
