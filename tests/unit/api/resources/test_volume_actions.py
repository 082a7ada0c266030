# SPDX-License-Identifier: Apache-2.0
"""Actions on volumes: extend, retype, migrate, unmanage, force-delete and reset the status."""

import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.api.cluster import BACKEND, Client, Cluster, wait_until
from tests.unit.api.volume_steps import THICK, THIN, act, allocated, fault, new_type, ready
from tonnage.ledger import models
from tonnage.ledger.catalog import volumes


class TestRetype:
    def test_stays_in_a_pool_that_matches_the_new_type(self, client: Client) -> None:
        volume, kind = ready(client), new_type(client, storage_protocol="file")
        assert act(client, volume["id"], "os-retype", new_type=kind).status_code == 202
        volume = client.wait_until_settled(volume["id"])
        assert (volume["volume_type"], volume["os-vol-host-attr:host"]) == (kind, THIN)
        assert "has that type already" in fault(act(client, volume["id"], "os-retype", new_type=kind), 400)

    def test_moves_only_with_the_policy_on_demand(self, client: Client, cluster: Cluster) -> None:
        volume, kind = ready(client, 2), new_type(client, storage_protocol="block")
        answer = act(client, volume["id"], "os-retype", new_type=kind, migration_policy="never")
        assert "CapabilitiesFilter refused 1" in fault(answer, 409)
        assert answer.json["conflictingRequest"]["refusal"]["nearest"]["pool"] == THIN
        assert client.show(volume["id"])["volume_type"] == "__DEFAULT__"

        cluster.storage.paused = True
        try:
            answer = act(client, volume["id"], "os-retype", new_type=kind, migration_policy="on-demand")
            assert answer.status_code == 202, answer.text
            shown = client.show(volume["id"])
            assert (shown["status"], shown["migration_status"]) == ("retyping", "migrating")
            answer = client.simulate_delete(f"/v3/types/{client.types()[kind]}")
            assert "in use by a volume that is being retyped" in fault(answer, 400)
        finally:
            cluster.storage.resume()
        shown = client.wait_until_settled(volume["id"])
        assert (shown["status"], shown["volume_type"], shown["os-vol-host-attr:host"]) == ("available", kind, THICK)
        wait_until(lambda: volume["id"] not in cluster.storage.sizes("thin"))

    def test_completes_even_if_the_new_type_was_deleted(self, client: Client, cluster: Cluster) -> None:
        volume, kind = ready(client), new_type(client, storage_protocol="block")
        cluster.storage.paused = True
        try:
            act(client, volume["id"], "os-retype", new_type=kind, migration_policy="on-demand")
            cluster.database.run(
                lambda session: session.execute(sa.delete(models.VolumeType).where(models.VolumeType.name == kind))
            )
        finally:
            cluster.storage.resume()
        shown = client.wait_until_settled(volume["id"])
        assert (shown["status"], shown["volume_type"], shown["os-vol-host-attr:host"]) == (
            "available",
            "__DEFAULT__",
            THICK,
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "missing required field new_type"),
            ({"new_type": 5}, "new_type: 5: expected str"),
            ({"new_type": "a", "migration_policy": "soon"}, "migration_policy is 'soon': expected never or on-demand"),
        ],
    )
    def test_invalid_input_is_rejected(self, client: Client, arguments: Any, message: str) -> None:
        assert message in fault(act(client, ready(client)["id"], "os-retype", **arguments), 400)

    def test_an_unknown_type(self, client: Client) -> None:
        assert "nowhere" in fault(act(client, ready(client)["id"], "os-retype", new_type="nowhere"), 404)


class TestMigrate:
    def test_moves_the_volume_and_purges_the_old_copy(self, client: Client, cluster: Cluster) -> None:
        volume = ready(client, 4)
        before = allocated(cluster, THIN), allocated(cluster, THICK)
        cluster.storage.paused = True
        try:
            arguments = {"host": THICK, "force_host_copy": "False", "lock_volume": True}
            answer = act(client, volume["id"], "os-migrate_volume", **arguments)
            assert (answer.status_code, answer.text) == (202, "")
            shown = client.show(volume["id"])
            assert (shown["status"], shown["migration_status"]) == ("maintenance", "migrating")
            assert shown["os-vol-host-attr:host"] == THIN, "it is still there"
            assert allocated(cluster, THICK) == before[1] + 4, "the target is claimed at once"
            assert "maintenance" in fault(act(client, volume["id"], "os-reset_status", status="error"), 400)
            assert "maintenance" in fault(act(client, volume["id"], "os-migrate_volume", host=THICK), 400)
            assert "maintenance" in fault(client.simulate_delete(f"/v3/volumes/{volume['id']}"), 400)
        finally:
            cluster.storage.resume()
        shown = client.wait_until_settled(volume["id"])
        assert (shown["status"], shown["os-vol-host-attr:host"]) == ("available", THICK)
        assert shown["os-vol-mig-status-attr:migstat"] == shown["migration_status"] == "success"
        assert shown["os-vol-mig-status-attr:name_id"] is None
        wait_until(lambda: volume["id"] not in cluster.storage.sizes("thin"))
        wait_until(lambda: (allocated(cluster, THIN), allocated(cluster, THICK)) == (before[0] - 4, before[1] + 4))

        assert act(client, volume["id"], "os-reset_status", migration_status="none").status_code == 202
        assert client.show(volume["id"])["migration_status"] is None

    def test_without_a_destination_it_selects_another_pool(self, client: Client) -> None:
        volume = ready(client)
        assert act(client, volume["id"], "os-migrate_volume").status_code == 202
        assert client.wait_until_settled(volume["id"])["os-vol-host-attr:host"] == THICK

    def test_a_failure_leaves_the_volume_in_its_pool(self, client: Client, cluster: Cluster) -> None:
        volume = ready(client)
        with cluster.storage.failing("the cable is cut"):
            assert act(client, volume["id"], "os-migrate_volume", host=THICK).status_code == 202
            shown = client.wait_until_settled(volume["id"])
        assert (shown["status"], shown["os-vol-host-attr:host"]) == ("available", THIN)
        assert (shown["migration_status"], shown["status_reason"]) == ("error", "the cable is cut")

    def test_a_refusal_is_immediate(self, client: Client) -> None:
        volume = ready(client, 600)
        answer = act(client, volume["id"], "os-migrate_volume", host=THICK)
        assert "No pool for 600 GiB" in fault(answer, 409)
        assert answer.json["conflictingRequest"]["refusal"]["pools"]
        assert client.show(volume["id"])["status"] == "available"
        client.simulate_delete(f"/v3/volumes/{volume['id']}")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"host": "nowhere@disk"}, "host is 'nowhere@disk': there is no such backend; expected host@backend"),
            ({"host": f"{BACKEND}#ice"}, f"the pools of that backend are {THICK}, {THIN}"),
            ({"host": THIN}, "is there already"),
            ({"host": 5}, "host: 5: expected str"),
            ({"host": ""}, 'host: "": expected str of length >= 1'),
            ({"host": THICK, "lock_volume": "perhaps"}, "lock_volume is neither true nor false"),
            ({"cluster": "c"}, "cluster is set"),
        ],
    )
    def test_invalid_input_is_rejected(self, client: Client, arguments: Any, message: str) -> None:
        assert message in fault(act(client, ready(client)["id"], "os-migrate_volume", **arguments), 400)

    def test_members_cannot_migrate_volumes(self, member: Client) -> None:
        volume = ready(member)
        assert "migration_status" not in volume
        assert "os-vol-mig-status-attr:migstat" not in volume
        for action in ("os-migrate_volume", "os-unmanage"):
            assert "Policy doesn't allow" in fault(act(member, volume["id"], action), 403)
        assert "Policy" in fault(member.simulate_post("/v3/manageable_volumes", json={}), 403)
        assert "Policy" in fault(member.simulate_get("/v3/manageable_volumes"), 403)


class TestResetStatus:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "expected at least one of status, attach_status, migration_status"),
            ({"status": "in-use"}, "expected available or error"),
            ({"attach_status": "attached"}, "attach_status is 'attached': expected detached"),
            ({"migration_status": "migrating"}, "migration_status is 'migrating': expected none"),
        ],
    )
    def test_invalid_input_is_rejected(self, client: Client, arguments: Any, message: str) -> None:
        assert message in fault(act(client, ready(client)["id"], "os-reset_status", **arguments), 400)

    def test_a_pending_purge_does_not_prevent_the_reset(self, client: Client, cluster: Cluster) -> None:
        volume = ready(client)
        cluster.storage.purges_enabled = False
        try:
            act(client, volume["id"], "os-migrate_volume", host=THICK)
            client.wait_until_settled(volume["id"])
            assert act(client, volume["id"], "os-reset_status", status="error").status_code == 202
        finally:
            cluster.storage.purges_enabled = True
            cluster.storage.resume()
        assert client.show(volume["id"])["status"] == "error"


def test_reset_status(client: Client) -> None:
    volume_id = client.create(1)["id"]
    client.wait_until_settled(volume_id)
    path = f"/v3/volumes/{volume_id}/action"
    assert client.simulate_post(path, json={"os-reset_status": {"status": "error"}}).status_code == 202
    assert client.show(volume_id)["status"] == "error"
    assert client.simulate_post(path, json={"os-reset_status": {"status": "available"}}).status_code == 202
    assert client.show(volume_id)["status"] == "available"
    answer = client.simulate_post(path, json={"os-reset_status": {"status": "sold"}})
    assert answer.status_code == 400
    assert "expected available or error" in answer.json["badRequest"]["message"]


@pytest.mark.parametrize("body", [{}, {"os-extend": {}, "os-detach": {}}, {"os-brew": {}}, {"os-extend": []}])
def test_malformed_actions_are_rejected(client: Client, body: Any) -> None:
    volume_id = client.create(1)["id"]
    answer = client.simulate_post(f"/v3/volumes/{volume_id}/action", json=body)
    assert answer.status_code == 400, answer.text


def test_force_is_for_administrators_and_interrupts_no_operation(
    cluster: Cluster, client: Client, member: Client
) -> None:
    def delete(asker: Client, volume_id: str, minor: int) -> int:
        return int(asker.at("DELETE", f"/v3/volumes/{volume_id}?force=True", minor).status_code)

    def force(asker: Client, volume_id: str) -> int:
        return int(asker.simulate_post(f"/v3/volumes/{volume_id}/action", json={"os-force_delete": {}}).status_code)

    one, other = (member.create(1)["id"] for _ in range(2))
    for volume_id in (one, other):
        member.wait_until_settled(volume_id)
    assert delete(member, one, 23) == force(member, one) == 403
    assert delete(client, one, 23) == 202
    assert force(client, other) == 202
    assert client.wait_until_settled(one) is client.wait_until_settled(other) is None
    cluster.storage.paused = True
    held = member.create(1)["id"]
    try:
        assert force(client, held) == delete(client, held, 71) == 400
    finally:
        cluster.storage.resume()
    assert member.wait_until_settled(held)["status"] == "available"
    # Before 3.23 it has no effect.
    assert delete(member, held, 22) == 202


@pytest.mark.parametrize(
    "action",
    ["os-attach", "os-reserve", "os-set_bootable", "os-update_readonly_flag", "os-volume_upload_image", "revert"],
)
def test_missing_actions_on_volumes(client: Client, action: str) -> None:
    volume = client.create(1)["id"]
    answer = client.simulate_post(f"/v3/volumes/{volume}/action", json={action: {"bootable": True}})
    assert answer.status_code == 501
    assert f"The action {action} is not supported" in answer.json["notImplemented"]["message"]
    missing = client.simulate_post(f"/v3/volumes/{uuid.uuid4()}/action", json={action: {}})
    assert missing.status_code == 404
    unknown = client.simulate_post(f"/v3/volumes/{volume}/action", json={"os-explode": {}})
    assert unknown.status_code == 400


def test_the_message_for_a_retype_speaks_of_retyping(client: Client, cluster: Cluster) -> None:
    volume = ready(client)["id"]
    cluster.database.run(volumes.reset_status, volume, "error")
    answer = client.simulate_post(f"/v3/volumes/{volume}/action", json={"os-retype": {"new_type": new_type(client)}})
    assert fault(answer, 400) == f"volume {volume} is error: only an available volume can be retyped"
