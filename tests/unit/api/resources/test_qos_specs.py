# SPDX-License-Identifier: Apache-2.0
"""QoS specs over REST."""

import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import Client


@pytest.fixture
def name() -> str:
    return f"qos-{uuid.uuid4()}"


def create(client: Client, name: str, **specs: str) -> str:
    answer = client.simulate_post("/v3/qos-specs", json={"qos_specs": {"name": name, **specs}})
    assert answer.status_code == 200, answer.text
    return str(answer.json["qos_specs"]["id"])


def test_create_change_delete(client: Client, name: str) -> None:
    specs_id = create(client, name, consumer="both", maxIOPS="500", tier="a")
    path = f"/v3/qos-specs/{specs_id}"
    shown = client.simulate_get(path).json["qos_specs"]
    assert shown == {"id": specs_id, "name": name, "consumer": "both", "specs": {"maxIOPS": "500", "tier": "a"}}
    assert shown in client.simulate_get("/v3/qos-specs").json["qos_specs"]

    change = {"qos_specs": {"maxIOPS": "7", "consumer": "front-end"}}
    assert client.simulate_put(path, json=change).json == change
    assert client.simulate_put(f"{path}/delete_keys", json={"keys": ["tier"]}).status_code == 202
    assert client.simulate_put(f"{path}/delete_keys", json={"keys": ["tier"]}).status_code == 404
    shown = client.simulate_get(path).json["qos_specs"]
    assert (shown["consumer"], shown["specs"]) == ("front-end", {"maxIOPS": "7"})

    again = client.simulate_post("/v3/qos-specs", json={"qos_specs": {"name": name}})
    assert (again.status_code, again.json["conflictingRequest"]["message"]) == (
        409,
        f"QoS Specs {name} already exists.",
    )
    assert client.simulate_delete(path).status_code == 202
    assert client.simulate_get(path).status_code == 404


def test_qos_specs_are_associated_with_types(client: Client, member: Client, name: str) -> None:
    one, other = create(client, name), create(client, f"{name}-2")
    kind = client.simulate_post("/v3/types", json={"volume_type": {"name": name}}).json["volume_type"]
    assert client.simulate_get(f"/v3/types/{kind['id']}").json["volume_type"]["qos_specs_id"] is None

    def change(specs_id: str, verb: str) -> int:
        return int(client.simulate_get(f"/v3/qos-specs/{specs_id}/{verb}?vol_type_id={kind['id']}").status_code)

    assert change(one, "associate") == change(one, "associate") == 202
    assert change(other, "associate") == 400
    assert client.simulate_get(f"/v3/types/{kind['id']}").json["volume_type"]["qos_specs_id"] == one
    listed = {each["id"]: each for each in client.simulate_get("/v3/types").json["volume_types"]}
    assert listed[kind["id"]]["qos_specs_id"] == one
    assert "qos_specs_id" not in member.simulate_get(f"/v3/types/{kind['id']}").json["volume_type"]
    told = client.simulate_get(f"/v3/qos-specs/{one}/associations").json
    assert told == {"qos_associations": [{"association_type": "volume_type", "id": kind["id"], "name": name}]}
    assert client.simulate_delete(f"/v3/qos-specs/{one}").status_code == 400
    assert change(one, "disassociate") == 202
    assert change(one, "associate") == 202
    assert client.simulate_get(f"/v3/qos-specs/{one}/disassociate_all").status_code == 202
    assert client.simulate_get(f"/v3/qos-specs/{one}/associations").json == {"qos_associations": []}
    assert change(one, "associate") == 202
    assert client.simulate_delete(f"/v3/qos-specs/{one}?force=True").status_code == 202
    assert client.simulate_get(f"/v3/types/{kind['id']}").json["volume_type"]["qos_specs_id"] is None
    assert client.simulate_get(f"/v3/qos-specs/{other}/associate").status_code == 400
    assert client.simulate_get(f"/v3/qos-specs/{other}/associate?vol_type_id=x").status_code == 404
    client.simulate_delete(f"/v3/qos-specs/{other}")
    client.simulate_delete(f"/v3/types/{kind['id']}")


@pytest.mark.parametrize(
    ("header", "value"),
    [("Purpose", "prefetch"), ("Sec-Purpose", "prefetch;prerender"), ("Sec-Fetch-Site", "cross-site")],
)
def test_a_prefetch_or_a_page_of_another_site_changes_no_association(
    client: Client, name: str, header: str, value: str
) -> None:
    one = create(client, name)
    kind = client.simulate_post("/v3/types", json={"volume_type": {"name": name}}).json["volume_type"]["id"]
    path = f"/v3/qos-specs/{one}/associate?vol_type_id={kind}"
    assert client.simulate_get(path, headers={header: value}).status_code == 400
    assert client.simulate_get(f"/v3/qos-specs/{one}/associations").json == {"qos_associations": []}
    assert client.simulate_get(path).headers["Cache-Control"] == "no-store"
    assert client.simulate_get(f"/v3/qos-specs/{one}/disassociate_all", headers={header: value}).status_code == 400
    done = client.simulate_get(f"/v3/qos-specs/{one}/disassociate_all")
    assert (done.status_code, done.headers["Cache-Control"]) == (202, "no-store")
    client.simulate_delete(f"/v3/qos-specs/{one}")


@pytest.mark.parametrize(
    "specs",
    [{}, {"name": " "}, {"name": "x", "consumer": "me"}, {"name": "x", "k": 1}, {"name": "x", "a,b": "c"}, None],
)
def test_invalid_specs_are_rejected(client: Client, specs: Any) -> None:
    assert client.simulate_post("/v3/qos-specs", json={"qos_specs": specs}).status_code == 400


def test_qos_specs_are_for_administrators(member: Client) -> None:
    calls = [("GET", ""), ("POST", ""), ("GET", "/x"), ("PUT", "/x"), ("DELETE", "/x"), ("PUT", "/x/delete_keys")]
    calls += [("GET", f"/x/{verb}") for verb in ("associations", "associate", "disassociate", "disassociate_all")]
    for method, path in calls:
        assert member.simulate_request(method, f"/v3/qos-specs{path}", json={}).status_code == 403, (method, path)
