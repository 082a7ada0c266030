# SPDX-License-Identifier: Apache-2.0
"""Tests of quotas over REST: limits, usage, and the errors of requests above a limit."""

import uuid
from typing import Any

import pytest

from tests.unit.api.cluster import Client, Cluster

DEFAULTS = {
    "volumes": 10,
    "gigabytes": 1000,
    "snapshots": 10,
    "backups": 10,
    "backup_gigabytes": 1000,
    "groups": 10,
    "per_volume_gigabytes": -1,
}


@pytest.fixture
def fast(client: Client) -> Any:
    """A volume type."""
    name = f"fast-{uuid.uuid4().hex[:8]}"
    return client.simulate_post("/v3/types", json={"volume_type": {"name": name}}).json["volume_type"]


def put(client: Client, path: str, **values: Any) -> Any:
    kind = "quota_class_set" if "class" in path else "quota_set"
    return client.simulate_put(f"/v3/{path}", json={kind: values})


def shown(client: Client, project: str, query: str = "") -> Any:
    answer = client.simulate_get(f"/v3/os-quota-sets/{project}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json["quota_set"]


def test_a_new_project_has_the_limits_of_the_options(client: Client, project: str, fast: Any) -> None:
    found = shown(client, project)
    assert found["id"] == project
    assert {name: found[name] for name in DEFAULTS} == DEFAULTS
    assert found[f"volumes_{fast['name']}"] == found[f"gigabytes_{fast['name']}"] == -1
    assert shown(client, f"{project}/defaults") == found


def test_new_limits_are_shown_and_others_stay(client: Client, project: str, fast: Any) -> None:
    values = {"volumes": 7, "gigabytes": "70", f"gigabytes_{fast['name']}": 50, "snapshots": None, "tenant_id": project}
    answer = put(client, f"os-quota-sets/{project}", **values)
    assert answer.status_code == 200, answer.text
    assert {"id": project, **answer.json["quota_set"]} == shown(client, project)
    assert shown(client, project) == {
        **shown(client, uuid.uuid4().hex),
        "id": project,
        "volumes": 7,
        "gigabytes": 70,
        f"gigabytes_{fast['name']}": 50,
    }
    assert client.simulate_delete(f"/v3/os-quota-sets/{project}").status_code == 200
    assert shown(client, project)["volumes"] == 10


def test_a_user_can_have_lower_limits_than_the_project(client: Client, project: str) -> None:
    put(client, f"os-quota-sets/{project}", gigabytes=70)
    put(client, f"os-quota-sets/{project}?user_id=u", gigabytes=5)
    assert shown(client, project, "?user_id=u")["gigabytes"] == 5
    assert shown(client, project, "?user_id=v")["gigabytes"] == 70
    client.simulate_delete(f"/v3/os-quota-sets/{project}?user_id=u")
    assert shown(client, project, "?user_id=u")["gigabytes"] == 70


def test_limits_of_the_default_class_take_precedence_over_options(client: Client, project: str) -> None:
    try:
        answer = put(client, "os-quota-class-sets/default", backups=3)
        assert answer.json["quota_class_set"]["backups"] == 3
        assert shown(client, project)["backups"] == shown(client, f"{project}/defaults")["backups"] == 3
        assert client.simulate_get("/v3/os-quota-class-sets/gold").json["quota_class_set"]["backups"] == 10
    finally:
        put(client, "os-quota-class-sets/default", backups=10)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"volumes": -2}, "volumes has to be a whole number from -1"),
        ({"volumes": 2**31}, "2147483647"),
        ({"volumes": "many"}, "volumes has to be a whole number"),
        ({"volumes": 1.5}, "volumes has to be a whole number"),
        ({"volumes": True}, "volumes has to be a whole number"),
        ({"cores": 5, "gigabytes_none": 1}, "Bad key(s) in quota set: cores, gigabytes_none"),
    ],
)
def test_an_invalid_limit_is_rejected_and_no_limit_is_set(
    client: Client, project: str, values: dict[str, Any], message: str
) -> None:
    answer = put(client, f"os-quota-sets/{project}", groups=1, **values)
    assert answer.status_code == 400
    assert message in answer.json["badRequest"]["message"]
    assert shown(client, project)["groups"] == 10


def test_a_limit_below_the_usage_is_rejected_if_validation_is_requested(
    client: Client, member: Client, project: str
) -> None:
    member.wait_until_settled(member.create(3)["id"])
    path = f"os-quota-sets/{project}?skip_validation=False"
    answer = put(client, path, gigabytes=2)
    assert answer.status_code == 400
    assert "below the usage of 3" in answer.json["badRequest"]["message"]
    assert put(client, path, gigabytes=3).status_code == 200
    assert put(client, path, gigabytes=-1).status_code == 200
    assert put(client, f"os-quota-sets/{project}", gigabytes=2).status_code == 200


def test_usage_counts_existing_volumes_and_operations_in_progress(
    cluster: Cluster, client: Client, member: Client, project: str, fast: Any
) -> None:
    first = member.create(3, volume_type=fast["name"])
    member.wait_until_settled(first["id"])
    cluster.storage.paused = True
    try:
        member.create(2)
        member.simulate_post(f"/v3/volumes/{first['id']}/action", json={"os-extend": {"new_size": 7}})
        found = shown(client, project, "?usage=True")
        assert found["volumes"] == {"limit": 10, "in_use": 1, "reserved": 1}
        assert found["gigabytes"] == {"limit": 1000, "in_use": 3, "reserved": 6}
        assert found[f"gigabytes_{fast['name']}"] == {"limit": -1, "in_use": 3, "reserved": 4}
        assert found["backups"] == {"limit": 10, "in_use": 0, "reserved": 0}
    finally:
        cluster.storage.resume()
    member.wait_until_settled(first["id"])
    limits = member.simulate_get("/v3/limits").json["limits"]
    assert limits["rate"] == []
    assert limits["absolute"] == {
        "maxTotalVolumes": 10,
        "totalVolumesUsed": 2,
        "maxTotalVolumeGigabytes": 1000,
        "totalGigabytesUsed": 9,
        "maxTotalSnapshots": 10,
        "totalSnapshotsUsed": 0,
        "maxTotalBackups": 10,
        "totalBackupsUsed": 0,
        "maxTotalBackupGigabytes": 1000,
        "totalBackupGigabytesUsed": 0,
    }
    assert client.simulate_get(f"/v3/limits?tenant_id={project}").json["limits"] == limits


def over(answer: Any) -> str:
    """Return the message of the error for a request above a quota."""
    assert answer.status_code == 413, answer.text
    assert answer.headers["retry-after"] == "0"
    fault = answer.json["overLimit"]
    assert (fault["code"], fault["retryAfter"]) == (413, "0")
    return str(fault["message"])


def test_quota_errors_have_the_format_of_cinder(
    cluster: Cluster, client: Client, member: Client, project: str, fast: Any
) -> None:
    put(
        client,
        f"os-quota-sets/{project}",
        volumes=2,
        gigabytes=10,
        per_volume_gigabytes=8,
        **{f"volumes_{fast['name']}": 0},
    )
    volume = member.wait_until_settled(member.create(4)["id"])

    def create(size: int, **more: Any) -> Any:
        return member.simulate_post("/v3/volumes", json={"volume": {"size": size, **more}})

    assert over(create(7)) == (
        "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 7G, "
        "quota is 10G and 4G has been consumed."
    )
    assert over(create(9)).startswith("VolumeSizeExceedsLimit: Requested volume size 9G is larger than maximum")
    assert over(create(1, volume_type=fast["name"])) == (
        f"VolumeLimitExceeded: Maximum number of volumes allowed (0) exceeded for quota 'volumes_{fast['name']}'."
    )
    group = {"volumes": [{"size": 1}, {"size": 1}]}
    assert over(member.simulate_post("/v3/volumes", json=group)).startswith("VolumeLimitExceeded: Maximum number")
    path = f"/v3/volumes/{volume['id']}/action"
    retype = {"os-retype": {"new_type": fast["name"], "migration_policy": "never"}}
    assert over(member.simulate_post(path, json=retype)).startswith("VolumeLimitExceeded")
    assert over(member.simulate_post(path, json={"os-extend": {"new_size": 9}})).startswith("VolumeSizeExceedsLimit")
    assert create(6).status_code == 202
    assert over(create(1)).startswith("VolumeSizeExceedsAvailableQuota")
    assert over(member.simulate_post(path, json={"os-extend": {"new_size": 5}})).startswith("VolumeSizeExceedsAvail")


def test_managed_volumes_require_quota(cluster: Cluster, client: Client, project: str) -> None:
    put(client, f"os-quota-sets/{project}", volumes=0)
    body = {"volume": {"host": "box@disk#thin", "ref": {"source-name": "strange"}}}
    assert over(client.simulate_post(f"/v3/{project}/manageable_volumes", json=body)).startswith("VolumeLimitExceeded")


def test_projects_cannot_see_or_change_the_quotas_of_others(
    member: Client, project: str, fast: Any, client: Client
) -> None:
    client.simulate_put(f"/v3/types/{fast['id']}", json={"volume_type": {"is_public": False}})
    other = uuid.uuid4().hex
    own = shown(member, project)
    assert f"volumes_{fast['name']}" not in own
    for method, path in (
        ("GET", f"/os-quota-sets/{other}"),
        ("GET", f"/os-quota-sets/{other}/defaults"),
        ("GET", f"/limits?project_id={other}"),
        ("PUT", f"/os-quota-sets/{project}"),
        ("PUT", f"/os-quota-sets/{other}"),
        ("DELETE", f"/os-quota-sets/{project}"),
        ("GET", "/os-quota-class-sets/default"),
        ("PUT", "/os-quota-class-sets/default"),
    ):
        answer = member.simulate_request(
            method, f"/v3{path.partition('?')[0]}", query_string=path.partition("?")[2], json={}
        )
        assert answer.status_code == 403, (method, path, answer.text)
