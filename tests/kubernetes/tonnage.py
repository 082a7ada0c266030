# SPDX-License-Identifier: Apache-2.0
"""Tonnage with an extender for a cluster, and the reports of the cluster's driver."""

import contextlib
from collections.abc import Iterator
from typing import Any

import requests

from tests.functional.deployment import render, run_process, standalone
from tests.kubernetes.cluster import CLASS, DRIVER, NAMESPACE
from tests.servers import base


class Tonnage:
    """A running Tonnage. ``extender`` is the URL of its extender."""

    def __init__(self, url: str, extender: str) -> None:
        self._url, self.extender = url, extender
        self.patch({"spec": {"capacityTracking": True}})

    def patch(self, body: dict[str, Any]) -> None:
        """Patch the driver, as its writers do."""
        answer = requests.patch(f"{self._url}/v3/csi-drivers/{DRIVER}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text

    def set_capacities(self, **capacities: str) -> None:
        """Set the capacity of each node, which has a pool of its own."""
        pools = [{"name": node, "nodeList": [node], "capacity": size} for node, size in capacities.items()]
        self.patch({"status": {"storage": [{"storageClassName": CLASS, "pools": pools}]}})


@contextlib.contextmanager
def run(kubeconfig: str, *, reserves: bool = False, publishes: bool = False) -> Iterator[Tonnage]:
    """Run Tonnage with its extender for the cluster in ``kubeconfig``, and with the publisher if ``publishes``.

    The publisher must log no warning.
    """
    port = base.free_port()
    options = {
        "extender": True,
        "extender_listen_port": port,
        "extender_reserves": reserves,
        "kubeconfig": kubeconfig,
        "publisher_namespace": NAMESPACE,
        "publisher_interval": 0.5,
    }
    with standalone(sections={"kubernetes": options}) as deployment:
        tonnage = Tonnage(deployment.rest.url, f"http://127.0.0.1:{port}")
        if not publishes:
            yield tonnage
            return
        conf = deployment.folder / "publisher.conf"
        sections = {"database": {"connection": deployment.database_url}, "kubernetes": options}
        conf.write_text(render(sections), encoding="utf-8")
        with run_process("publisher", conf) as publisher:
            yield tonnage
        log = publisher.log.read_text(encoding="utf-8")
        assert "WARNING" not in log, log
