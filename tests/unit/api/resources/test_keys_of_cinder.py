# SPDX-License-Identifier: Apache-2.0
"""The table of keys to which Cinder gives a meaning, in the page of differences, is true and complete."""

import pathlib
import re
import uuid
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.unit.api.cluster import BACKEND, Client
from tonnage.api.schemas.volume_bodies import Manageable, NewVolume
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter
from tonnage.filters.instance_locality import InstanceLocalityFilter
from tonnage.filters.json_query import JsonFilter
from tonnage.scheduler.requests.ignored_keys import IgnoredKeys

PAGE = pathlib.Path(__file__).parents[4] / "docs" / "differences-from-cinder.rst"
ROW = re.compile(r"^   \* - ((?:.|\n)+?)\n     - (.+)\n     - \*(obeyed|refused|without effect)\*", re.MULTILINE)

#: Hints of Tonnage, under their keys in the body of a new volume.
OWN_FIELDS = {"OS-SCH-HNT:scheduler_hints", "scheduler_hints"}

#: For each extra spec a value that no pool meets, or that shows in the request.
SPECS = {
    "volume_backend_name": "nowhere",
    "capabilities:compression": "<is> True",
    "multiattach": "<is> True",
    "replication_enabled": "<is> True",
    "cacheable": "<is> True",
    "provisioning:type": "thick",
    "provisioning:min_vol_size": "2",
    "provisioning:max_vol_size": "0",
    "RESKEY:availability_zones": "nowhere",
    "image_service:store_id": "fast",
    "hpe3par:cpg": "gold",
    "consistent_group_snapshot_enabled": "<is> True",
    "consistent_group_replication_enabled": "<is> True",
}
FIELDS = {
    "size": 2,
    "name": "n",
    "description": "d",
    "display_name": "n",
    "display_description": "d",
    "availability_zone": "nova",
    "metadata": {"a": "b"},
    "snapshot_id": "x",
    "imageRef": "x",
    "image_id": "x",
    "backup_id": "x",
    "consistencygroup_id": "x",
    "multiattach": True,
}
SHOWN_AS = {"display_name": "name", "display_description": "description"}


def table() -> dict[tuple[str, str], str]:
    """Return what Tonnage does with each key, by where it is and its name."""
    section = PAGE.read_text().split("Keys with a meaning\n===")[1].split("Notifications\n===")[0]
    rows = ROW.findall(section)
    assert len(rows) == section.count("   * - ") - 1, "each row but the header says what is done"
    return {(where, key): verdict for keys, where, verdict in rows for key in re.findall("``([^`]+)``", keys)}


TABLE = table()


def keys(where: str, verdict: str) -> list[str]:
    return [key for (place, key), done in TABLE.items() if (place, done) == (where, verdict)]


def new_type(client: Client, **specs: str) -> str:
    body = {"volume_type": {"name": f"t-{uuid.uuid4()}", "extra_specs": specs}}
    answer = client.simulate_post("/v3/types", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json["volume_type"]["id"])


def explain(client: Client, **fields: Any) -> Any:
    return client.simulate_post("/v3/scheduler-stats/explain", json={"volume": {"size": 1, **fields}})


def test_the_table_has_every_field_of_a_new_volume() -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(NewVolume)} - OWN_FIELDS
    assert {key for place, key in TABLE if place == "new volume"} == fields


@pytest.mark.parametrize("key", keys("extra specs", "obeyed"))
def test_obeyed_extra_specs(client: Client, key: str) -> None:
    answer = explain(client, volume_type=new_type(client, **{key: SPECS[key]}))
    if answer.status_code == 400:
        assert "volume size of '1'" in answer.json["badRequest"]["message"]
        return
    explanation = answer.json["explanation"]
    assert explanation["ignored_specs"] == []
    assert explanation["pool"] is None or explanation["request"].startswith(f"1 GiB {SPECS[key]}")


@pytest.mark.parametrize("key", keys("extra specs", "without effect"))
def test_extra_specs_without_effect(client: Client, key: str) -> None:
    explanation = explain(client, volume_type=new_type(client, **{key: SPECS[key]})).json["explanation"]
    assert explanation["pool"] is not None
    [sentence] = explanation["ignored_specs"]
    assert sentence.startswith(f"the extra spec {key} has no effect")


@pytest.mark.parametrize("key", keys("group specs", "obeyed"))
def test_obeyed_group_specs(client: Client, key: str) -> None:
    body = {"group_type": {"name": f"g-{uuid.uuid4()}", "group_specs": {key: SPECS[key]}}}
    group_type = client.at("POST", "/v3/group_types", 11, json=body).json["group_type"]["id"]
    volume_type = new_type(client)
    group = {"group_type": group_type, "volume_types": [volume_type]}
    group_id = client.at("POST", "/v3/groups", 13, json={"group": group}).json["group"]["id"]
    assert explain(client, volume_type=volume_type, group_id=group_id).json["explanation"]["pool"] is None


def test_a_type_with_encryption_is_refused(client: Client) -> None:
    assert keys("new type", "refused") == ["encryption"]
    body = {"volume_type": {"name": f"t-{uuid.uuid4()}", "encryption": {"provider": "luks"}}}
    assert client.simulate_post("/v3/types", json=body).status_code == 501


def test_obeyed_hints_have_a_filter() -> None:
    filters = [SameBackendFilter, DifferentBackendFilter, InstanceLocalityFilter, JsonFilter]
    hints = dict.fromkeys(keys("hints", "obeyed"), "x")
    assert len(hints) == len(filters)
    assert IgnoredKeys(plugin(SimpleNamespace()) for plugin in filters).hints(hints) == []
    sentences = IgnoredKeys([]).hints(hints)
    assert {sentence.rpartition(" ")[2] for sentence in sentences} == {plugin.__name__ for plugin in filters}


@pytest.mark.parametrize("key", keys("hints", "without effect"))
def test_hints_without_effect(client: Client, key: str) -> None:
    explanation = explain(client, scheduler_hints={key: "x"}).json["explanation"]
    assert explanation["pool"] is not None
    [sentence] = explanation["ignored_hints"]
    assert sentence.startswith(f"the hint {key} has no effect")


@pytest.mark.parametrize("key", sorted(set(keys("new volume", "obeyed")) & FIELDS.keys()))
def test_obeyed_fields(client: Client, key: str) -> None:
    assert client.create(**{"size": 1, key: FIELDS[key]})[SHOWN_AS.get(key, key)] == FIELDS[key]


def test_a_volume_has_its_type_source_and_group(client: Client) -> None:
    assert set(keys("new volume", "obeyed")) - FIELDS.keys() == {"volume_type", "source_volid", "group_id"}
    volume_type = new_type(client)
    source = client.wait_until_settled(client.create(1, volume_type=volume_type)["id"])
    assert source["volume_type_id"] == volume_type
    group_type = client.at("POST", "/v3/group_types", 11, json={"group_type": {"name": f"g-{uuid.uuid4()}"}})
    group = {"group_type": group_type.json["group_type"]["id"], "volume_types": [volume_type]}
    group_id = client.at("POST", "/v3/groups", 13, json={"group": group}).json["group"]["id"]
    clone = client.create(1, source_volid=source["id"], group_id=group_id)
    assert (clone["source_volid"], clone["group_id"]) == (source["id"], group_id)


@pytest.mark.parametrize("key", keys("new volume", "refused"))
def test_refused_fields(client: Client, key: str) -> None:
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 1, key: FIELDS[key]}})
    assert answer.status_code in (400, 404)
    [fault] = answer.json.values()
    assert key.removesuffix("_id") in fault["message"].lower() or key in fault["message"]


def test_refused_fields_of_a_managed_volume(client: Client) -> None:
    values = {"availability_zone": "north", "bootable": True, "cluster": "c"}
    assert set(keys("managed volume", "refused")) == values.keys()
    assert {key for place, key in TABLE if place == "managed volume"} <= {
        field.encode_name for field in msgspec.structs.fields(Manageable)
    }
    for key, value in values.items():
        body = {"volume": {"host": f"{BACKEND}#thin", "ref": "r", key: value}}
        answer = client.simulate_post("/v3/manageable_volumes", json=body)
        assert answer.status_code == 400
        assert f"{key} is " in answer.json["badRequest"]["message"]


def test_qos_specs_are_accepted(client: Client) -> None:
    specs = dict.fromkeys(keys("QoS specs", "without effect"), "1")
    body = {"qos_specs": {"name": f"q-{uuid.uuid4()}", "consumer": "front-end", **specs}}
    assert client.simulate_post("/v3/qos-specs", json=body).json["qos_specs"]["specs"] == specs
