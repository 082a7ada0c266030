# SPDX-License-Identifier: Apache-2.0
"""Pods placed by the objects that a driver's provisioner publishes: nobody else tells Tonnage of its storage."""

import itertools
import re
import shlex
import textwrap
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes import client

from tests.kubernetes import manifests, test_chart
from tests.kubernetes.cluster import CLASS, DRIVER, HOSTNAME, NAMESPACE, Cluster, wait_until
from tests.kubernetes.installation import Installation
from tests.kubernetes.provisioner import Provisioner
from tonnage.extensions.kubernetes.cluster import quantities

pytestmark = pytest.mark.kubernetes

#: The only API version of Kubernetes 1.20.
_PATH = {"group": "storage.k8s.io", "version": "v1alpha1", "plural": "csistoragecapacities", "namespace": NAMESPACE}
_OWNER = "csi-disk-plugin"
_CONFLICT = 409


class Publisher:
    """The part of external-provisioner that publishes capacity: its objects, with its StatefulSet as their owner."""

    def __init__(self, cluster: Cluster, provisioner: Provisioner) -> None:
        self._provisioner = provisioner
        self._apps, self._custom = client.AppsV1Api(cluster.api), client.CustomObjectsApi(cluster.api)
        labels = {"app": _OWNER}
        template = client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels=labels),
            spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="example.com/never-pulled")]),
        )
        spec = client.V1StatefulSetSpec(
            replicas=1, service_name=_OWNER, selector=client.V1LabelSelector(match_labels=labels), template=template
        )
        owner = client.V1StatefulSet(metadata=client.V1ObjectMeta(name=_OWNER), spec=spec)
        self._owner = self._apps.create_namespaced_stateful_set(NAMESPACE, owner)
        ready = {"status": {"replicas": 1, "readyReplicas": 1}}
        self._apps.patch_namespaced_stateful_set_status(_OWNER, NAMESPACE, ready)
        #: The names of the objects by node.
        self._names: dict[str, str] = {}

    def run_once(self) -> None:
        """Write the figures that have changed."""
        for node, free in self._provisioner.free.items():
            size = quantities.render(free)
            name = self._names.get(node)
            if name is None:
                written = self._custom.create_namespaced_custom_object(**_PATH, body=self._body(node, size))
                self._names[node] = written["metadata"]["name"]
                continue
            written = self._custom.get_namespaced_custom_object(**_PATH, name=name)
            if quantities.parse(written["capacity"]) != free:
                try:
                    self._custom.replace_namespaced_custom_object(
                        **_PATH, name=name, body={**written, "capacity": size}
                    )
                except client.ApiException as error:
                    # It has changed in the meantime. The next call tries again.
                    if error.status != _CONFLICT:
                        raise

    def _body(self, node: str, size: str) -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": _OWNER, "uid": self._owner.metadata.uid}
        labels = {"csi.storage.k8s.io/drivername": DRIVER, "csi.storage.k8s.io/managed-by": "external-provisioner"}
        return {
            "apiVersion": "storage.k8s.io/v1alpha1",
            "kind": "CSIStorageCapacity",
            "metadata": {
                "generateName": "csisc-",
                "namespace": NAMESPACE,
                "labels": labels,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "storageClassName": CLASS,
            "nodeTopology": {"matchLabels": {HOSTNAME: node}},
            "capacity": size,
        }

    def remove_owner(self) -> None:
        """Uninstall the driver. No garbage collector runs, so its objects stay."""
        self._apps.delete_namespaced_stateful_set(_OWNER, NAMESPACE)

    def remove_objects(self) -> None:
        """Delete the objects and their owner."""
        self._custom.delete_collection_namespaced_custom_object(**_PATH)
        self._apps.delete_collection_namespaced_stateful_set(NAMESPACE)


@pytest.fixture
def provisioner(cluster: Cluster) -> Provisioner:
    cluster.add_nodes("n1", "n2")
    return Provisioner(cluster, n1="10Gi", n2="10Gi")


@pytest.fixture
def publisher(cluster: Cluster, provisioner: Provisioner, tonnage: Installation) -> Iterator[Publisher]:
    publisher = Publisher(cluster, provisioner)
    publisher.run_once()
    yield publisher
    publisher.remove_objects()


def test_pods_wait_and_are_placed_by_the_objects_of_a_provisioner(
    cluster: Cluster, provisioner: Provisioner, publisher: Publisher
) -> None:
    cluster.add_pod("large", a="6Gi", b="6Gi")
    reason = "volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: pool kubernetes.io/hostname = n1 has 10Gi left"
    wait_until(lambda: cluster.is_refused("large", reason), "the reason")
    for number in range(4):
        cluster.add_pod(f"pod-{number}", **{f"data-{number}": "6Gi"})

    def bound() -> list[str]:
        provisioner.run_once()
        publisher.run_once()
        return [name for name in (f"pod-{number}" for number in range(4)) if cluster.node_of(name)]

    wait_until(lambda: len(bound()) == 2, "two pods are bound")
    wait_until(
        lambda: (
            len(bound()) == 2
            and all(cluster.scheduling_failures(f"pod-{n}") for n in range(4) if f"pod-{n}" not in bound())
        ),
        "the others wait",
    )
    assert (len(bound()), provisioner.refused) == (2, 0)
    publisher.remove_owner()
    wait_until(lambda: _is_refused_for_expiry(cluster), "figures without their owner expire")


def test_claims_end_though_a_volume_is_the_last_change_of_a_figure(
    cluster: Cluster, provisioner: Provisioner, publisher: Publisher
) -> None:
    """The extender lowers the figure by a byte, and the provisioner writes it once more."""

    def are_bound(*pods: str) -> bool:
        provisioner.run_once()
        publisher.run_once()
        return all(map(cluster.node_of, pods))

    for name in ("a", "b"):
        cluster.add_pod(name, **{f"data-{name}": "6Gi"})
    wait_until(lambda: are_bound("a", "b"), "a pod on each node")
    for name in ("c", "d"):
        cluster.add_pod(name, **{f"data-{name}": "4Gi"})
    wait_until(lambda: are_bound("a", "b", "c", "d"), "the rest of the room is used")
    assert provisioner.refused == 0


def _is_refused_for_expiry(cluster: Cluster) -> bool:
    """Add a pod from time to time, and return whether figures that have expired keep it from a node."""
    number = len(cluster.core.list_namespaced_pod(NAMESPACE).items)
    cluster.add_pod(f"late-{number}", **{f"late-{number}": "1Gi"})
    wait_until(
        lambda: cluster.node_of(f"late-{number}") or cluster.scheduling_failures(f"late-{number}"), "the late pod"
    )
    return cluster.is_refused(f"late-{number}", "expired")


def _page_blocks(language: str) -> list[str]:
    """Return the blocks of a language on the page with the first steps."""
    text = (manifests.FOLDER.parents[1] / "docs" / "kubernetes-first-steps.rst").read_text(encoding="utf-8")
    parts = re.findall(rf"^ +\.\. code-block:: {language}\n\n((?: {{6}}.*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(part) for part in parts]


def test_the_pod_of_the_first_steps_waits_with_the_reason_on_that_page(cluster: Cluster, publisher: Publisher) -> None:
    [objects], [output] = _page_blocks("yaml"), _page_blocks("text")
    for body in yaml.safe_load_all(objects):
        kubernetes_validate.validate(body, kubernetes_validate.latest_version(), strict=True)
        cluster.create({**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}})
    reason = re.search("volumes .*left", " ".join(output.split()))
    assert reason is not None
    wait_until(lambda: cluster.is_refused("first", reason.group()), "the reason")


def test_the_commands_of_the_first_steps_name_what_is_there() -> None:
    lines = [line for block in _page_blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    [helm] = [shlex.split(line) for line in lines if line.startswith("helm upgrade")]
    values: dict[str, Any] = {}
    for option, argument in itertools.pairwise(helm):
        if option in ("--set", "--set-file"):
            path, _, value = argument.partition("=")
            *parents, key = path.split(".")
            at = values
            for parent in parents:
                at = at.setdefault(parent, {})
            at[key] = value
    objects = test_chart.render(**values)
    [loop] = [line for line in lines if line.startswith("for name in")]
    secrets = {f"tonnage-{name}-tls" for name in loop.removeprefix("for name in").partition(";")[0].split()}
    mounted = {
        volume["secret"]["secretName"]
        for spec in test_chart.pod_specs(objects).values()
        for volume in spec["volumes"]
        if "secret" in volume
    }
    assert secrets == mounted
    assert ("Deployment", "tonnage-extender") in objects
    for path in (
        helm[helm.index("tonnage") + 1],
        "deploy/Containerfile",
        "deploy/kubernetes/certificates/with-openssl.sh",
    ):
        assert any(path in line for line in lines)
        assert (manifests.FOLDER.parents[1] / path).exists()
