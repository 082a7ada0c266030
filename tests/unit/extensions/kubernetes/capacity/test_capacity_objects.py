# SPDX-License-Identifier: Apache-2.0
"""``CSIStorageCapacity`` objects in an API server of each version."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.servers.kube_api import KubeApi
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity.capacity_entries import CapacityEntry
from tonnage.extensions.kubernetes.capacity.capacity_objects import CapacityObjects, ExistingCapacity
from tonnage.extensions.kubernetes.cluster import api_connection
from tonnage.extensions.kubernetes.cluster.objects import CAPACITY_VERSIONS

GIB = 2**30
ENTRY = CapacityEntry("csi.example.org", "fast", (), 5 * GIB, 2 * GIB)
BODY = {
    "metadata": {"name": "c1"},
    "storageClassName": "fast",
    "nodeTopology": {},
    "capacity": "5Gi",
    "maximumVolumeSize": "2Gi",
}


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as kube:
        yield kube


@pytest.fixture
def objects(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[CapacityObjects]:
    with api_connection.connect(kube.kubeconfig(tmp_path)) as api:
        yield CapacityObjects(api, "storage")


@pytest.mark.parametrize(
    ("raw", "capacity", "most"),
    [
        ({"capacity": "5Gi", "maximumVolumeSize": "2048Mi"}, 5 * GIB, 2 * GIB),
        ({"capacity": "5368709120"}, 5 * GIB, None),
        ({}, None, None),
    ],
)
def test_sizes_are_bytes_however_the_server_renders_them(raw: dict[str, Any], capacity: int, most: int) -> None:
    existing = ExistingCapacity.from_raw({"metadata": {"name": "c", "resourceVersion": "7"}, **raw})
    assert (existing.name, existing.resource_version) == ("c", "7")
    assert (existing.capacity, existing.maximum_volume_size) == (capacity, most)
    assert existing.has_sizes_of(ENTRY) is (most == 2 * GIB)


@pytest.mark.parametrize("version", CAPACITY_VERSIONS)
def test_the_newest_version_of_the_cluster_is_used(kube: KubeApi, objects: CapacityObjects, version: str) -> None:
    kube.version = version
    assert objects.list()["items"] == []
    objects.create(BODY)
    assert kube.capacities["c1"]["apiVersion"] == f"storage.k8s.io/{version}"
    assert kube.capacities["c1"]["kind"] == "CSIStorageCapacity"


@pytest.mark.parametrize(("version", "sizes"), [("v1", (5 * GIB, 2 * GIB)), ("v1alpha1", (2 * GIB, None))])
def test_the_oldest_version_has_the_largest_volume_in_place_of_the_capacity(
    kube: KubeApi, objects: CapacityObjects, version: str, sizes: tuple[int, int | None]
) -> None:
    kube.version = version
    objects.list()
    adapted = objects.adapt_to_version(ENTRY)
    assert (adapted.capacity, adapted.maximum_volume_size) == sizes


def test_a_cluster_without_these_objects_is_named(kube: KubeApi, objects: CapacityObjects) -> None:
    kube.version = "v2"
    with pytest.raises(errors.Unavailable, match=r"no CSIStorageCapacity objects: Kubernetes has them from 1\.24 on"):
        objects.list()


def test_another_error_is_the_clients(kube: KubeApi, objects: CapacityObjects) -> None:
    kube.failing["GET"] = 403
    with pytest.raises(client.ApiException) as raised:
        objects.list()
    assert raised.value.status == 403


def test_an_object_that_has_changed_is_not_deleted(kube: KubeApi, objects: CapacityObjects) -> None:
    objects.list()
    objects.create(BODY)
    version = kube.capacities["c1"]["metadata"]["resourceVersion"]
    objects.replace("c1", {**BODY, "metadata": {"name": "c1", "resourceVersion": version}, "capacity": "4Gi"})
    with pytest.raises(client.ApiException):
        objects.delete("c1", version)
    objects.delete("c1", kube.capacities["c1"]["metadata"]["resourceVersion"])
    assert kube.capacities == {}


def test_owners_are_known_by_their_uid() -> None:
    raw = {"metadata": {"name": "c", "resourceVersion": "7", "ownerReferences": [{"uid": "u1"}]}}
    existing = ExistingCapacity.from_raw(raw)
    assert [existing.is_owned_by(owner) for owner in (None, {"uid": "u1"}, {"uid": "u2"})] == [True, True, False]
