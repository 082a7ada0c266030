# SPDX-License-Identifier: Apache-2.0
"""Tests of the capabilities of backends over REST."""

from typing import Any

import msgspec

from tests.unit.api.cluster import BACKEND, Client
from tonnage.api.resources import backend_capabilities


def shown(*reports: dict[str, Any]) -> Any:
    return msgspec.to_builtins(backend_capabilities.of_backend("h@b", reports))


def test_administrators_can_see_the_capabilities_of_a_backend(client: Client, member: Client) -> None:
    for project in ("", "p/"):
        found = client.simulate_get(f"/v3/{project}capabilities/{BACKEND}").json
        assert found["namespace"] == f"OS::Storage::Capabilities::{BACKEND}"
        assert (found["vendor_name"], found["replication_targets"]) == (None, [])
        assert found["properties"]["thin_provisioning_support"]["type"] == "boolean"
    assert member.simulate_get(f"/v3/capabilities/{BACKEND}").status_code == 403
    answer = client.simulate_get("/v3/capabilities/nowhere@b")
    assert (answer.status_code, answer.json["itemNotFound"]["message"]) == (404, "Can't find service: nowhere@b")


def test_values_that_differ_between_pools_are_null() -> None:
    one = {"pool_name": "a", "vendor_name": "V", "storage_protocol": ["iSCSI", "iscsi"], "driver_version": 2}
    both = shown(one, {**one, "pool_name": "b", "vendor_name": "W"})
    assert (both["pool_name"], both["vendor_name"]) == (None, None)
    assert (both["storage_protocol"], both["driver_version"]) == ("iSCSI", "2")
    assert shown(one)["pool_name"] == "a"
    nothing = shown()
    assert (nothing["vendor_name"], nothing["properties"]) == (None, {})


def test_extra_specs_are_listed_with_the_reported_values() -> None:
    thin = {
        "pool_name": "a",
        "total_capacity_gb": 9,
        "thin_provisioning_support": True,
        "media": "ssd",
        "disk": {"rpm": 7},
    }
    thick = {"pool_name": "b", "free_capacity_gb": 9, "thick_provisioning_support": True, "media": "hdd", "raid": None}
    found = shown(thin, thick)["properties"]
    assert {key: (one["type"], one["enum"]) for key, one in found.items()} == {
        "thin_provisioning_support": ("boolean", [False, True]),
        "thick_provisioning_support": ("boolean", [False, True]),
        "provisioning:type": ("string", ["thick", "thin"]),
        "media": ("string", ["hdd", "ssd"]),
        "capabilities:disk:rpm": ("integer", [7]),
    }
    assert shown({"n": 1}, {"n": "one"})["properties"]["n"]["enum"] == ["1", "one"]


def test_drivers_can_add_properties() -> None:
    own = {"media": {"title": "Disks", "type": "string", "default": "ssd"}, "bad": {"title": 7}, "worse": 1}
    found = shown({"media": "ssd", "properties": own}, {"properties": "none"})["properties"]
    assert found["media"] == {"title": "Disks", "description": "", "type": "string", "default": "ssd"}
    assert not {"bad", "worse", "properties"} & found.keys()
