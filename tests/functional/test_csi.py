# SPDX-License-Identifier: Apache-2.0
"""Volumes on a plug-in of the Container Storage Interface, from the request to the plug-in."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests

from tests.functional.conftest import Deploy
from tests.functional.deployment import GIB, Deployment
from tests.servers.base import wait_for
from tests.servers.csi_plugin import CsiPlugin, Settings
from tests.unit.drivers import configured
from tonnage.capacity.request import Provisioning
from tonnage.drivers import loader
from tonnage.drivers.base import Volume
from tonnage.extensions.kubernetes.publication import agent_import
from tonnage.ledger.db import database

_ZONE = "topology.csi.test/zone"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CsiPlugin]:
    settings = Settings(sizes={"z1": 6 * GIB, "z2": 4 * GIB}, topology=True)
    with CsiPlugin(tmp_path_factory.mktemp("csi"), settings) as plugin:
        yield plugin


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy, plugin: CsiPlugin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("agent")
    nodes = [{"metadata": {"name": zone, "labels": {_ZONE: zone}}} for zone in ("z1", "z2")]
    (folder / "nodes.json").write_text(json.dumps({"items": nodes}))
    backend: dict[str, Any] = {
        "volume_driver": "csi",
        "csi_endpoint": plugin.endpoint,
        "csi_state_file": folder / "state.db",
        "csi_topology": "labels",
        "csi_topology_prefix": "topology.csi.test",
        "csi_nodes_file": folder / "nodes.json",
    }
    with deploy({"csi": backend}) as deployment:
        deployment.start()
        deployment.rest.create_type("here", capabilities__topology__zone="z2")
        yield deployment


def fit(tonnage: Deployment, sizes: list[int]) -> tuple[list[str], dict[str, str]]:
    """Return the nodes on which volumes of these sizes in GiB fit together, and the reasons against the others."""
    driver = "folders.csi.test"
    tracked = {"spec": {"capacityTracking": True}}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    url = f"{tonnage.rest.url}/v3"
    assert requests.patch(f"{url}/csi-drivers/{driver}", json=tracked, headers=headers, timeout=30).status_code == 200
    ledger = database.Database(database.create_engine(tonnage.database_url))
    assert agent_import.AgentImporter(ledger, 60).import_reports() == 2
    ledger.close()
    volumes = [
        {"name": str(number), "driver": driver, "storageClassName": "default", "size": f"{size}Gi"}
        for number, size in enumerate(sizes)
    ]
    nodes = [{"name": zone, "labels": {_ZONE: zone}} for zone in ("z1", "z2")]
    answer = requests.post(f"{url}/csi-capacity/fit", json={"volumes": volumes, "nodes": nodes}, timeout=30)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [one["name"] for one in found["nodes"]], {one["name"]: one["message"] for one in found["refused"]}


@pytest.mark.parametrize(
    "deploy",
    ["standalone", pytest.param("postgresql", marks=pytest.mark.heavy)],
    indirect=True,
    scope="module",
)
def test_a_volume_is_created_extended_and_deleted_on_the_plugin(tonnage: Deployment, plugin: CsiPlugin) -> None:
    rest, pool = tonnage.rest, f"{tonnage.host}@csi#default/zone=z2"

    def held() -> list[tuple[str, int]]:
        return [(kept.segment, kept.size // GIB) for kept in plugin.storage.all()]

    first = rest.create(2, "here")
    rest.wait_until_available(first)
    assert held() == [("z2", 2)]
    wait_for(lambda: rest.pools()[pool]["free_capacity_gb"] == 2, "the report includes the volume")
    assert f"nearest {pool} has headroom 2.00 GiB" in rest.refusal(3, "here")["message"]
    assert rest.extend(first, 3).status_code == 202
    rest.wait_until_available(first)
    assert held() == [("z2", 3)]

    plugin.settings.failing["GetCapacity"] = grpc.StatusCode.INTERNAL
    wait_for(lambda: pool not in rest.pools(), "the pool without a report is not used")
    rest.refusal(1, "here")
    plugin.settings.failing.clear()
    wait_for(lambda: pool in rest.pools(), "the pool is back")

    fits, refused = fit(tonnage, [1, 1])
    assert fits == ["z1"]
    assert "together 2Gi, do not fit" in refused["z2"]

    second = rest.create(1, "here")
    rest.wait_until_available(second)
    if tonnage.distributed:
        tonnage.kill("agent")
        tonnage.start("agent")
    rest.delete(first)
    assert held() == [("z2", 1)]
    rest.delete(second)
    assert held() == []
    tonnage.check_counters()


def test_a_third_party_plugin_runs_the_life_of_a_volume(tmp_path: Path) -> None:
    """The plug-in is at CSI_ENDPOINT. CSI_PARAMETERS are the parameters of its storage class."""
    endpoint = os.environ.get("CSI_ENDPOINT")
    if not endpoint:
        pytest.skip("CSI_ENDPOINT names no plugin; it is of the form unix:///path, and volumes of 1 and 2 GiB are made")
    text = (
        f"[csi]\nvolume_driver = csi\ncsi_endpoint = {endpoint}\ncsi_state_file = {tmp_path}/state.db\n"
        f"csi_topology = node\ncsi_parameters = {os.environ.get('CSI_PARAMETERS', '{}')}\n"
    )
    driver = loader.load("host@csi", "csi", configured.conf(tmp_path, text))
    driver.check()
    [pool] = driver.report()
    volume = Volume(id="tonnage-test", pool=pool["pool_name"], size_gb=1, provisioning=Provisioning.THICK)
    try:
        driver.create(volume)
        driver.create(volume)
        assert [stored.size_gb for stored in driver.list_volumes() if stored.id == volume.id] == [1.0]
        driver.extend(volume, 2)
        assert [stored.size_gb for stored in driver.list_volumes() if stored.id == volume.id] == [2.0]
    finally:
        driver.delete(volume)
    assert volume.id not in {stored.id for stored in driver.list_volumes()}
