# SPDX-License-Identifier: Apache-2.0
"""``tonnage-publisher`` as a process."""

import pathlib

from tests.functional.deployment import render, run_process
from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tests.servers.kube_api import KubeApi
from tonnage.capacity import type_conversion
from tonnage.k8s.capacity import driver_rows
from tonnage.k8s.capacity.patches import DriverPatch
from tonnage.ledger.db import database

NAME = "disk.example.com"


def sizes(cluster: KubeApi) -> list[str]:
    return [each["capacity"] for each in cluster.capacities.values()]


def test_changes_of_a_drivers_capacity_are_published(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/tonnage.sqlite")
    ledger_schema.create(engine)
    ledger = database.Database(engine)

    def patch(capacity: str) -> None:
        pools = [{"name": "p", "capacity": capacity}]
        raw = {
            "spec": {"capacityTracking": True},
            "status": {"storage": [{"storageClassName": "<fallback>", "pools": pools}]},
        }
        change = type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
        ledger.run(driver_rows.patch, NAME, change)

    with KubeApi() as cluster:
        cluster.add_class("fast", NAME)
        conf = tmp_path / "tonnage.conf"
        conf.write_text(
            render(
                {
                    "database": {"connection": engine.url},
                    "kubernetes": {
                        "kubeconfig": cluster.kubeconfig(tmp_path),
                        "publisher_interval": 0.1,
                        "publisher_namespace": "storage",
                    },
                }
            )
        )
        patch("1Gi")
        with run_process("publisher", conf) as publisher:
            wait_for(lambda: sizes(cluster) == ["1Gi"], "the capacity is published")
            patch("2Gi")
            wait_for(lambda: sizes(cluster) == ["2Gi"], "the new capacity is published")
            ledger.run(driver_rows.delete, NAME)
            wait_for(lambda: not cluster.capacities, "the published object is deleted")
    ledger.close()
    log = publisher.log.read_text(encoding="utf-8")
    assert "CSIStorageCapacity in namespace storage: 1 made, 0 changed, 0 deleted, 0 failed" in log
