# SPDX-License-Identifier: Apache-2.0
"""Tonnage in a cluster, set up as ``docs/kubernetes-deployment.rst`` says, and the reports of the cluster's driver."""

import base64
import configparser
import contextlib
import copy
import datetime
import json
import math
import pathlib
import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tests.kubernetes import manifests, servers
from tests.kubernetes.cluster import CLASS, DRIVER, Cluster
from tests.kubernetes.kubelet import ConfigMaps, Kubelet, Pod
from tests.kubernetes.service import Service
from tests.servers import tcp_proxy
from tests.servers.postgresql import PostgreSQL

EXTENDER = manifests.find("extender.yaml", "Deployment", "tonnage-extender")
PUBLISHER = manifests.find("publisher.yaml", "Deployment", "tonnage-publisher")
SCHEDULER = manifests.find("second-scheduler/scheduler.yaml", "Deployment", "tonnage-kube-scheduler")
_SERVICE = manifests.find("extender.yaml", "Service", "tonnage-extender")


def database_url() -> sa.URL:
    """Return the URL of the database in the manifests."""
    secret = configparser.ConfigParser(interpolation=None)
    secret.read_string(manifests.find("secret.yaml", "Secret", "tonnage")["stringData"]["secret.conf"])
    return sa.make_url(secret["database"]["connection"])


def host_names() -> list[str]:
    """Return the names of hosts in the manifests that pods use: the Service and the database."""
    host = database_url().host
    assert host
    return [f"{_SERVICE['metadata']['name']}.{_SERVICE['metadata']['namespace']}.svc", host]


@contextlib.contextmanager
def database(server: PostgreSQL, address: str) -> Iterator[None]:
    """Provide the database of the manifests at an address of this machine."""
    url = database_url()
    server.execute(
        f"CREATE ROLE {url.username} LOGIN PASSWORD '{url.password}'",
        f"CREATE DATABASE {url.database} OWNER {url.username}",
    )
    target = tcp_proxy.target(sa.make_url(server.url))
    try:
        with tcp_proxy.TcpProxy(target, (address, url.port or 5432)):
            yield
    finally:
        server.execute(f"DROP DATABASE {url.database} WITH (FORCE)", f"DROP ROLE {url.username}")


def install(cluster: Cluster, folder: pathlib.Path) -> None:
    """Create the objects of the manifests and the Secrets of the certificates, which are made with openssl."""
    cluster.create(*manifests.kustomization(), *manifests.kustomization("second-scheduler"))
    made = folder / "certificates"
    subprocess.run([manifests.FOLDER / "certificates" / "with-openssl.sh", made], check=True, capture_output=True)
    for name in ("extender", "kube-scheduler"):
        data = {each.name: base64.b64encode(each.read_bytes()).decode() for each in (made / name).iterdir()}
        metadata = {"name": f"tonnage-{name}-tls", "namespace": manifests.NAMESPACE}
        cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def scheduler_configuration(**changes: Any) -> ConfigMaps:
    """Return the configuration of the manifests' kube-scheduler, with changes, in the version of Kubernetes 1.20."""
    configuration = {
        **manifests.scheduler_configuration(),
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        **changes,
    }
    return {"tonnage-kube-scheduler": {"configuration.yaml": json.dumps(configuration)}}


def _run_scheduler(kubelet: Kubelet, image: str | None = None, **changes: Any) -> Pod:
    workload = copy.deepcopy(SCHEDULER)
    if image is not None:
        [container] = workload["spec"]["template"]["spec"]["containers"]
        container["image"] = image
    return kubelet.run(workload, scheduler_configuration(**changes), arguments=[servers.GATES])


@contextlib.contextmanager
def scheduler(kubelet: Kubelet, image: str | None = None, **changes: Any) -> Iterator[str]:
    """Run one more kube-scheduler, with changes of its configuration; yield the name that pods give it.

    ``image`` is another image than that of the manifests.
    """
    name = f"tonnage-{secrets.token_hex(4)}"
    own = {"profiles": [{"schedulerName": name}], "leaderElection": {"leaderElect": False}}
    pod = _run_scheduler(kubelet, image, **own, **changes)
    pod.wait_until_ready()
    try:
        yield name
    finally:
        pod.kill()


class Installation:
    """The pods of all manifests. Use it as a context manager; at its end they must stop, and no log has a traceback."""

    def __init__(self, kubelet: Kubelet, address: str) -> None:
        """``address`` is the address of this machine for the pods: that of the Service."""
        job = kubelet.run(manifests.find("schema.yaml", "Job", "tonnage-schema"))
        assert job.wait() == 0, job.log
        self._kubelet, self._cleanup = kubelet, contextlib.ExitStack()
        self.extenders = [kubelet.run(EXTENDER) for _ in range(EXTENDER["spec"]["replicas"])]
        self.publishers = [kubelet.run(PUBLISHER) for _ in range(PUBLISHER["spec"]["replicas"])]
        self.schedulers = [_run_scheduler(kubelet) for _ in range(SCHEDULER["spec"]["replicas"])]
        [port] = _SERVICE["spec"]["ports"]
        self._port = port["targetPort"]
        self._cleanup.enter_context(Service((address, port["port"]), self._endpoints))

    def __enter__(self) -> "Installation":
        for pod in (*self.extenders, *self.publishers, *self.schedulers):
            pod.wait_until_ready()
        return self

    def __exit__(self, *error: object) -> None:
        with self._cleanup:
            end(*self.extenders, *self.publishers)

    def _endpoints(self) -> list[tuple[str, int]]:
        return [(each.address, each.ports[self._port]) for each in self.extenders]

    def replace_extender(self) -> None:
        """Replace the first extender as a new revision of the Deployment does: a new pod starts, the old one ends."""
        new = self._kubelet.run(EXTENDER)
        new.wait_until_ready()
        old = self.extenders.pop(0)
        self.extenders.append(new)
        assert (old.stop(), "Traceback" in old.log) == (0, False), old.log

    def logged_at(self, text: str, since: float) -> float:
        """Return the time of the first line of an extender's log with a text, in seconds since 1970; infinite if none.

        Lines from before ``since`` are of other tests.
        """
        lines = [line for pod in self.extenders for line in pod.log.splitlines() if text in line]
        times = [datetime.datetime.fromisoformat(line[:23]).timestamp() for line in lines]
        return min((at for at in times if at >= since), default=math.inf)

    def patch(self, body: dict[str, Any], driver: str = DRIVER) -> None:
        """Patch a driver, as its writers do."""
        self._request(driver, "PATCH", "--data", json.dumps(body), "--header", "Content-Type: application/json")

    def remove_driver(self, driver: str = DRIVER) -> None:
        """Remove a driver, with its figures and the claims on it."""
        self._request(driver, "DELETE")

    def _request(self, driver: str, method: str, *arguments: str) -> None:
        [pod, *_] = [each for each in self.extenders if each.running]
        url = f"http://127.0.0.1:8776/v3/csi-drivers/{driver}"
        pod.forward("curl", "--silent", "--show-error", "--fail-with-body", "--request", method, url, *arguments)

    def set_capacities(self, **capacities: str) -> None:
        """Set the capacity of each node, which has a pool of its own."""
        pools = [{"name": node, "nodeList": [node], "capacity": size} for node, size in capacities.items()]
        self.patch({"status": {"storage": [{"storageClassName": CLASS, "pools": pools}]}})


def end(*pods: Pod) -> None:
    """End pods of Tonnage, which must not fail. The pause of ``preStop`` is left out."""
    for pod in pods:
        pod.terminate()
    for pod in pods:
        assert (pod.wait(), "Traceback" in pod.log) == (0, False), pod.log
