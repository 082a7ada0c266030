# SPDX-License-Identifier: Apache-2.0
"""Tonnage with an extender for a cluster, and the reports of the cluster's driver."""

import contextlib
import pathlib
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import requests

from tests.functional.standalone import COMMANDS, standalone
from tests.kubernetes.cluster import CLASS, DRIVER, NAMESPACE
from tests.servers import base

_EXTENDER = """
[kubernetes]
extender = true
extender_listen_port = {port}
extender_reserves = {reserves}
kubeconfig = {kubeconfig}
"""

_PUBLISHER = """\
[database]
connection = sqlite:///{folder}/tonnage.sqlite
[kubernetes]
kubeconfig = {kubeconfig}
publisher_namespace = {namespace}
publisher_interval = 0.5
"""


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
def run(folder: pathlib.Path, kubeconfig: str, *, reserves: bool = False) -> Iterator[Tonnage]:
    """Run Tonnage with its extender, with a ledger in ``folder`` and the cluster in ``kubeconfig``."""
    port = base.free_port()
    extra = _EXTENDER.format(port=port, reserves=reserves, kubeconfig=kubeconfig)
    with standalone(folder, extra) as started:
        yield Tonnage(started.url, f"http://127.0.0.1:{port}")


@contextlib.contextmanager
def run_publisher(folder: pathlib.Path, kubeconfig: str) -> Iterator[None]:
    """Run the publisher for the ledger in ``folder``. It must stop cleanly and log no warning."""
    conf, log = folder / "publisher.conf", folder / "publisher.log"
    conf.write_text(_PUBLISHER.format(folder=folder, kubeconfig=kubeconfig, namespace=NAMESPACE), encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen([COMMANDS / "tonnage-publisher", "--config-file", conf], stderr=output)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    said = log.read_text(encoding="utf-8")
    assert code == 0, said
    assert "WARNING" not in said, said
    assert "Traceback" not in said, said
