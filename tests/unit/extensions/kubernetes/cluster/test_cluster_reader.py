# SPDX-License-Identifier: Apache-2.0
"""What is read from an API server, what is kept of it, and a server that refuses or is gone."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.servers.kube_api import CLASSES, NODES, KubeApi
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as kube:
        kube.add_node("n1", zone="a")
        kube.add_class("fast", "csi.example.org")
        kube.add_pod("web", "uid-1")
        yield kube


@pytest.fixture
def read(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[Callable[[float], ClusterReader]]:
    """A function that returns a reader with a time to keep answers."""
    readers: list[ClusterReader] = []

    def reader(cache_time: float = 3600.0) -> ClusterReader:
        readers.append(ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0, cache_time=cache_time))
        return readers[-1]

    yield reader
    for reader_ in readers:
        reader_.api.close()


def test_objects_that_do_not_exist_are_none(read: Callable[..., ClusterReader]) -> None:
    reader = read()
    pod = reader.pod("default", "web")
    assert pod is not None
    assert pod.metadata.uid == "uid-1"
    assert reader.pod("default", "gone") is None
    assert reader.persistent_volume_claim("default", "gone") is None
    assert reader.persistent_volume("gone") is None
    assert reader.volume_snapshot("default", "gone") is None
    assert reader.storage_class("gone") is None


def test_classes_and_labels_are_kept_for_some_time(kube: KubeApi, read: Callable[..., ClusterReader]) -> None:
    kept, read_anew = read(), read(0.0)
    for reader in (kept, read_anew):
        for _ in range(2):
            storage_class = reader.storage_class("fast")
            assert storage_class is not None
            assert storage_class.provisioner == "csi.example.org"
            assert reader.all_node_labels() == {"n1": {"zone": "a"}}
    assert kube.asked.count(f"{CLASSES}/fast") == kube.asked.count(NODES) == 3


def test_a_node_that_has_joined_since_is_looked_up(kube: KubeApi, read: Callable[..., ClusterReader]) -> None:
    reader = read()
    assert reader.node_labels(["n1"]) == {"n1": {"zone": "a"}}
    kube.add_node("n2", zone="b")
    assert reader.node_labels(["n2", "nowhere"]) == {"n2": {"zone": "b"}}
    assert reader.all_node_labels().keys() == {"n1", "n2"}


def test_unchanged_labels_are_the_same_object(kube: KubeApi, read: Callable[..., ClusterReader]) -> None:
    reader = read(0.0)
    first = reader.all_node_labels()
    assert reader.all_node_labels() is first
    kube.add_node("n2")
    assert reader.all_node_labels() is not first


def test_a_class_that_did_not_exist_is_looked_up_again(kube: KubeApi, read: Callable[..., ClusterReader]) -> None:
    reader = read()
    assert reader.storage_class("new") is None
    kube.add_class("new", "csi.example.org")
    assert reader.storage_class("new") is not None


def test_the_version_of_a_capacity_object_is_read_again_each_time(
    kube: KubeApi, read: Callable[..., ClusterReader]
) -> None:
    reader = read()
    assert reader.capacity_version("storage/csisc-1") is None
    versions = []
    for size in ("2Gi", "1Gi"):
        kube.add_capacity({"metadata": {"name": "csisc-1", "namespace": "storage"}, "capacity": size})
        versions.append(reader.capacity_version("storage/csisc-1"))
    assert None not in versions
    assert versions[0] != versions[1]


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_figure_is_lowered_once_until_its_provisioner_writes_it(
    kube: KubeApi, read: Callable[..., ClusterReader], version: str
) -> None:
    reader, kube.version = read(), version
    assert reader.ask_for_capacity("storage/csisc-1") is None
    body = {"metadata": {"name": "csisc-1", "namespace": "storage", "annotations": {"owner": "me"}}, "capacity": "2Gi"}
    kube.add_capacity(body)
    before = reader.capacity_version("storage/csisc-1")
    asked = reader.ask_for_capacity("storage/csisc-1")
    assert asked == reader.capacity_version("storage/csisc-1") != before
    assert kube.capacities["csisc-1"]["capacity"] == str(2 * 2**30 - 1)
    assert kube.capacities["csisc-1"]["metadata"]["annotations"] == {
        "owner": "me",
        "tonnage/lowered-figure": f"{before} {2 * 2**30 - 1}",
    }
    assert reader.ask_for_capacity("storage/csisc-1") == asked
    assert len(kube.written) == 1
    kube.add_capacity({**kube.capacities["csisc-1"], "capacity": "2Gi"})
    again = reader.ask_for_capacity("storage/csisc-1")
    assert again is not None
    assert asked is not None
    assert again > asked
    assert len(kube.written) == 2


def test_a_figure_that_is_written_this_moment_or_that_has_no_byte_is_not_lowered(
    kube: KubeApi, read: Callable[..., ClusterReader]
) -> None:
    reader = read()
    body = {"metadata": {"name": "csisc-1", "namespace": "storage"}, "capacity": "2Gi"}
    kube.add_capacity(body)
    kube.before_write = lambda: kube.add_capacity(body)
    assert reader.ask_for_capacity("storage/csisc-1") is None
    assert kube.capacities["csisc-1"]["capacity"] == "2Gi"
    kube.before_write = lambda: None
    kube.add_capacity({**body, "capacity": "0"})
    assert reader.ask_for_capacity("storage/csisc-1") is None
    kube.add_capacity(body)
    kube.failing["PATCH"] = 403
    with pytest.raises(ClusterUnavailable, match="refused a change of CSIStorageCapacity storage/csisc-1"):
        reader.ask_for_capacity("storage/csisc-1")


def test_a_server_that_refuses_is_no_object_that_is_missing(kube: KubeApi, read: Callable[..., ClusterReader]) -> None:
    kube.failing["GET"] = 503
    with pytest.raises(ClusterUnavailable, match="the API server of Kubernetes refused a look at a Pod"):
        read().pod("default", "web")


def test_a_server_that_is_gone_is_told_apart(tmp_path: pathlib.Path) -> None:
    with KubeApi() as kube:
        kubeconfig = kube.kubeconfig(tmp_path)
    reader = ClusterReader(kubeconfig, timeout=60.0)
    with pytest.raises(ClusterUnavailable, match="the API server of Kubernetes does not answer"):
        reader.all_node_labels()
    reader.api.close()


def test_an_unusable_kubeconfig_is_an_error_of_the_configuration(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[kubernetes\] kubeconfig"):
        ClusterReader(str(tmp_path / "none"))
