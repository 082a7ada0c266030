# SPDX-License-Identifier: Apache-2.0
"""Clone, retype, migrate, manage and unmanage over REST."""

import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.api.cluster import BACKEND, OWN_KEYS, Client, Cluster, wait_until
from tonnage.ledger import models

THIN, THICK = f"{BACKEND}#thin", f"{BACKEND}#thick"


def act(client: Client, volume_id: str, action: str, **arguments: Any) -> Any:
    return client.at("POST", f"/v3/volumes/{volume_id}/action", OWN_KEYS, json={action: arguments})


def ready(client: Client, size: int = 1, **fields: Any) -> Any:
    """Return a volume that is available."""
    volume = client.wait_until_settled(client.create(size, **fields)["id"])
    assert volume["status"] == "available", volume
    return volume


def new_type(client: Client, **specs: str) -> str:
    name = f"t-{uuid.uuid4()}"
    answer = client.simulate_post("/v3/types", json={"volume_type": {"name": name, "extra_specs": specs}})
    assert answer.status_code == 200, answer.text
    return name


def fault(answer: Any, status: int) -> str:
    """Return the message of an error response."""
    assert answer.status_code == status, answer.text
    (body,) = answer.json.values()
    assert body["code"] == status
    return str(body["message"])


def allocated(cluster: Cluster, pool: str) -> int:
    with cluster.database.reading() as session:
        found = session.scalar(sa.select(models.Pool.allocated_capacity_gb).where(models.Pool.name == pool))
    assert found is not None
    return found


class TestLimitsOfTypes:
    def test_sizes(self, client: Client) -> None:
        kind = new_type(client, **{"provisioning:min_vol_size": "2", "provisioning:max_vol_size": "5"})
        for size, text in ((1, "less than the minimum required size of '2'"), (6, "maximum allowable size of '5'")):
            for body in (
                {"volume": {"size": size, "volume_type": kind}},
                {"volumes": [{"size": size, "volume_type": kind}]},
            ):
                assert text in fault(client.simulate_post("/v3/volumes", json=body), 400)
        volume = ready(client, 5, volume_type=kind)
        assert "maximum allowable" in fault(act(client, volume["id"], "os-extend", new_size=6), 400)
        large = ready(client, 9)
        assert "maximum allowable" in fault(act(client, large["id"], "os-retype", new_type=kind), 400)
        clone = {"volume": {"source_volid": large["id"], "volume_type": kind}}
        assert "maximum allowable" in fault(client.simulate_post("/v3/volumes", json=clone), 400)

    def test_zones(self, client: Client) -> None:
        far = new_type(client, **{"RESKEY:availability_zones": "north,south"})
        near = new_type(client, **{"RESKEY:availability_zones": "north, nova"})
        assert ready(client, volume_type=near)["availability_zone"] == "nova"
        volume = {"size": 1, "volume_type": far}
        refused = fault(client.simulate_post("/v3/volumes", json={"volume": volume}), 409)
        assert "is in availability zone 'nova', and the volume type takes 'north' or 'south'" in refused
        asked = {"volume": {**volume, "availability_zone": "nova"}}
        assert "Availability zone 'nova' is invalid" in fault(client.simulate_post("/v3/volumes", json=asked), 400)
        plain = ready(client)
        for policy in ("never", "on-demand"):
            answer = act(client, plain["id"], "os-retype", new_type=far, migration_policy=policy)
            assert "AvailabilityZoneFilter" in fault(answer, 409)
        listed = client.at("GET", "/v3/types?extra_specs={'RESKEY:availability_zones':'nova'}", 52)
        assert [volume_type["name"] for volume_type in listed.json["volume_types"]] == [near]

    def test_zones_of_the_types_of_a_group(self, client: Client) -> None:
        far = new_type(client, **{"RESKEY:availability_zones": "north"})
        near = new_type(client)
        group_type = client.at("POST", "/v3/group_types", 11, json={"group_type": {"name": f"g-{uuid.uuid4()}"}})
        group = {"group_type": group_type.json["group_type"]["id"], "volume_types": [far, near]}
        group_id = client.at("POST", "/v3/groups", 13, json={"group": group}).json["group"]["id"]
        body = {"volume": {"size": 1, "volume_type": near, "group_id": group_id}}
        assert "a backend for all types of its group" in fault(client.at("POST", "/v3/volumes", 13, json=body), 409)

    def test_a_volume_of_another_zone_is_not_managed(self, client: Client) -> None:
        far = new_type(client, **{"RESKEY:availability_zones": "north"})
        body = {"volume": {"host": THIN, "ref": "image", "volume_type": far}}
        assert "does not match its extra specs" in fault(client.simulate_post("/v3/manageable_volumes", json=body), 400)


class TestClone:
    def test_takes_size_and_type_from_its_source(self, client: Client, cluster: Cluster) -> None:
        kind = new_type(client, thin_provisioning_support="<is> True")
        source = ready(client, 3, volume_type=kind)
        answer = client.simulate_post("/v3/volumes", json={"volume": {"size": None, "source_volid": source["id"]}})
        assert answer.status_code == 202, answer.text
        clone = client.wait_until_settled(answer.json["volume"]["id"])
        assert (clone["status"], clone["size"], clone["volume_type"]) == ("available", 3, kind)
        assert clone["source_volid"] == source["id"]
        assert cluster.storage.sizes("thin")[clone["id"]] == 3

    def test_gets_the_default_type_if_its_source_has_none(self, client: Client, cluster: Cluster) -> None:
        volume_id = cluster.client(default_volume_type="").create(1)["id"]
        source = client.wait_until_settled(volume_id)
        assert source["volume_type"] is None
        assert ready(client, None, source_volid=volume_id)["volume_type"] == "__DEFAULT__"

    def test_may_be_larger_and_not_smaller(self, client: Client) -> None:
        source = ready(client, 3)
        assert ready(client, 5, source_volid=source["id"])["size"] == 5
        answer = client.simulate_post("/v3/volumes", json={"volume": {"size": 2, "source_volid": source["id"]}})
        assert "takes at least its 3" in fault(answer, 400)

    def test_needs_a_source_that_the_user_can_see(self, client: Client, member: Client) -> None:
        theirs = ready(client, 1)
        for volume_id in (theirs["id"], str(uuid.uuid4()), "nothing"):
            answer = member.simulate_post("/v3/volumes", json={"volume": {"size": 1, "source_volid": volume_id}})
            assert fault(answer, 404) == f"Volume {volume_id} could not be found."

    def test_waits_for_its_source(self, client: Client, cluster: Cluster) -> None:
        cluster.storage.paused = True
        source = client.create(1)
        try:
            answer = client.simulate_post("/v3/volumes", json={"volume": {"source_volid": source["id"]}})
        finally:
            cluster.storage.resume()
        assert "only an available volume can be cloned" in fault(answer, 400)

    def test_can_be_explained(self, client: Client) -> None:
        source = ready(client, 1)
        answer = client.simulate_post("/v3/scheduler-stats/explain", json={"volume": {"source_volid": source["id"]}})
        assert answer.json["explanation"]["pool"] in (THIN, THICK)


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


class TestManage:
    def test_manages_an_existing_volume(self, client: Client, cluster: Cluster) -> None:
        before = allocated(cluster, THICK)
        cluster.storage.unmanaged["thick"]["lun 7"] = 5
        body = {"host": THICK, "ref": {"source-name": "lun 7"}, "name": "old", "metadata": None, "bootable": False}
        answer = client.simulate_post("/v3/demo/manageable_volumes", json={"volume": body})
        assert answer.status_code == 202, answer.text
        assert answer.json["volume"]["name"] == "old"
        volume = client.wait_until_settled(answer.json["volume"]["id"])
        assert volume["os-vol-host-attr:host"] == THICK
        assert (volume["status"], volume["size"], volume["volume_type"]) == ("available", 5, "__DEFAULT__")
        assert allocated(cluster, THICK) == before + 5
        assert act(client, volume["id"], "os-extend", new_size=6).status_code == 202
        assert client.wait_until_settled(volume["id"])["size"] == 6

        assert act(client, volume["id"], "os-unmanage").status_code == 202
        assert client.show(volume["id"]) is None
        assert allocated(cluster, THICK) == before
        assert cluster.storage.sizes("thick")[volume["id"]] == 6, "it is left on the storage"

    def test_a_managed_volume_can_be_retyped(self, client: Client, cluster: Cluster) -> None:
        cluster.storage.unmanaged["thin"]["a"] = 2
        answer = client.simulate_post("/v3/os-volume-manage", json={"volume": {"host": THIN, "ref": "a"}})
        volume = client.wait_until_settled(answer.json["volume"]["id"])
        kind = new_type(client, storage_protocol="file")
        assert act(client, volume["id"], "os-retype", new_type=kind).status_code == 202
        assert client.show(volume["id"])["volume_type"] == kind

    def test_a_missing_volume_gets_a_user_message(self, client: Client, cluster: Cluster) -> None:
        with cluster.storage.failing("there is no such file"):
            body = {"volume": {"host": THIN, "ref": {"source-name": "b"}}}
            volume = client.wait_until_settled(
                client.simulate_post("/v3/manageable_volumes", json=body).json["volume"]["id"]
            )
        assert (volume["status"], volume["status_reason"]) == ("error_managing", "there is no such file")
        as_in_cinder = client.at("GET", f"/v3/volumes/{volume['id']}", 71).json["volume"]
        assert as_in_cinder["status"] == "error", "clients wait for this status alone"
        assert "on no pool" in fault(act(client, volume["id"], "os-reset_status", status="available"), 400)
        assert client.simulate_delete(f"/v3/volumes/{volume['id']}").status_code == 202
        assert client.wait_until_settled(volume["id"]) is None

    def test_a_managed_volume_cannot_be_managed_again(self, client: Client) -> None:
        volume = ready(client)
        body = {"volume": {"host": THIN, "ref": {"source-name": volume["id"]}}}
        answer = client.simulate_post("/v3/manageable_volumes", json=body)
        assert "it is managed already" in fault(answer, 400)

    def test_the_type_must_match_the_pool(self, client: Client) -> None:
        kind = new_type(client, storage_protocol="block")
        body = {"volume": {"host": THIN, "ref": {"source-name": "c"}, "volume_type": kind}}
        answer = client.simulate_post("/v3/manageable_volumes", json=body)
        assert f"volume_type is '{kind}': pool {THIN} does not match" in fault(answer, 400)

    @pytest.mark.parametrize(
        ("volume", "message"),
        [
            ({"ref": {"source-name": "a"}}, "missing required field host"),
            ({"host": THIN}, "missing required field ref"),
            ({"host": THIN, "ref": {"source-id": "a"}}, 'ref names nothing: expected {"source-name": NAME}'),
            ({"host": THIN, "ref": ""}, "ref names nothing"),
            ({"host": THIN, "ref": "n" * 256}, "ref names nothing"),
            ({"host": BACKEND, "ref": "a"}, f"host is '{BACKEND}': expected one of its pools, {THICK}, {THIN}"),
            ({"host": "x@y#z", "ref": "a"}, "host is 'x@y#z': there is no such backend"),
            (
                {"host": THIN, "ref": "a", "availability_zone": "north"},
                f"availability_zone is 'north': {THIN} is in 'nova'",
            ),
            ({"host": THIN, "ref": "a", "bootable": True}, "bootable is true"),
            ({"host": THIN, "ref": "a", "cluster": "c"}, "cluster is set"),
        ],
    )
    def test_invalid_input_is_rejected(self, client: Client, volume: Any, message: str) -> None:
        assert message in fault(client.simulate_post("/v3/manageable_volumes", json={"volume": volume}), 400)


class TestManageable:
    @pytest.fixture(autouse=True)
    def _orphans(self, cluster: Cluster) -> Any:
        """The manageable volumes of the backend: no listing has shown them."""
        before = cluster.storage.unmanaged
        with cluster.database.reading() as session:
            # Other tests leave volumes that they have unmanaged.
            cluster.storage.keep(set(session.scalars(sa.select(models.Volume.id))))
        cluster.storage.unmanaged = {"thin": {"b": 2.0, "a": 2.5, "c": 7.0}, "thick": {"thick one": 1.0}}
        yield
        cluster.storage.unmanaged = before

    def names(self, client: Client, query: str, path: str = "manageable_volumes") -> list[str]:
        answer = client.simulate_get(f"/v3/{path}?host={BACKEND}{query}")
        assert answer.status_code == 200, answer.text
        return [one["reference"]["source-name"] for one in answer.json["manageable-volumes"]]

    def test_lists_the_volumes_of_the_listing(self, client: Client) -> None:
        host = THIN.replace("#", "%23")
        answer = client.simulate_get(f"/v3/os-volume-manage?host={host}&sort=size:asc,reference:desc")
        assert answer.json["manageable-volumes"] == [
            {"reference": {"source-name": name}, "size": size, "safe_to_manage": True}
            for name, size in (("b", 2), ("a", 3), ("c", 7))
        ]
        answer = client.simulate_get(f"/v3/manageable_volumes/detail?host={BACKEND}&limit=1")
        assert answer.json["manageable-volumes"] == [
            {
                "reference": {"source-name": "thick one"},
                "size": 1,
                "safe_to_manage": True,
                "reason_not_safe": None,
                "cinder_id": None,
                "extra_info": THICK,
            }
        ]

    def test_pages(self, client: Client) -> None:
        assert self.names(client, "&sort=reference:asc") == ["a", "b", "c", "thick one"]
        assert self.names(client, "&sort=reference:asc&offset=1&limit=2") == ["b", "c"]
        assert self.names(client, '&sort=reference:asc&marker={"source-name":"b"}') == ["c", "thick one"]
        assert self.names(client, "&sort_key=size&sort_dir=desc&marker=c", "os-volume-manage/detail")[0] == "a"

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("", "query parameter host is missing"),
            ("host=nowhere", "there is no such backend"),
            (f"host={BACKEND}&sort=colour", "cannot sort by 'colour'"),
            (f"host={BACKEND}&offset=-1", "offset is '-1'"),
            (f"host={BACKEND}&marker=x", "marker is 'x': there is no such reference"),
            (f"host={BACKEND}&cluster=c", "Invalid filters cluster"),
        ],
    )
    def test_invalid_queries_are_rejected(self, client: Client, query: str, message: str) -> None:
        assert message in fault(client.simulate_get(f"/v3/manageable_volumes?{query}"), 400)


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
