# SPDX-License-Identifier: Apache-2.0
"""The labels of nodes, which a reader of a cluster follows."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.servers.kube_api import NODES, KubeApi
from tests.unit.api.cluster import wait_until
from tonnage.extensions.kubernetes.cluster import api_connection
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.node_watch import NodeWatch
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        api.add_node("n1", zone="a")
        yield api


@pytest.fixture
def reader(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[ClusterReader]:
    """A reader that follows the nodes, and keeps no list of them."""
    following = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0, cache_time=0.0)
    following.start()
    wait_until(lambda: following._node_watch is not None and following._node_watch.labels is not None)
    yield following
    following.stop()
    following.api.close()


def test_a_label_that_comes_after_its_node_is_seen(kube: KubeApi, reader: ClusterReader) -> None:
    kube.add_node("n2")
    wait_until(lambda: reader.all_node_labels() == {"n1": {"zone": "a"}, "n2": {}})
    kube.add_node("n2", rack="r1")
    wait_until(lambda: reader.node_labels(["n2"]) == {"n2": {"rack": "r1"}})
    before, listed = reader.all_node_labels(), kube.asked.count(NODES)
    kube.remove_node("n1")
    wait_until(lambda: reader.all_node_labels() == {"n2": {"rack": "r1"}})
    assert before == {"n1": {"zone": "a"}, "n2": {"rack": "r1"}}
    assert kube.asked.count(NODES) == listed


def test_a_change_of_the_status_alone_changes_nothing(kube: KubeApi, reader: ClusterReader) -> None:
    kube.add_node("n2")
    wait_until(lambda: "n2" in reader.all_node_labels())
    before = reader.all_node_labels()
    kube.add_node("n2")
    kube.add_node("n2", rack="r1")
    wait_until(lambda: reader.all_node_labels() is not before)
    assert reader.all_node_labels()["n2"] == {"rack": "r1"}


def test_after_a_silence_labels_are_not_known(kube: KubeApi, tmp_path: pathlib.Path) -> None:
    seconds = 0.0
    with api_connection.connect(kube.kubeconfig(tmp_path)) as api:
        watching = NodeWatch(api, lambda: seconds)
        watching.start()
        try:
            wait_until(lambda: watching.labels == {"n1": {"zone": "a"}})
            seconds = 29.0
            assert watching.labels == {"n1": {"zone": "a"}}
            seconds = 31.0
            assert watching.labels is None
            # A sign of the server is enough, and a watch that ends without a change is one.
            kube.end_watches()
            wait_until(lambda: watching.labels == {"n1": {"zone": "a"}})
        finally:
            watching.stop()


def test_a_connection_that_says_nothing_is_replaced(
    kube: KubeApi, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonnage.extensions.kubernetes.cluster.object_watch.READ_TIMEOUT_SECONDS", 0.2)
    with api_connection.connect(kube.kubeconfig(tmp_path)) as api:
        watching = NodeWatch(api)
        watching.start()
        try:
            wait_until(lambda: watching.labels is not None)
            # The server keeps the connection, and the node goes without an event.
            del kube.nodes["n1"]
            wait_until(lambda: watching.labels == {})
        finally:
            watching.stop()


def test_labels_are_listed_while_nodes_cannot_be_watched(kube: KubeApi, reader: ClusterReader) -> None:
    kube.failing["GET"] = 403
    kube.end_watches(forget=True)
    wait_until(lambda: reader._node_watch is not None and reader._node_watch.labels is None)
    with pytest.raises(ClusterUnavailable):
        reader.all_node_labels()
    del kube.failing["GET"]
    assert reader.all_node_labels() == {"n1": {"zone": "a"}}
