# SPDX-License-Identifier: Apache-2.0
"""Tonnage with an extender for a cluster, and the reports of the cluster's driver."""

import contextlib
import functools
import signal
from collections.abc import Iterator
from typing import Any

import requests

from tests.functional.deployment import Process, render, run_process, standalone
from tests.kubernetes.cluster import CLASS, DRIVER, NAMESPACE
from tests.kubernetes.service import Service
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
def run(kubeconfig: str, *, reserves: bool = False, publishers: int = 0) -> Iterator[Tonnage]:
    """Run Tonnage with its extender for the cluster in ``kubeconfig``, and with some publishers.

    The publishers must log no warning.
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
        logs = []
        with contextlib.ExitStack() as stack:
            for number in range(publishers):
                conf = deployment.folder / f"publisher-{number}" / "tonnage.conf"
                conf.parent.mkdir()
                sections = {"database": {"connection": deployment.database_url}, "kubernetes": options}
                conf.write_text(render(sections), encoding="utf-8")
                logs.append(stack.enter_context(run_process("publisher", conf)).log)
            yield Tonnage(deployment.rest.url, f"http://127.0.0.1:{port}")
        for log in logs:
            text = log.read_text(encoding="utf-8")
            assert "WARNING" not in text, text


@contextlib.contextmanager
def run_extenders(kubeconfig: str, number: int) -> Iterator[tuple[Tonnage, list[Process]]]:
    """Run Tonnage, and extenders with reservations in processes of their own behind one address; yield both."""
    with standalone() as deployment, contextlib.ExitStack() as stack:
        ports, extenders = [base.free_port() for _ in range(number)], []
        for port in ports:
            conf = deployment.folder / f"extender-{port}" / "tonnage.conf"
            conf.parent.mkdir()
            sections: dict[str, Any] = {
                "DEFAULT": {"osapi_volume_listen_port": base.free_port(), "transport_url": "kombu+memory://"},
                "database": {"connection": deployment.database_url},
                "kubernetes": {
                    "extender": True,
                    "extender_listen_port": port,
                    "extender_reserves": True,
                    "kubeconfig": kubeconfig,
                },
            }
            conf.write_text(render(sections), encoding="utf-8")
            extenders.append(process := Process("api", conf))
            process.start()
            stack.callback(process.reap)
            stack.callback(process.send, signal.SIGTERM)
            base.wait_for(functools.partial(_is_ready, port), "the extender is ready")
        service = stack.enter_context(Service(ports))
        yield Tonnage(deployment.rest.url, f"http://127.0.0.1:{service.port}"), extenders


def _is_ready(port: int) -> bool:
    with contextlib.suppress(requests.RequestException):
        return requests.get(f"http://127.0.0.1:{port}/readyz", timeout=10).ok
    return False
