# SPDX-License-Identifier: Apache-2.0
"""The publisher as an operator runs it."""

import pathlib
import signal
import subprocess
import sys

from tests.functional.deployment import until
from tests.servers.kube_api import KubeApi
from tonnage.capacity import type_conversion
from tonnage.k8s.capacity import driver_rows
from tonnage.k8s.capacity.patches import DriverPatch
from tonnage.ledger.db import database, schema

_COMMAND = pathlib.Path(sys.executable).parent / "tonnage-publisher"
NAME = "disk.example.com"


def sizes(cluster: KubeApi) -> list[str]:
    return [each["capacity"] for each in cluster.capacities.values()]


def test_what_a_driver_has_is_published_while_it_is_true(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/tonnage.sqlite")
    schema.sync(engine)
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
            f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = sqlite:///$state_path/tonnage.sqlite\n"
            f"[kubernetes]\nkubeconfig = {cluster.kubeconfig(tmp_path)}\npublisher_interval = 0.1\n"
            "publisher_namespace = storage\n"
        )
        patch("1Gi")
        process = subprocess.Popen([_COMMAND, "--config-file", conf], stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: sizes(cluster) == ["1Gi"], "it is published")
            patch("2Gi")
            until(lambda: sizes(cluster) == ["2Gi"], "what is new is published")
            ledger.run(driver_rows.delete, NAME)
            until(lambda: not cluster.capacities, "what is gone is deleted")
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
    ledger.close()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "CSIStorageCapacity in namespace storage: 1 made, 0 changed, 0 deleted, 0 failed" in said
