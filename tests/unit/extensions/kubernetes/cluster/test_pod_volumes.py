# SPDX-License-Identifier: Apache-2.0
"""The volumes of a pod that are not provisioned yet."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import pytest

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import objects, pod_volumes
from tonnage.extensions.kubernetes.cluster.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeSnapshot,
)
from tonnage.extensions.kubernetes.cluster.volumes import Volume

T = TypeVar("T")

GI = 2**30


def decode(raw: Any, object_type: type[T]) -> T:
    return objects.decode(json.dumps(raw).encode(), object_type)


class Cluster:
    """The objects of a cluster, by name."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.snapshots: dict[str, Any] = {}
        self.volumes: dict[str, Any] = {"pv": {"spec": {}}}
        self.modes = {"fast": "WaitForFirstConsumer", "early": "Immediate"}

    def add_claim(self, name: str, made: str = "2026-11-21T12:00:00Z", **spec: Any) -> None:
        spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "2Gi"}}, **spec}
        self.claims[name] = {"metadata": {"name": name, "creationTimestamp": made}, "spec": spec}

    def persistent_volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return decode(self.claims[name], PersistentVolumeClaim) if name in self.claims else None

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        return decode(self.volumes[name], PersistentVolume) if name in self.volumes else None

    def volume_snapshot(self, namespace: str, name: str) -> VolumeSnapshot | None:
        return decode(self.snapshots[name], VolumeSnapshot) if name in self.snapshots else None

    def storage_class(self, name: str) -> StorageClass | None:
        mode = self.modes.get(name)
        raw = {"metadata": {"name": name}, "provisioner": "disk.example.com", "volumeBindingMode": mode}
        return None if mode is None else decode(raw, StorageClass)

    def node_labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return {}

    def all_node_labels(self) -> Mapping[str, Mapping[str, str]]:
        return {}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def pod(*volumes: dict[str, Any]) -> Pod:
    return decode({"metadata": {"name": "redis"}, "spec": {"volumes": list(volumes)}}, Pod)


def of_claim(name: str) -> dict[str, Any]:
    return {"name": f"volume-{name}", "persistentVolumeClaim": {"claimName": name}}


def unprovisioned(cluster: Cluster, *volumes: dict[str, Any]) -> list[Volume]:
    return pod_volumes.unprovisioned(pod(*volumes), cluster)


def test_an_unbound_claim_is_provisioned_on_the_node_of_the_pod(cluster: Cluster) -> None:
    cluster.add_claim("data")
    expected = [Volume("data", "disk.example.com", "fast", 2 * GI)]
    assert unprovisioned(cluster, of_claim("data"), of_claim("data")) == expected


@pytest.mark.parametrize(
    "spec",
    [{"volumeName": "pv"}, {"storageClassName": ""}, {"storageClassName": "early"}, {"storageClassName": "gone"}],
)
def test_bound_claims_and_those_that_do_not_wait_for_the_pod_are_left_out(cluster: Cluster, spec: Any) -> None:
    cluster.add_claim("data", **spec)
    assert unprovisioned(cluster, of_claim("data")) == []


def test_volumes_that_need_no_storage_are_left_out(cluster: Cluster) -> None:
    assert unprovisioned(cluster, {"name": "config", "configMap": {"name": "x"}}) == []
    assert pod_volumes.unprovisioned(decode({"metadata": {"name": "redis"}}, Pod), cluster) == []


def test_a_missing_claim_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(errors.NotFound, match="claim default/data is not there"):
        unprovisioned(cluster, of_claim("data"))


def test_a_volume_has_the_node_that_it_is_made_for(cluster: Cluster) -> None:
    for name in ("here", "nowhere"):
        cluster.add_claim(name)
    cluster.claims["here"]["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
    inline = {"name": "cache", "csi": {"driver": "disk.example.com"}}
    template = {"ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}
    waiting = pod(of_claim("here"), of_claim("nowhere"), {"name": "scratch", **template}, inline)
    selected = {volume.name: volume.selected_node for volume in pod_volumes.unprovisioned(waiting, cluster)}
    assert selected == {"here": "n1", "nowhere": None, "redis-scratch": None, "cache (inline)": None}
    waiting.spec.node_name = "n2"
    [volume] = [volume for volume in pod_volumes.unprovisioned(waiting, cluster) if volume.storage_class is None]
    assert volume.selected_node == "n2"


def test_inline_volumes_have_no_storage_class(cluster: Cluster) -> None:
    inline = {"name": "cache", "csi": {"driver": "disk.example.com", "fsSize": "1Gi"}}
    assert unprovisioned(cluster, inline) == [Volume("cache (inline)", "disk.example.com", None, GI)]


def test_a_generic_ephemeral_volume_has_the_claim_that_kubernetes_will_make(cluster: Cluster) -> None:
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "3Gi"}}}
    generic = {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    assert unprovisioned(cluster, generic) == [Volume("redis-cache", "disk.example.com", "fast", 3 * GI)]
    cluster.add_claim("redis-cache")
    assert unprovisioned(cluster, generic) == [Volume("redis-cache", "disk.example.com", "fast", 2 * GI)]


def source(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"dataSource": {"kind": kind, "name": name, **more}}


def test_a_copy_goes_where_the_volume_of_its_source_is(cluster: Cluster) -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    cluster.volumes["pv"] = {"spec": {"nodeAffinity": {"required": required}}}
    cluster.add_claim("origin", volumeName="pv")
    cluster.add_claim("copy", **source("PersistentVolumeClaim", "origin"))
    [volume] = unprovisioned(cluster, of_claim("copy"))
    assert volume.source is not None
    assert (volume.source.text, volume.source.unchecked) == ("claim origin", None)
    assert volume.source.accessibility is not None
    assert volume.source.accessibility.matches("n1", {"zone": "a"})


def test_a_copy_of_a_volume_of_the_same_pod_needs_no_check(cluster: Cluster) -> None:
    cluster.add_claim("origin")
    cluster.add_claim("copy", **source("PersistentVolumeClaim", "origin"))
    assert [volume.source for volume in unprovisioned(cluster, of_claim("origin"), of_claim("copy"))] == [None, None]
    with pytest.raises(errors.NotFound, match="claim default/origin, which claim copy is a copy of, has no volume yet"):
        unprovisioned(cluster, of_claim("copy"))


SNAPSHOT = {"apiGroup": objects.SNAPSHOT_GROUP}


@pytest.mark.parametrize(
    ("origin", "text", "unchecked"),
    [
        ({"volumeName": "pv"}, "snapshot s of claim origin", None),
        ({}, "snapshot s", "claim origin of its volume is gone"),
        # This claim has the name of the one that the snapshot was made from.
        ({"volumeName": "pv", "made": "2026-11-22T12:00:00Z"}, "snapshot s", "claim origin of its volume is gone"),
        (None, "snapshot s", "claim origin of its volume is gone"),
    ],
)
def test_a_snapshot_is_where_the_volume_of_its_claim_is(
    cluster: Cluster, origin: dict[str, Any] | None, text: str, unchecked: str | None
) -> None:
    if origin is not None:
        cluster.add_claim("origin", **origin)
    cluster.snapshots["s"] = {
        "metadata": {"name": "s", "creationTimestamp": "2026-11-21T13:00:00Z"},
        "spec": {"source": {"persistentVolumeClaimName": "origin"}},
    }
    cluster.add_claim("copy", **source("VolumeSnapshot", "s", **SNAPSHOT))
    [volume] = unprovisioned(cluster, of_claim("copy"))
    assert volume.source is not None
    assert (volume.source.text, volume.source.unchecked) == (text, unchecked)


@pytest.mark.parametrize(
    ("data_source", "problem"),
    [
        (source("PersistentVolumeClaim", "x"), "claim default/x, which claim copy is a copy of, is not there"),
        (source("VolumeSnapshot", "x", **SNAPSHOT), "snapshot default/x, which claim copy is a copy of, is not there"),
    ],
)
def test_a_missing_source_is_an_error(cluster: Cluster, data_source: dict[str, Any], problem: str) -> None:
    cluster.add_claim("copy", **data_source)
    with pytest.raises(errors.NotFound, match=problem):
        unprovisioned(cluster, of_claim("copy"))


def test_sources_of_other_kinds_are_not_checked(cluster: Cluster) -> None:
    cluster.add_claim("copy", **source("Backup", "b", apiGroup="example.com"))
    [volume] = unprovisioned(cluster, of_claim("copy"))
    assert volume.source is not None
    assert volume.source.unchecked == "Tonnage does not know objects of kind Backup"
