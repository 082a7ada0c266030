# SPDX-License-Identifier: Apache-2.0
"""The chart, installed, upgraded and uninstalled by Helm in an API server of its own, without controllers."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import dynamic

from tests import suites
from tests.kubernetes import manifests, test_chart
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import Machine
from tests.kubernetes.servers import ApiServer, Etcd

pytestmark = pytest.mark.kubernetes

_PROGRAM = pathlib.Path(__file__).with_name("helm_release.py")

#: A kind, a namespace if there is one, and a name.
Key = tuple[str, str | None, str]

_ALL: dict[str, Any] = {
    "admission": {"enabled": True, "caBundle": "Q0E="},
    "agents": {"local": {"configuration": "[DEFAULT]\n"}},
    "publisher": {"subtractsClaims": True},
    "scheduler": {"enabled": True},
}


@pytest.fixture(scope="module")
def kubeconfig(machine: Machine) -> Iterator[str]:
    """An API server without any object of Tonnage."""
    for kind in (Etcd, ApiServer):
        if not kind.installed():
            suites.cannot_run("Kubernetes", f"{kind.name} is not there; run tools/install-kubernetes.sh")
    with Etcd() as etcd, ApiServer(etcd, machine.address) as server:
        yield server.kubeconfig()


#: Differences of Kubernetes 1.20: older versions, and ports that are applied only with their protocol. The one that is
#: built here has the version 0.
_OLDER = [
    (re.compile("^apiVersion: policy/v1$", re.MULTILINE), "apiVersion: policy/v1beta1"),
    (re.compile('^kubeVersion: ">=1.25.0-0"$', re.MULTILINE), 'kubeVersion: ">=0.0.0-0"'),
    (re.compile("^( +)(containerPort: [0-9]+|targetPort: .+)$", re.MULTILINE), r"\1\2\n\1protocol: TCP"),
    (re.compile('"containerPort" 9777'), r'\g<0> "protocol" "TCP"'),
]


@pytest.fixture
def chart(tmp_path: pathlib.Path) -> pathlib.Path:
    """The chart as Kubernetes 1.20 takes it."""
    copy = tmp_path / "chart"
    shutil.copytree(manifests.FOLDER.parent, copy)
    for path in copy.rglob("*.*"):
        if path.suffix in (".yaml", ".tpl"):
            text = path.read_text(encoding="utf-8")
            for pattern, replacement in _OLDER:
                text = pattern.sub(replacement, text)
            path.write_text(text, encoding="utf-8")
    return copy


def objects(kubeconfig: str) -> dict[Key, str]:
    """Return all objects in the cluster but namespaces and events, each with its uid."""
    uids: dict[str, Key] = {}
    with Cluster(kubeconfig) as cluster:
        for resource in dynamic.DynamicClient(cluster.api).resources.search():
            is_listed = type(resource) is dynamic.resource.Resource and "list" in resource.verbs
            if is_listed and "/" not in resource.name and resource.kind not in ("Namespace", "Event"):
                for body in resource.get().items:
                    # The same object is in several versions of the API.
                    uids[body.metadata.uid] = body.kind, body.metadata.namespace, body.metadata.name
    return {key: uid for uid, key in uids.items()}


def helm(kubeconfig: str, chart: pathlib.Path, action: str, values: dict[str, Any]) -> None:
    done = subprocess.run(
        [sys.executable, _PROGRAM, kubeconfig, manifests.NAMESPACE, chart, action],
        input=json.dumps(values),
        env={**os.environ, "PYTHONPATH": str(test_chart.HELM)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_stays_after_an_uninstallation(kubeconfig: str, chart: pathlib.Path) -> None:
    before = objects(kubeconfig)
    helm(kubeconfig, chart, "install", test_chart.PLAIN)
    installed = objects(kubeconfig).keys() - before.keys()
    assert {(kind, name) for kind, _, name in installed} >= test_chart.render(**test_chart.PLAIN).keys()
    helm(kubeconfig, chart, "upgrade", _ALL)
    upgraded = objects(kubeconfig).keys() - before.keys()
    assert ("DaemonSet", manifests.NAMESPACE, "tonnage-agent-local") in upgraded - installed
    helm(kubeconfig, chart, "uninstall", {})
    assert objects(kubeconfig).keys() - before.keys() == set()
