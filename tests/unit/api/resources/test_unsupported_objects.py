# SPDX-License-Identifier: Apache-2.0
"""Objects of Cinder that Tonnage does not have: empty lists, and clear refusals."""

import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import Client


def name() -> str:
    return f"n-{uuid.uuid4()}"


@pytest.fixture
def kind(client: Client) -> Any:
    """A created volume type."""
    return client.simulate_post("/v3/types", json={"volume_type": {"name": name()}}).json["volume_type"]


LISTS = [
    ("snapshots", "snapshots", 0),
    ("backups", "backups", 0),
    ("group_snapshots", "group_snapshots", 14),
    ("attachments", "attachments", 27),
    ("os-volume-transfer", "transfers", 0),
    ("volume-transfers", "transfers", 55),
    ("clusters", "clusters", 7),
    ("default-types", "default_types", 62),
    ("consistencygroups", "consistencygroups", 0),
    ("cgsnapshots", "cgsnapshots", 0),
    ("os-snapshot-manage", "manageable-snapshots", 0),
    ("manageable_snapshots", "manageable-snapshots", 8),
]


@pytest.mark.parametrize(("path", "key", "since"), LISTS)
def test_missing_kinds_of_objects(client: Client, member: Client, path: str, key: str, since: int) -> None:
    for caller in (client, member):
        assert caller.at("GET", f"/v3/{path}", since).json == {key: []}
        assert caller.at("GET", f"/v3/{path}/detail", since).json == {key: []}
        refused = caller.at("POST", f"/v3/{path}", since, json={})
        assert refused.status_code == 501
        assert " are not supported: " in refused.json["notImplemented"]["message"]
        for method in ("GET", "DELETE"):
            assert caller.at(method, f"/v3/{path}/{uuid.uuid4()}", since).status_code == 404
        assert caller.at("POST", f"/v3/{path}/action", since, json={}).status_code == 501
    replaceable = path in ("clusters", "default-types")
    answer = client.at("PUT", f"/v3/{path}/{uuid.uuid4()}", since, json={})
    assert answer.status_code == (501 if replaceable else 404)
    if since:
        assert client.at("GET", f"/v3/{path}", since - 1).status_code == 404


def test_no_type_is_encrypted(client: Client, kind: Any) -> None:
    path = f"/v3/types/{kind['id']}/encryption"
    encryption = {"provider": "luks", "control_location": "front-end"}
    assert client.simulate_post(path, json={"encryption": encryption}).status_code == 501
    assert client.simulate_get(path).json == {}
    for method in ("GET", "PUT", "DELETE"):
        assert client.simulate_request(method, f"{path}/provider").status_code == 404
    encrypted = {"name": name(), "encryption": encryption}
    answer = client.simulate_post("/v3/types", json={"volume_type": encrypted})
    assert answer.status_code == 501
    assert "encryption" in answer.json["notImplemented"]["message"]
    assert encrypted["name"] not in client.types()
