# SPDX-License-Identifier: Apache-2.0
"""The watch on ``CSIStorageCapacity`` objects."""

import threading
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.servers.base import wait_for
from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.provisioner.published_objects import HOSTPATH, TOPOLVM
from tonnage.extensions.kubernetes.provisioner.capacity_watch import CapacityWatch


class Watch:
    """A watch, the number of its notifications, and a clock."""

    def __init__(self, api: client.ApiClient) -> None:
        self.changed, self.seconds = threading.Semaphore(0), 0.0
        self.watch = CapacityWatch(api, self.changed.release, lambda: self.seconds)

    def names(self) -> list[str] | None:
        objects = self.watch.objects()
        return None if objects is None else sorted(capacity.metadata.name for capacity in objects[1])


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as kube:
        yield kube


@pytest.fixture
def watch(kube: KubeApi) -> Iterator[Watch]:
    settings = client.Configuration(host=kube.url)
    settings.retries = False
    with client.ApiClient(settings) as api:
        watch = Watch(api)
        yield watch
        kube.end_watches()
        watch.watch.stop()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_objects_of_all_namespaces_are_listed_and_watched(kube: KubeApi, watch: Watch, version: str) -> None:
    kube.version = version
    kube.add_capacity(HOSTPATH.body("n1", "1Gi", name="a"))
    assert watch.names() is None, "nothing is known before the first list"
    watch.watch.start()
    wait_for(lambda: watch.names() == ["a"], "the list")
    kube.add_capacity(TOPOLVM.body("n1", "1Gi", name="b"))
    wait_for(lambda: watch.names() == ["a", "b"], "the new object")
    kube.add_capacity(HOSTPATH.body("n1", "512Mi", name="a"))
    wait_for(lambda: {entry.capacity for entry in (watch.watch.objects() or (0, []))[1]} == {2**29, 2**30}, "a change")
    kube.remove_capacity("b")
    wait_for(lambda: watch.names() == ["a"], "the deletion")
    versions = [int(body["metadata"]["resourceVersion"]) for body in kube.capacities.values()]
    assert (watch.watch.objects() or (0, []))[0] > max(versions)
    assert watch.changed.acquire(timeout=10)


def test_the_objects_of_our_own_publisher_are_left_out(kube: KubeApi, watch: Watch) -> None:
    own = HOSTPATH.body("n1", "1Gi", name="own")
    own["metadata"]["labels"]["csi.storage.k8s.io/managed-by"] = "tonnage"
    kube.add_capacity(own)
    watch.watch.start()
    wait_for(lambda: watch.names() == [], "the list")
    kube.add_capacity(own)
    kube.add_capacity(HOSTPATH.body("n1", "1Gi", name="a"))
    wait_for(lambda: watch.names() == ["a"], "the later object")


def test_forgotten_events_lead_to_another_list(kube: KubeApi, watch: Watch) -> None:
    kube.add_capacity(HOSTPATH.body("n1", "1Gi", name="a"))
    watch.watch.start()
    wait_for(lambda: watch.names() == ["a"], "the list")
    kube.capacities.clear()
    kube.end_watches(forget=True)
    wait_for(lambda: watch.names() == [], "the second list")


def test_after_a_silence_the_objects_are_not_known(
    kube: KubeApi, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    watch.watch.start()
    wait_for(lambda: watch.names() == [], "the list")
    watch.seconds = 29
    assert watch.names() == []
    watch.seconds = 31
    assert watch.names() is None
    kube.add_capacity(HOSTPATH.body("n1", "1Gi", name="a"))
    wait_for(lambda: watch.names() == ["a"], "the object")
    malformed = HOSTPATH.body("n1", "ten", name="bad")
    kube.add_capacity(malformed)
    wait_for(lambda: "A CSIStorageCapacity object is left out" in caplog.text, "the message")
