# SPDX-License-Identifier: Apache-2.0
"""The chart in ``deploy``, rendered by Helm."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests import suites
from tests.kubernetes import images, manifests

pytestmark = pytest.mark.kubernetes

_HELM = images.KUBERNETES.with_name("helm")
_CHART = manifests.FOLDER.parent
_RENDER = pathlib.Path(__file__).with_name("render_chart.py")

#: A kind and a name.
Key = tuple[str, str]


def run(values: dict[str, Any], namespace: str = manifests.NAMESPACE) -> "subprocess.CompletedProcess[str]":
    if not _HELM.exists():
        suites.cannot_run("Kubernetes", f"{_HELM} is not there; run tools/install-kubernetes.sh")
    return subprocess.run(
        [sys.executable, _RENDER, _CHART, namespace],
        input=json.dumps(values),
        env={**os.environ, "PYTHONPATH": str(_HELM)},
        capture_output=True,
        text=True,
        check=False,
    )


def render(**values: Any) -> dict[Key, dict[str, Any]]:
    done = run(values)
    assert done.returncode == 0, done.stdout + done.stderr
    objects = by_name([each for each in yaml.safe_load_all(done.stdout) if each])
    for each in objects.values():
        if not each["apiVersion"].startswith("cert-manager.io/"):
            kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    return objects


def by_name(objects: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


def test_the_objects_are_those_of_the_manifests() -> None:
    expected = by_name([*manifests.kustomization(), *manifests.kustomization("second-scheduler")])
    # Helm makes the namespace. A Job cannot be changed, so each revision has its own.
    del expected["Namespace", "tonnage"]
    job = expected.pop(("Job", "tonnage-schema"))
    expected["Job", "tonnage-schema-1"] = {**job, "metadata": {**job["metadata"], "name": "tonnage-schema-1"}}
    rendered = render()
    for (kind, _), each in rendered.items():
        if kind == "Deployment":
            assert each["spec"]["template"]["metadata"].pop("annotations").keys() == {"checksum/configuration"}
    assert rendered == expected


def test_values_change_the_objects() -> None:
    plain = render()
    changed = render(
        image="registry.example.com/storage/tonnage:2",
        configuration={"values.conf": "[kubernetes]\nextender_scoring_shape = pack\n"},
        secret={"create": False},
        certManager=True,
        deployments={
            "tonnage-extender": {
                "replicas": 3,
                "pod": {"nodeSelector": {"disks": "none"}},
                "container": {"resources": {"requests": {"cpu": "1"}}},
            }
        },
        secondScheduler={"enabled": False},
    )
    scheduler = by_name(manifests.kustomization("second-scheduler"))
    certificates = by_name(manifests.kustomization("certificates"))
    assert changed.keys() == plain.keys() - scheduler.keys() - {("Secret", "tonnage")} | certificates.keys()
    assert changed["ConfigMap", "tonnage"]["data"].keys() == {"tonnage.conf", "values.conf"}
    before, after = plain["Deployment", "tonnage-extender"], changed["Deployment", "tonnage-extender"]
    assert after["spec"]["replicas"] == 3
    template = after["spec"]["template"]
    # A change of the configuration replaces the pods.
    assert template["metadata"]["annotations"] != before["spec"]["template"]["metadata"]["annotations"]
    assert template["spec"].pop("nodeSelector") == {"disks": "none"}
    [container], [old_container] = template["spec"]["containers"], before["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/storage/tonnage:2"
    requests = {**old_container["resources"]["requests"], "cpu": "1"}
    old_container |= {"image": container["image"], "resources": {**old_container["resources"], "requests": requests}}
    assert template["spec"] == before["spec"]["template"]["spec"]


def test_a_secret_and_another_scheduler_are_set() -> None:
    image = "registry.example.com/kube-scheduler:v1.33.1"
    rendered = render(secret={"text": "[database]\n"}, secondScheduler={"image": image})
    assert rendered["Secret", "tonnage"]["stringData"] == {"secret.conf": "[database]\n"}
    [container] = rendered["Deployment", "tonnage-kube-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


def test_another_namespace_is_refused() -> None:
    done = run({}, "elsewhere")
    assert done.returncode == 1
    assert "use --namespace tonnage" in done.stdout
