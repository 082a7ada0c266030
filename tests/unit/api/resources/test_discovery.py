# SPDX-License-Identifier: Apache-2.0
"""Versions, extensions and filters that clients discover."""

import pytest

from tests.unit.api.cluster import Client


@pytest.mark.parametrize(("path", "status"), [("/", 300), ("/v3", 200), ("/v3/", 200)])
def test_version_discovery(client: Client, path: str, status: int) -> None:
    answer = client.simulate_get(path, headers={"Host": "storage:8776"})
    assert answer.status_code == status
    version = answer.json["versions"][0]
    assert (version["id"], version["status"]) == ("v3.0", "CURRENT")
    assert (version["min_version"], version["version"]) == ("3.0", "3.73")
    assert version["links"] == [{"rel": "self", "href": "http://storage:8776/v3/"}]


def test_extensions_have_names(client: Client) -> None:
    found = {each["alias"]: each["name"] for each in client.simulate_get("/v3/extensions").json["extensions"]}
    assert found["os-volume-actions"] == "VolumeActions"
    assert found["OS-SCH-HNT"] == "SchedulerHints"
    assert found["os-used-limits"] == "UsedLimits"


def test_resource_filters(member: Client) -> None:
    every = member.at("GET", "/v3/resource_filters", 33).json["resource_filters"]
    assert {each["resource"] for each in every} == {"volume", "type", "pool", "message", "group"}
    [volume] = member.at("GET", "/v3/resource_filters?resource=volume", 33).json["resource_filters"]
    assert {"name~", "status", "metadata"} <= set(volume["filters"])
    for name in volume["filters"]:
        assert member.simulate_get(f"/v3/volumes?{name.rstrip('~')}={{}}").status_code in (200, 403), name
    assert member.at("GET", "/v3/resource_filters", 32).status_code == 404
