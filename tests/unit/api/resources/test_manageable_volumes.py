# SPDX-License-Identifier: Apache-2.0
"""Volumes of the storage that are not managed yet: lists of them, and their management."""

from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.api.cluster import BACKEND, Client, Cluster
from tests.unit.api.volume_steps import THICK, THIN, act, allocated, fault, new_type, ready
from tonnage.ledger import models


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
