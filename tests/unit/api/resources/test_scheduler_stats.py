# SPDX-License-Identifier: Apache-2.0
"""Pools and explanations over REST."""

import uuid

import pytest

from tests.unit.api.cluster import BACKEND, Client, Cluster
from tests.unit.capacity import specified

THIN, THICK = f"{BACKEND}#thin", f"{BACKEND}#thick"
GET_POOLS = "/v3/scheduler-stats/get_pools"


def names(client: Client, query: str, minor: int = 71) -> list[str]:
    answer = client.at("GET", f"{GET_POOLS}?{query}", minor)
    assert answer.status_code == 200, answer.text
    return [pool["name"] for pool in answer.json["pools"]]


def test_without_detail_pools_have_only_names(client: Client) -> None:
    assert client.simulate_get(f"/v3/demo{GET_POOLS[3:]}").json == {"pools": [{"name": THICK}, {"name": THIN}]}


def test_details_have_the_reported_capabilities(client: Client) -> None:
    pools = client.simulate_get(f"{GET_POOLS}?detail=True").json["pools"]
    assert all(set(pool) == {"name", "capabilities"} for pool in pools)
    shown = pools[1]["capabilities"]
    assert shown["total_capacity_gb"] == 1000
    assert shown["storage_protocol"] == "file"
    for key in ("updated", "driver_version", "QoS_support", "volume_backend_name", "thin_provisioning_support"):
        assert key in shown


def test_pools_have_capacity_factors_since_3_72(client: Client) -> None:
    path = f"{GET_POOLS}?detail=True"
    assert all("capacity_factors" not in pool for pool in client.at("GET", path, 71).json["pools"])
    pools = client.at("GET", path, 72).json["pools"]
    for pool, kind in zip(pools, ("thick", "thin"), strict=True):
        assert len(pool["capacity_factors"]) == 1
        factors = pool["capacity_factors"][0]
        assert factors.keys() >= set(specified.FACTORS)
        assert factors["provisioned_type"] == kind
    assert pools[0]["capacity_factors"][0]["reserved_capacity"] == 50
    assert all("capacity_factors" not in pool for pool in client.at("GET", GET_POOLS, 72).json["pools"])


@pytest.mark.parametrize(("kind", "protocol"), [("thick", "block"), ("thin", "file")])
def test_the_largest_volume_of_a_pool_fits_and_a_larger_one_does_not(client: Client, kind: str, protocol: str) -> None:
    name = f"t-{uuid.uuid4()}"
    client.simulate_post(
        "/v3/types", json={"volume_type": {"name": name, "extra_specs": {"storage_protocol": protocol}}}
    )
    [pool] = client.at("GET", f"{GET_POOLS}?detail=True&name={BACKEND}%23{kind}", 72).json["pools"]
    [factors] = pool["capacity_factors"]
    largest = int(factors["maximum_volume_size"])
    assert largest > 0
    body = {"volume": {"size": largest + 1, "volume_type": name}}
    assert client.simulate_post("/v3/volumes", json=body).status_code == 409
    volume = client.create(largest, volume_type=name)
    assert volume["os-vol-host-attr:host"] == f"{BACKEND}#{kind}"
    client.wait_until_settled(volume["id"])
    client.simulate_delete(f"/v3/volumes/{volume['id']}")
    assert client.wait_until_settled(volume["id"]) is None


def test_filters_apply_since_3_28(client: Client) -> None:
    query = f"name={BACKEND}%23thin"
    assert names(client, query, 28) == [THIN]
    assert names(client, query, 27) == [THICK, THIN]
    assert names(client, "name=nowhere", 28) == []


def test_the_filter_by_volume_type_applies_since_3_35(client: Client) -> None:
    name = f"t-{uuid.uuid4()}"
    specs = {"thick_provisioning_support": "<is> True"}
    client.simulate_post("/v3/types", json={"volume_type": {"name": name, "extra_specs": specs}})
    assert names(client, f"volume_type={name}", 35) == [THICK]
    assert names(client, f"volume_type={name}", 34) == [THICK, THIN]


def test_pages_since_3_72(client: Client) -> None:
    assert names(client, "detail=true&limit=1", 72) == [THICK]
    assert names(client, f"limit=1&marker={BACKEND}%23thick", 72) == [THIN]
    assert names(client, f"limit=5&marker={BACKEND}%23thin", 72) == []
    assert names(client, f"marker={BACKEND}%23thick", 72) == [THIN]
    assert names(client, "limit=1&storage_protocol=file", 72) == [THIN]
    assert names(client, f"storage_protocol=file&marker={BACKEND}%23thin&limit=2", 72) == []
    whole = client.at("GET", f"{GET_POOLS}?detail=True", 72).json["pools"]
    page = client.at("GET", f"{GET_POOLS}?detail=True&limit=7", 72).json["pools"]
    for pool in [*whole, *page]:
        pool["capabilities"].pop("figures_age_seconds")
    assert page == whole
    assert client.at("GET", f"{GET_POOLS}?limit=few", 72).status_code == 400
    assert client.at("GET", f"{GET_POOLS}?limit=1", 71).status_code == 400, "pools have no capability of that name"


def test_capability_filters(client: Client) -> None:
    assert names(client, "storage_protocol=file") == [THIN]
    assert names(client, "storage_protocol=tape") == []
    answer = client.at("GET", f"{GET_POOLS}?colour=red", 71)
    assert answer.status_code == 400
    assert "Invalid filters colour" in answer.json["badRequest"]["message"]
    assert names(client, "colour=red", 27) == [THICK, THIN]


@pytest.mark.parametrize(("detail", "status"), [("maybe", 400), ("", 400), ("1", 200), ("no", 200)])
def test_detail_must_be_a_boolean(client: Client, detail: str, status: int) -> None:
    assert client.simulate_get(f"{GET_POOLS}?detail={detail}").status_code == status


def test_explain_returns_the_choice_and_places_nothing(client: Client, project: str) -> None:
    path = f"/v3/{project}/scheduler-stats/explain"
    answer = client.simulate_post(path, json={"volume": {"size": 700}})
    assert answer.status_code == 200, answer.text
    explanation = answer.json["explanation"]
    assert explanation["pool"] == THIN
    verdicts = {verdict["pool"]: verdict for verdict in explanation["verdicts"]}
    assert verdicts[THICK]["filter"] == "CapacityFilter"
    assert verdicts[THICK]["rejection"]["message"]
    assert verdicts[THIN]["total_weight"] is not None
    assert client.simulate_get(f"/v3/{project}/volumes").json == {"volumes": []}
    refused = client.simulate_post(path, json={"volume": {"size": 7000}}).json["explanation"]
    assert refused["pool"] is None
    assert "No pool for 7000 GiB" in refused["message"]


def test_explain_has_the_result_of_every_filter_and_the_refusal_as_data(client: Client, project: str) -> None:
    body = {"volume": {"size": 7000, "availability_zone": "moon"}}
    explanation = client.simulate_post(f"/v3/{project}/scheduler-stats/explain", json=body).json["explanation"]
    assert explanation["filters"][0] == "BackendStateFilter"
    for verdict in explanation["verdicts"]:
        assert verdict["filter"] == "AvailabilityZoneFilter"
        [capacity] = [each for each in verdict["also"] if each["filter"] == "CapacityFilter"]
        assert capacity["rejection"]["numbers"]["size"] == 7000
        assert verdict["headroom"] == capacity["rejection"]["numbers"]["headroom"]
    assert explanation["refusal"]["nearest"]["filter"] == "AvailabilityZoneFilter"
    refused = {outcome["filter"]: outcome["refused"] for outcome in explanation["refusal"]["outcomes"]}
    assert (refused["AvailabilityZoneFilter"], sum(refused.values())) == (2, 2)


def test_explain_a_group_and_an_extension(client: Client, project: str) -> None:
    path = f"/v3/{project}/scheduler-stats/explain"
    group = client.simulate_post(path, json={"volumes": [{"size": 700}, {"size": 600}]}).json["explanations"]
    assert [each["pool"] for each in group] == [THIN, THIN]
    answer = client.simulate_post(path, json={"volumes": [{"size": 700}] * 9}).json["explanations"]
    assert [each["pool"] for each in answer] == [None]
    assert "of 9, all or none" in answer[0]["message"]
    volume = client.create(1)
    client.wait_until_settled(volume["id"])
    grown = client.simulate_post(path, json={"extend": {"volume_id": volume["id"], "new_size": 5000}})
    assert grown.json["explanation"]["refusal"]["request"].startswith("4999 GiB")
    assert client.simulate_get(f"/v3/volumes/{volume['id']}").json["volume"]["size"] == 1
    kind = client.simulate_post("/v3/types", json={"volume_type": {"name": "asked about"}}).json["volume_type"]["id"]
    for about, said in (
        ({"migrate": {"host": BACKEND}}, f"goes to {THICK}"),
        ({"retype": {"new_type": "asked about"}}, "stays in"),
    ):
        [(verb, more)] = about.items()
        moved = client.simulate_post(path, json={verb: {"volume_id": volume["id"], **more}})
        assert said in moved.json["explanation"]["message"], moved.text
    client.simulate_delete(f"/v3/types/{kind}")
    client.simulate_delete(f"/v3/volumes/{volume['id']}")
    for body, status in (
        ({"extend": {"volume_id": volume["id"]}}, 400),
        ({"extend": {"volume_id": str(uuid.uuid4()), "new_size": 3}}, 404),
        ({"migrate": {"volume_id": str(uuid.uuid4())}}, 404),
        ({"retype": {"volume_id": str(uuid.uuid4()), "new_type": "x"}}, 404),
        ({"retype": {"volume_id": volume["id"], "new_type": "x", "migration_policy": "maybe"}}, 400),
        ({"volume": {"size": 1}, "extend": {}}, 400),
        ({}, 400),
    ):
        assert client.simulate_post(path, json=body).status_code == status, body


def test_what_if(client: Client, project: str) -> None:
    path = f"/v3/{project}/scheduler-stats/what-if"
    body = {
        "requests": [{"volume": {"size": 1500}}, {"volume": {"size": 1500}}, {"volumes": [{"size": 1}]}],
        "changes": {"ratios": {BACKEND: 4}, "calculation": "standard", "lost": [THICK]},
    }
    answer = client.simulate_post(path, json=body)
    assert answer.status_code == 200, answer.text
    first, second, third = answer.json["outlooks"]
    assert [each["pool"] for each in (*first["volumes"], *second["volumes"], *third["volumes"])] == [THIN] * 3
    assert first["volumes"][0]["verdicts"] == []
    assert second["unchanged"][0]["pool"] is None
    apart = client.simulate_post(path, json={"requests": body["requests"][:2], "apart": True}).json["outlooks"]
    assert [each["volumes"][0]["pool"] for each in apart] == [first["unchanged"][0]["pool"]] * 2
    detailed = client.simulate_post(path, json={**body, "detail": True}).json["outlooks"]
    assert [each["pool"] for each in detailed[0]["volumes"][0]["verdicts"]] == [THIN]
    assert client.simulate_get(f"/v3/{project}/volumes").json == {"volumes": []}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"requests": []}, "requests"),
        ({"requests": [{"volume": {"size": 1}}], "changes": {"ratio": 2}}, "unknown field ratio"),
        (
            {"requests": [{"volume": {"size": 1}}, {"volume": {"size": 0}}]},
            "requests[1]: Invalid input for volume.size",
        ),
        ({"requests": [{"volume": {"size": 1}}], "changes": {"lost": ["moon"]}}, "no pool or backend 'moon'"),
        ({"requests": [{"volume": {"size": 1}}], "changes": {"default_ratio": 0}}, "default_ratio: 0"),
    ],
)
def test_invalid_simulations_are_rejected(client: Client, body: dict[str, object], said: str) -> None:
    answer = client.simulate_post("/v3/scheduler-stats/what-if", json=body)
    assert answer.status_code == 400
    assert said in answer.json["badRequest"]["message"]


def test_services(client: Client, cluster: Cluster) -> None:
    rows = {row["binary"]: row for row in client.at("GET", "/v3/os-services", 32).json["services"]}
    assert set(rows) == {"cinder-scheduler", "cinder-volume"}
    assert rows["cinder-volume"]["host"] == BACKEND
    for row in rows.values():
        assert (row["state"], row["status"], row["zone"]) == ("up", "enabled", "nova")
        assert row["updated_at"]
    assert all("backend_state" not in row for row in rows.values())
    later = {row["binary"]: row for row in client.at("GET", "/v3/os-services", 49).json["services"]}
    assert later["cinder-volume"]["backend_state"] == "up"
    only = client.simulate_get("/v3/os-services?binary=tonnage-agent").json["services"]
    assert [row["host"] for row in only] == [BACKEND]
    assert client.simulate_get("/v3/os-services?host=nowhere").json == {"services": []}


def test_refusals_are_listed_selected_and_counted(client: Client) -> None:
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 90000}})
    assert answer.status_code == 409
    path = "/v3/scheduler-stats/refusals"
    [row, *_] = client.simulate_get(path).json["refusals"]
    assert row["message"] == answer.json["conflictingRequest"]["message"]
    assert (row["verb"], row["request"], row["code"]) == ("create", "90000 GiB", "no_capacity")
    assert client.simulate_get(f"{path}?request_id={row['request_id']}&limit=1").json["refusals"] == [row]
    assert client.simulate_get(f"{path}?code=none&project_id=demo").json == {"refusals": []}
    counts = client.simulate_get(f"{path}?summary=true").json["refusal_counts"]
    assert sum(each["refusals"] for each in counts) == len(client.simulate_get(f"{path}?limit=9999").json["refusals"])
    for wrong in ("limit=0", "limit=x", "limit=10000", "colour=red", "summary=maybe"):
        assert client.simulate_get(f"{path}?{wrong}").status_code == 400, wrong


def test_why_has_the_claims_of_a_volume_and_the_same_request_now(client: Client) -> None:
    volume = client.create(2, name=f"why {uuid.uuid4()}")
    path = "/v3/scheduler-stats/why"
    why = client.simulate_get(path, params={"volume": volume["name"]}).json["why"]
    assert (why["volume_id"], why["size_gb"]) == (volume["id"], 2)
    assert why["reason"] == f"placed here by request {why['request_id']}"
    assert [(claim["verb"], claim["pool"]) for claim in why["claims"]] == [("create", why["pool"])]
    assert {verdict["pool"] for verdict in why["explanation"]["verdicts"]} == {THIN, THICK}
    assert why["unexplained"] is None
    assert client.simulate_get(path, params={"volume": volume["id"]}).json["why"]["volume_id"] == volume["id"]


def test_why_of_a_refused_request_has_its_refusals_and_the_same_request_now(client: Client) -> None:
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 80000}})
    request_id = answer.headers["x-openstack-request-id"]
    why = client.simulate_get("/v3/scheduler-stats/why", params={"volume": request_id}).json["why"]
    assert why["pool"] is None
    assert why["reason"] == why["explanation"]["message"] == answer.json["conflictingRequest"]["message"]
    [refusal] = why["refusals"]
    assert (refusal["request_id"], refusal["request_body"]["volume"]["size"]) == (request_id, 80000)


def test_why_says_if_the_request_cannot_be_explained(client: Client) -> None:
    source = client.create(1)
    client.wait_until_settled(source["id"])
    clone = client.create(1, source_volid=source["id"])
    client.wait_until_settled(clone["id"])
    client.simulate_delete(f"/v3/volumes/{source['id']}")
    assert client.wait_until_settled(source["id"]) is None
    why = client.simulate_get("/v3/scheduler-stats/why", params={"volume": clone["id"]}).json["why"]
    assert why["explanation"] is None
    assert source["id"] in why["unexplained"]


def test_why_needs_a_volume_that_is_known(client: Client) -> None:
    path = "/v3/scheduler-stats/why"
    assert client.simulate_get(path).status_code == 400
    missing = client.simulate_get(path, params={"volume": "nothing"})
    assert missing.status_code == 404
    assert "nothing could not be found" in missing.json["itemNotFound"]["message"]
