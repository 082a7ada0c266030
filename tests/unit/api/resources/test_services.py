# SPDX-License-Identifier: Apache-2.0
"""Tests that enable, disable and drain backends over REST."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.base import wait_for
from tests.unit.api.cluster import BACKEND, Client, Cluster

BODY = {"host": BACKEND, "binary": "tonnage-agent"}


@pytest.fixture(autouse=True)
def _enabled_again(client: Client) -> Iterator[None]:
    yield
    assert put(client, "enable").status_code == 200


def put(client: Client, action: str, **fields: Any) -> Any:
    return client.at("PUT", f"/v3/demo/os-services/{action}", 72, json={**BODY, **fields})


def shown(client: Client) -> Any:
    return client.at("GET", f"/v3/os-services?host={BACKEND}", 72).json["services"][0]


def capabilities(client: Client) -> list[Any]:
    pools = client.at("GET", "/v3/scheduler-stats/get_pools?detail=True", 72).json["pools"]
    return [pool["capabilities"] for pool in pools]


def test_nothing_is_placed_on_a_disabled_backend(client: Client) -> None:
    volume = client.wait_until_settled(client.create(1)["id"])
    answer = put(client, "disable")
    assert answer.json == {
        "host": BACKEND,
        "service": "",
        "binary": "tonnage-agent",
        "status": "disabled",
        "disabled": True,
        "draining": False,
    }
    assert (shown(client)["status"], shown(client)["draining"], shown(client)["state"]) == ("disabled", False, "up")
    assert all(each["disabled"] and "draining" not in each for each in capabilities(client))
    answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 1}})
    assert answer.status_code == 409
    assert "is on a disabled backend" in answer.json["conflictingRequest"]["message"]
    assert client.simulate_delete(f"/v3/volumes/{volume['id']}").status_code == 202
    assert client.wait_until_settled(volume["id"]) is None, "what is there can be deleted"

    assert put(client, "enable").json["status"] == "enabled"
    assert shown(client)["status"] == "enabled"
    assert all("disabled" not in each for each in capabilities(client))
    client.wait_until_settled(client.create(1)["id"])


def test_a_backend_whose_agent_cannot_report_has_the_reason(client: Client, cluster: Cluster) -> None:
    reason = "its agent cannot report: not mounted"

    def is_shown() -> bool:
        cluster.storage.notify("not mounted")  # again, because a report of an earlier command ends it
        return bool(shown(client)["state_reason"] == reason)

    wait_for(is_shown, "the backend has the reason")
    assert shown(client)["state"] == "up"
    assert "state_reason" not in client.at("GET", f"/v3/os-services?host={BACKEND}", 71).json["services"][0]

    def is_shown_with_pools() -> bool:
        cluster.storage.notify("not mounted")  # again, because a report ends it
        return {pool.get("state_reason") for pool in capabilities(client)} == {reason}

    wait_for(is_shown_with_pools, "the pools have it too")
    cluster.storage.report()
    wait_for(lambda: shown(client)["state_reason"] is None, "the backend reports again")
    wait_for(lambda: not any("state_reason" in pool for pool in capabilities(client)), "the pools have no reason")


def test_the_reason_is_kept_until_the_backend_is_enabled(client: Client) -> None:
    answer = put(client, "disable-log-reason", disabled_reason=" new disks ", binary="cinder-volume")
    assert (answer.json["disabled_reason"], answer.json["binary"]) == ("new disks", "cinder-volume")
    assert shown(client)["disabled_reason"] == "new disks"
    put(client, "enable")
    assert shown(client)["disabled_reason"] is None


def test_a_draining_backend_is_shown(client: Client) -> None:
    answer = put(client, "drain", disabled_reason="for good")
    assert (answer.json["status"], answer.json["draining"], answer.json["disabled_reason"]) == (
        "disabled",
        True,
        "for good",
    )
    assert (shown(client)["status"], shown(client)["draining"]) == ("disabled", True)
    assert all(each["draining"] and each["backend_state"] == "up" for each in capabilities(client))
    put(client, "disable")
    assert shown(client)["draining"] is False


def test_a_disabled_scheduler_still_decides(client: Client) -> None:
    def shown() -> Any:
        [row] = client.simulate_get("/v3/os-services?binary=tonnage-scheduler").json["services"]
        return row["status"], row["disabled_reason"], row["state"]

    of_it = {"host": "box", "binary": "cinder-scheduler"}
    answer = put(client, "disable-log-reason", **of_it, disabled_reason="slow")
    assert (answer.json["status"], answer.json["disabled"]) == ("disabled", True)
    assert shown() == ("disabled", "slow", "up")
    client.wait_until_settled(client.create(1)["id"])
    assert put(client, "disable", **of_it).status_code == 200
    assert shown() == ("disabled", None, "up")
    assert put(client, "enable", **of_it).status_code == 200
    assert shown() == ("enabled", None, "up")


def test_services_are_found_by_both_names_of_their_binaries(client: Client) -> None:
    for name, own in (("cinder-volume", "tonnage-agent"), ("cinder-scheduler", "tonnage-scheduler")):
        for binary in (name, own):
            rows = client.simulate_get(f"/v3/os-services?binary={binary}").json["services"]
            assert {row["binary"] for row in rows} == {name}
    schedulers = client.at("GET", "/v3/os-services?binary=tonnage-scheduler", 72).json["services"]
    assert all("draining" not in row for row in schedulers)


@pytest.mark.parametrize(
    ("action", "fields", "status", "message"),
    [
        ("disable", {"binary": "tonnage-scheduler"}, 404, f"scheduler {BACKEND} could not be found"),
        ("drain", {"binary": "cinder-scheduler"}, 400, "only backends can be drained"),
        ("disable", {"binary": None}, 400, "missing required field binary"),
        ("disable", {"host": None}, 400, "host: null: expected str"),
        ("disable", {"host": "nowhere@x"}, 404, "backend nowhere@x could not be found"),
        ("disable-log-reason", {}, 400, "missing required field disabled_reason"),
        ("disable-log-reason", {"disabled_reason": "  "}, 400, "disabled_reason is missing: say why, or use disable"),
        ("disable-log-reason", {"disabled_reason": " \x1d\ufeff"}, 400, "disabled_reason is missing: say why"),
        ("drain", {"disabled_reason": "r" * 256}, 400, "disabled_reason: "),
        ("explode", {}, 404, "The resource could not be found."),
    ],
)
def test_invalid_input_is_rejected(client: Client, action: str, fields: Any, status: int, message: str) -> None:
    answer = put(client, action, **fields)
    assert answer.status_code == status, answer.text
    assert message in next(iter(answer.json.values()))["message"]


def test_members_cannot_change_services(member: Client) -> None:
    for action in ("enable", "disable", "disable-log-reason", "drain"):
        assert put(member, action).status_code == 403


def test_a_draining_backend_shows_its_progress(client: Client) -> None:
    """The backend is the only one, so no volume can leave it."""
    volume = client.wait_until_settled(client.create(1)["id"])
    assert shown(client)["drain"] is None
    put(client, "drain")

    def why() -> str:
        return str(client.at("GET", f"/v3/scheduler-stats/why?volume={volume['id']}", 72).json["why"]["drain"])

    stays = f"backend {BACKEND} is draining, and the volume stays: No pool for 1 GiB"
    wait_for(lambda: why().startswith(stays), "a scheduler has tried to move the volume")
    drain = shown(client)["drain"]
    assert (drain["volumes"] >= 1, drain["moving"], drain["cannot_move"] >= 1) == (True, 0, True)
    assert drain["reasons"]
    assert "drain" not in client.at("GET", f"/v3/os-services?host={BACKEND}", 71).json["services"][0]
