# SPDX-License-Identifier: Apache-2.0
"""Clones, and the limits that types set for their volumes."""

import uuid

from tests.unit.api.cluster import Client, Cluster
from tests.unit.api.volume_steps import THICK, THIN, act, fault, new_type, ready


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
