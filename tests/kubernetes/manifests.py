# SPDX-License-Identifier: Apache-2.0
"""The manifests of ``deploy/kubernetes``, as users apply them."""

import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import yaml

FOLDER = pathlib.Path(__file__).parents[2] / "deploy" / "kubernetes"

#: The namespace of the manifests, and the service accounts of the extender and the publisher.
NAMESPACE = "tonnage"
EXTENDER, PUBLISHER = "tonnage-extender", "tonnage-publisher"


def kustomization(folder: str = ".") -> list[dict[str, Any]]:
    """Return the objects that ``kubectl apply --kustomize`` takes from a folder."""
    [listed] = load(f"{folder}/kustomization.yaml")
    return [each for name in listed["resources"] for each in load(f"{folder}/{name}")]


@functools.cache
def load(name: str) -> list[dict[str, Any]]:
    """Return the objects in a file."""
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def find(name: str, kind: str, of: str) -> dict[str, Any]:
    """Return the object of a kind with the name ``of`` in a file."""
    [found] = [each for each in load(name) if (each["kind"], each["metadata"]["name"]) == (kind, of)]
    return found


def granted(account: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the bindings of a service account, each with its role."""
    for each in load("roles.yaml"):
        if any(subject["name"] == account for subject in each.get("subjects", ())):
            yield each, find("roles.yaml", each["roleRef"]["kind"], each["roleRef"]["name"])


def scheduler_configuration() -> dict[str, Any]:
    """Return the configuration of a kube-scheduler with the extender."""
    data = find("second-scheduler/configuration.yaml", "ConfigMap", "tonnage-kube-scheduler")["data"]
    configuration: dict[str, Any] = yaml.safe_load(data["configuration.yaml"])
    return configuration
