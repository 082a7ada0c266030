# SPDX-License-Identifier: Apache-2.0
"""The resources behind the web page."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND, Client, Cluster

PATH = "/v3/capacity-overview"


@pytest.fixture
def volume(client: Client) -> Iterator[Any]:
    """A volume of 7 GiB."""
    made = client.wait_until_settled(client.create(7, name="seven")["id"])
    yield made
    assert client.simulate_delete(f"/v3/volumes/{made['id']}").status_code == 202
    client.wait_until_settled(made["id"])


def pools(client: Client, **query: Any) -> list[Any]:
    answer = client.simulate_get(f"{PATH}/pools", params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json["pools"])


def test_headrooms_are_those_of_decisions(client: Client, volume: Any) -> None:
    answer = client.at("GET", "/v3/scheduler-stats/get_pools?detail=true", 72)
    expected = {
        (pool["name"], factors["provisioned_type"]): factors["maximum_volume_size"]
        for pool in answer.json["pools"]
        for factors in pool["capacity_factors"]
    }
    shown = {
        (pool["name"], kind): pool[f"headroom_{kind}_gb"]
        for pool in pools(client)
        for kind in ("thin", "thick")
        if pool[f"headroom_{kind}_gb"] is not None
    }
    assert shown == expected


def test_the_summary_has_the_sums_of_the_pools(client: Client, volume: Any) -> None:
    summary = client.simulate_get(PATH).json
    assert (summary["pools"], summary["summed_pools"]) == (2, 2)
    assert summary["backends"]["current"] == summary["backends"]["total"] == 1
    found = pools(client)
    assert summary["physical"]["total_gb"] == 1500
    assert summary["physical"]["reserved_gb"] == 50
    assert summary["promised"]["limit_gb"] == 2 * 1000 + 450
    assert summary["promised"]["promised_gb"] == sum(pool["promised_gb"] for pool in found) >= 7


def test_pools_are_selected_sorted_and_paged(client: Client) -> None:
    names = [f"{BACKEND}#{name}" for name in ("thick", "thin")]
    assert [pool["name"] for pool in pools(client, sort_key="name", sort_dir="asc")] == names
    assert [pool["name"] for pool in pools(client, sort_key="total_gb")] == names[::-1]
    # A value that is missing comes last in both directions.
    for direction in ("asc", "desc"):
        assert pools(client, sort_key="headroom_thin_gb", sort_dir=direction)[-1]["name"] == names[0]
    assert [pool["name"] for pool in pools(client, name="THIN")] == names[1:]
    assert pools(client, state="down") == []
    assert [pool["name"] for pool in pools(client, limit=1, offset=1, sort_key="name", sort_dir="asc")] == names[1:]
    assert client.simulate_get(f"{PATH}/pools?limit=1").json["count"] == 2


@pytest.mark.parametrize(
    "query", ["sort_key=size", "sort_dir=up", "limit=x", "limit=-1", "state=odd", "severity=odd", "color=red"]
)
def test_unknown_parameters_are_errors(client: Client, query: str) -> None:
    assert client.simulate_get(f"{PATH}/pools?{query}").status_code == 400


def test_an_unchanged_answer_is_not_sent_again(client: Client) -> None:
    for path in (PATH, f"{PATH}/pools", f"{PATH}/pool?name={BACKEND}%23thin"):
        tag = client.simulate_get(path).headers["etag"]
        answer = client.simulate_get(path, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.content) == (304, b"")


def test_the_fullness_of_all_pools_is_short(client: Client) -> None:
    found = client.simulate_get(f"{PATH}/fill").json
    shown = {pool["name"]: (pool["full_percent"], pool["stale"]) for pool in pools(client)}
    assert dict(zip(found["names"], zip(found["full_percent"], found["stale"], strict=True), strict=True)) == shown


def test_the_map_has_the_pools_that_the_parameters_select(client: Client) -> None:
    def names(**query: str) -> list[str]:
        answer = client.simulate_get(f"{PATH}/fill", params=query)
        assert answer.status_code == 200, answer.text
        return [name.partition("#")[2] for name in answer.json["names"]]

    assert names() == ["thick", "thin"]
    assert names(name="THIN", severity="rest", state="up") == ["thin"]
    assert names(severity="over") == names(state="down") == []
    assert client.simulate_get(f"{PATH}/fill?severity=odd").status_code == 400


def test_pools_are_selected_by_their_severity(client: Client) -> None:
    assert len(pools(client, severity="rest")) == 2
    assert pools(client, severity="full") == []


def test_backends_are_listed(client: Client) -> None:
    [backend] = client.simulate_get(f"{PATH}/backends").json["backends"]
    assert (backend["name"], backend["state"], backend["pools"]) == (BACKEND, "up", 2)
    assert backend["fullness"] == {"over": 0, "full": 0, "near": 0, "rest": 2}


def test_one_pool_has_its_volumes(client: Client, volume: Any) -> None:
    name = volume["os-vol-host-attr:host"]
    detail = client.simulate_get(f"{PATH}/pool", params={"name": name}).json
    assert detail["pool"]["name"] == name
    assert (volume["id"], 7) in [(each["id"], each["size_gb"]) for each in detail["volumes"]]
    assert detail["volume_count"] == len(detail["volumes"])
    sizes = [each["size_gb"] for each in detail["volumes"]]
    assert sizes == sorted(sizes, reverse=True)
    assert client.simulate_get(f"{PATH}/pool?name=none").status_code == 404
    assert client.simulate_get(f"{PATH}/pool").status_code == 400


def test_an_operation_in_progress_is_shown(cluster: Cluster, client: Client) -> None:
    cluster.storage.paused = True
    made = client.create(3)
    name = made["os-vol-host-attr:host"]
    detail = client.simulate_get(f"{PATH}/pool", params={"name": name}).json
    assert [(each["volume_id"], each["verb"], each["size_gb"]) for each in detail["claims"]] == [
        (made["id"], "create", 3)
    ]
    assert detail["pool"]["in_flight_gb"] >= 3
    cluster.storage.resume()
    client.wait_until_settled(made["id"])


def test_only_administrators_see_them(member: Client) -> None:
    for path in (PATH, f"{PATH}/pools", f"{PATH}/pool?name=x", f"{PATH}/backends", f"{PATH}/fill"):
        answer = member.simulate_get(path)
        assert answer.status_code == 403
        assert "capacity:overview" in answer.json["forbidden"]["message"]
