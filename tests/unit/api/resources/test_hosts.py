# SPDX-License-Identifier: Apache-2.0
"""Tests of zones, hosts, extensions and unsupported objects."""

from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND, Client


def test_availability_zones(client: Client, member: Client) -> None:
    def zones() -> Any:
        return member.simulate_get("/v3/os-availability-zone").json

    assert zones() == {"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]}
    change = {"host": BACKEND, "binary": "tonnage-agent"}
    client.simulate_put("/v3/os-services/disable", json=change)
    try:
        assert zones()["availabilityZoneInfo"][0]["zoneState"] == {"available": False}
    finally:
        client.simulate_put("/v3/os-services/enable", json=change)


def test_hosts(client: Client, member: Client, project: str) -> None:
    for size in (2, 3):
        member.create(size)
    hosts = client.simulate_get("/v3/os-hosts?service=tonnage-agent").json["hosts"]
    assert [(host["host_name"], host["service-status"], host["service-state"], host["zone"]) for host in hosts] == [
        (BACKEND, "available", "enabled", "nova")
    ]
    assert len(client.simulate_get("/v3/os-hosts").json["hosts"]) > 1
    usage = [part["resource"] for part in client.simulate_get(f"/v3/os-hosts/{BACKEND}").json["host"]]
    mine = next(part for part in usage if part["project"] == project)
    assert (mine["host"], mine["volume_count"], mine["total_volume_gb"]) == (BACKEND, "2", "5")
    assert usage[0]["project"] == "(total)"
    for figure in ("volume_count", "total_volume_gb"):
        assert int(usage[0][figure]) == sum(int(part[figure]) for part in usage[1:])
    assert client.simulate_get("/v3/os-hosts/nowhere").status_code == 404


@pytest.mark.parametrize(("kind", "one"), [("snapshots", "Snapshot"), ("backups", "Backup")])
def test_snapshots_and_backups_are_unsupported(member: Client, kind: str, one: str) -> None:
    for path in (kind, f"{kind}/detail"):
        assert member.simulate_get(f"/v3/{path}?all_tenants=1&volume_id=x").json == {kind: []}
        assert member.at("GET", f"/v3/{path}?with_count=True", 45).json == {kind: [], "count": 0}
    answer = member.simulate_get(f"/v3/{kind}/x")
    assert (answer.status_code, answer.json["itemNotFound"]["message"]) == (404, f"{one} x could not be found.")
    answer = member.simulate_post(f"/v3/{kind}", json={kind[:-1]: {"volume_id": "x"}})
    assert (answer.status_code, answer.json["notImplemented"]["code"]) == (501, 501)
    assert "not supported" in answer.json["notImplemented"]["message"]


def test_no_type_is_encrypted(client: Client) -> None:
    made = client.simulate_post("/v3/types", json={"volume_type": {"name": "plain"}}).json["volume_type"]
    assert client.simulate_get(f"/v3/types/{made['id']}/encryption").json == {}
    assert client.simulate_get("/v3/types/x/encryption").status_code == 404
    client.simulate_delete(f"/v3/types/{made['id']}")


def test_extensions(member: Client) -> None:
    found = {each["alias"]: each for each in member.simulate_get("/v3/extensions").json["extensions"]}
    assert {"os-availability-zone", "os-volume-type-access", "scheduler-stats"} <= set(found)
    assert set(found["os-hosts"]) == {"alias", "name", "description", "updated", "links"}


def test_the_openapi_document_is_served(member: Client) -> None:
    document = member.simulate_get("/v3/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert "/v3/volumes/{volume_id}/action" in document["paths"]
