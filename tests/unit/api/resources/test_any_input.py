# SPDX-License-Identifier: Apache-2.0
"""Tests with arbitrary input: the response is always JSON and never an internal error."""

import uuid
from collections.abc import Iterator
from typing import Any
from urllib import parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.api.any_input import bodies, check, encoded, often, text, values, words
from tests.unit.api.cluster import Client, Cluster

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
anything = metadata | access | qos | volume | several | managed | service | kind | action | specs | values


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
        ]
    ),
    body=anything,
    number=st.integers(0, 2),
)
def test_arbitrary_bodies(client: Client, ids: list[str], method: str, path: str, body: Any, number: int) -> None:
    raw = encoded(body)
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
