# SPDX-License-Identifier: Apache-2.0
"""The resources behind the web page that are not about single pools."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.api.cluster import BACKEND, Client, Cluster
from tonnage.ledger import models

PATH = "/v3/capacity-overview"


def show(client: Client, path: str, **query: Any) -> Any:
    answer = client.simulate_get(f"{PATH}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def make_type(client: Client, name: str, **specs: str) -> None:
    body = {"volume_type": {"name": name, "extra_specs": {key.replace("__", ":"): specs[key] for key in specs}}}
    assert client.simulate_post("/v3/types", json=body).status_code == 200


def test_types_have_their_volumes(client: Client) -> None:
    make_type(client, "page-sums")
    client.wait_until_settled(client.create(2, volume_type="page-sums")["id"])
    [shown] = [each for each in show(client, "types")["types"] if each["name"] == "page-sums"]
    assert shown == {"name": "page-sums", "is_public": True, "volumes": 1, "size_gb": 2}


def test_a_type_has_the_headroom_of_its_best_pool_and_the_reasons_of_the_others(client: Client) -> None:
    make_type(client, "page-thick", provisioning__type="thick", storage_protocol="block")
    found = show(client, "type", name="page-thick")
    pools = client.simulate_get(f"{PATH}/pools").json["pools"]
    [headroom] = [pool["headroom_thick_gb"] for pool in pools if pool["name"] == f"{BACKEND}#thick"]
    assert (found["pools"], found["candidates"], found["headroom_gb"]) == (2, 1, headroom)
    [refused] = found["refused"]
    assert (refused["filter"], refused["pools"], refused["example"]) == ("CapabilitiesFilter", 1, f"{BACKEND}#thin")
    assert refused["reason"]


def test_a_type_without_pools_has_no_headroom(client: Client) -> None:
    make_type(client, "page-none", media="tape")
    found = show(client, "type", name="page-none")
    assert (found["candidates"], found["headroom_gb"]) == (0, None)
    assert "media" in found["refused"][0]["reason"]
    assert client.simulate_get(f"{PATH}/type?name=missing").status_code == 404


def test_the_ledger_is_checked(cluster: Cluster, client: Client) -> None:
    found = show(client, "ledger")
    assert found["pools"] == 2
    assert [each["name"] for each in found["backends"]] == [BACKEND]
    assert found["drift_count"] == len([each for each in found["findings"] if each["is_drift"]])
    with orm.Session(cluster.database.engine) as session:
        session.add(
            models.Finding(backend_id=sa.select(models.Backend.id).scalar_subquery(), pool="thin", breach="b", text="t")
        )
        session.commit()
    assert [(each["pool"], each["breach"], each["text"]) for each in show(client, "ledger")["audits"]] == [
        ("thin", "b", "t")
    ]
    detail = show(client, "pool", name=f"{BACKEND}#thin")
    assert [(each["breach"], each["text"]) for each in detail["findings"]] == [("b", "t")]
    with orm.Session(cluster.database.engine) as session:
        session.execute(sa.delete(models.Finding))
        session.commit()


def test_refusals_are_counted_and_shown(client: Client) -> None:
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 123456}})
    assert answer.status_code == 409
    found = show(client, "refusals")
    last = found["refusals"][0]
    assert (last["verb"], last["request"], last["filter"]) == ("create", "123456 GiB", "CapacityFilter")
    assert last["message"] == answer.json["conflictingRequest"]["message"]
    assert sum(each["refusals"] for each in found["counts"]) >= 1
    assert last in show(client, "refusals", pool=last["pool"])["refusals"]
    assert show(client, "refusals", pool="none")["refusals"] == []


@pytest.mark.parametrize("path", ["types", "type?name=x", "ledger", "refusals"])
def test_only_administrators_see_them(member: Client, path: str) -> None:
    assert member.simulate_get(f"{PATH}/{path}").status_code == 403
