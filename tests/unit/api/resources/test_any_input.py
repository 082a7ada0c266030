# SPDX-License-Identifier: Apache-2.0
"""Tests with arbitrary input: the response is always JSON and never an internal error."""

import uuid
from collections.abc import Iterator
from typing import Any
from urllib import parse

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.api.cluster import Client, Cluster

text = st.text(max_size=300)
words = st.sampled_from(["1", "0", "-1", "true", "null"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text | words
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))


def bodies(outer: str, *keys: str) -> st.SearchStrategy[Any]:
    """Return bodies that are nearly valid, and bodies that are not."""
    inner = st.dictionaries(st.sampled_from(keys) | text, values, max_size=4)
    return st.dictionaries(st.just(outer) | text, inner | values, max_size=2) | values


volume = bodies(
    "volume", "size", "name", "metadata", "volume_type", "availability_zone", "OS-SCH-HNT:scheduler_hints", "imageRef"
)
several = st.fixed_dictionaries(
    {
        "volumes": st.lists(
            st.fixed_dictionaries(
                {"size": st.integers(0, 3) | words},
                optional={
                    "scheduler_hints": st.dictionaries(st.sampled_from(["same_host", "different_host"]) | text, values),
                    "source_volid": text,
                },
            ),
            max_size=3,
        )
        | values
    },
    optional={"scheduler_hints": values},
)
managed = bodies("volume", "host", "ref", "name", "volume_type", "metadata", "bootable", "cluster")
service = st.dictionaries(
    st.sampled_from(["host", "binary", "disabled_reason"]) | text,
    st.sampled_from(["box@disk#thin", "tonnage-agent", "cinder-volume"]) | values,
    max_size=3,
)
kind = bodies("volume_type", "name", "description", "extra_specs", "os-volume-type-access:is_public")
action = (
    bodies("os-extend", "new_size")
    | bodies("os-reset_status", "status", "migration_status", "attach_status")
    | bodies("os-retype", "new_type", "migration_policy")
    | bodies("os-migrate_volume", "host", "lock_volume", "cluster")
    | bodies("os-unmanage", "host")
)
specs = bodies("extra_specs", "provisioning:type", "a")
metadata = bodies("metadata", "a") | bodies("meta", "a")
access = bodies("addProjectAccess", "project") | bodies("removeProjectAccess", "project")
qos = bodies("qos_specs", "name", "consumer", "a") | st.fixed_dictionaries({"keys": values})
name = st.sampled_from(["a", "b"]) | text
csi_pool = st.dictionaries(
    st.sampled_from(["name", "capacity", "nodeList", "nodeTopology", "expiryTime", "$patch", "backingId"]),
    name | values,
)
csi_storage = st.fixed_dictionaries({"storageClassName": name, "pools": st.lists(csi_pool, max_size=2) | values})
csi_driver = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"capacityTracking": st.booleans()}) | values},
    optional={"status": st.fixed_dictionaries({"storage": st.lists(csi_storage, max_size=2) | values}) | values},
)
csi_volume = st.fixed_dictionaries(
    {"name": name, "driver": name},
    optional={"size": st.sampled_from(["1Gi", "1e3"]) | values, "storageClassName": name},
)
fit = st.fixed_dictionaries(
    {
        "volumes": st.lists(csi_volume, max_size=3) | values,
        "nodes": st.lists(st.fixed_dictionaries({"name": name}), max_size=3) | values,
    },
    optional={"claim": st.fixed_dictionaries({"holder": name}) | values},
)
csi = csi_driver | fit
anything = csi | metadata | access | qos | volume | several | managed | service | kind | action | specs | values

often = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def check(answer: Any) -> None:
    # 501: a feature of Cinder that Tonnage does not have.
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    if answer.text:
        assert isinstance(answer.json, dict)
    assert answer.headers["x-openstack-request-id"]


@pytest.fixture(scope="module")
def ids() -> list[str]:
    return [str(uuid.uuid4()), "x", "detail"]


@pytest.fixture(scope="module", autouse=True)
def _room_for_others(cluster: Cluster) -> Iterator[None]:
    """Delete the objects that valid bodies have created."""
    yield
    client = cluster.client()
    made = [volume["id"] for volume in client.simulate_get("/v3/volumes").json["volumes"]]
    for volume_id in made:
        client.wait_until_settled(volume_id)
        client.simulate_delete(f"/v3/volumes/{volume_id}")
    for volume_id in made:
        assert client.wait_until_settled(volume_id) is None


@often
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    path=st.sampled_from(
        [
            "/v3/volumes",
            "/v3/demo/volumes/detail",
            "/v3/volumes/{id}",
            "/v3/volumes/{id}/action",
            "/v3/volumes/{id}/metadata",
            "/v3/volumes/{id}/metadata/a",
            "/v3/manageable_volumes",
            "/v3/os-volume-manage/detail",
            "/v3/os-services/disable-log-reason",
            "/v3/os-services/{id}",
            "/v3/types",
            "/v3/types/{id}",
            "/v3/types/{id}/extra_specs",
            "/v3/types/{id}/action",
            "/v3/types/{id}/extra_specs/a",
            "/v3/qos-specs",
            "/v3/qos-specs/{id}",
            "/v3/qos-specs/{id}/delete_keys",
            "/v3/snapshots/{id}",
            "/v3/scheduler-stats/explain",
            "/v3/scheduler-stats/what-if",
            "/v3/messages/{id}",
            "/v3/csi-drivers/{id}",
            "/v3/csi-capacity/fit",
            "/v3/csi-capacity/claims/{id}",
        ]
    ),
    body=anything,
    number=st.integers(0, 2),
)
def test_arbitrary_bodies(client: Client, ids: list[str], method: str, path: str, body: Any, number: int) -> None:
    raw = msgspec.json.encode(body) if _encodable(body) else b"{}"
    path = path.replace("{id}", ids[number])
    check(client.simulate_request(method, path, body=raw, headers={"Content-Type": "application/json"}))


@often
@given(body=st.binary(max_size=200), kind=st.sampled_from(["application/json", "text/plain", "", "\u00e4/json;;", "x"]))
def test_arbitrary_bytes(client: Client, body: bytes, kind: str) -> None:
    check(client.simulate_post("/v3/volumes", body=body, headers={"Content-Type": kind.encode().decode("latin-1")}))


LISTS = [
    "volumes",
    "volumes/detail",
    "types",
    "messages",
    "os-services",
    "scheduler-stats/get_pools",
    "manageable_volumes",
    "os-volume-manage/detail",
    "volumes/summary",
    "os-hosts",
    "snapshots/detail",
    "qos-specs",
    "resource_filters",
]
STEERING = ["limit", "marker", "sort", "sort_key", "sort_dir", "all_tenants", "with_count", "offset", "detail"]
FILTERS = [
    "name",
    "name~",
    "id",
    "is_public",
    "volume_type",
    "status",
    "project_id",
    "host",
    "metadata",
    "bootable",
    "storage_protocol",
]


@often
@given(
    path=st.sampled_from(LISTS),
    query=st.dictionaries(
        st.sampled_from([*STEERING, *FILTERS]) | text,
        text | words | st.sampled_from(["name:asc", "created_at", "none", "9" * 30]),
        max_size=4,
    ),
    minor=st.sampled_from([0, 28, 35, 45, 72]),
)
def test_arbitrary_queries(client: Client, path: str, query: dict[str, str], minor: int) -> None:
    pairs = {key.encode("utf-8", "replace"): value.encode("utf-8", "replace") for key, value in query.items()}
    check(client.at("GET", f"/v3/{path}", minor, query_string=parse.urlencode(pairs)))


@often
@given(segment=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300), version=text)
def test_arbitrary_paths_and_versions(client: Client, segment: str, version: str) -> None:
    quoted = parse.quote(segment, safe="")
    check(client.simulate_get(f"/v3/volumes/{quoted}"))
    check(client.simulate_get(f"/v3/types/{quoted}"))
    check(client.simulate_get(f"/v3/{quoted}/volumes"))
    header = version.encode("ascii", "replace").decode()
    header = "".join(letter for letter in header if letter.isprintable())
    check(client.simulate_get("/v3/types", headers={"OpenStack-API-Version": f"volume {header}"}))


def _encodable(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True
