# SPDX-License-Identifier: Apache-2.0
"""The watch on the pending pods of a cluster."""

import pathlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.servers.kube_api import KubeApi
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.pod_watch import PodWatch


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        for name in ("n1", "n2"):
            api.add_node(name)
        yield api


@pytest.fixture
def cluster(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[ClusterReader]:
    reader = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0, cache_time=3600.0)
    yield reader
    reader.api.close()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.01)


class NotificationLog:
    """The notifications of a watch."""

    def __init__(self) -> None:
        self.pods: list[str | None] = []
        self._news = threading.Condition()

    def notify(self, pod: str | None) -> None:
        with self._news:
            self.pods.append(pod)
            self._news.notify_all()

    def expect(self, *pods: str | None) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.pods) >= len(pods), 60), self.pods
        assert self.pods == list(pods)


def test_a_watch_resumes_and_lists_again_when_its_resource_version_is_too_old(
    kube: KubeApi, cluster: ClusterReader
) -> None:
    notifications = NotificationLog()
    watch = PodWatch(cluster.api, notifications.notify)
    watch.start()
    try:
        notifications.expect(None)
        kube.add_pod("redis", "u1")
        kube.add_pod("redis", "u1", "Running", "n1")
        # This pod has left the watch.
        kube.add_pod("redis", "u1", "Succeeded", "n1")
        notifications.expect(None, *["default/redis"] * 2)
        kube.end_watches()
        until(lambda: len(kube.watched) == 2)
        # The watch resumes at the last event, so no event is repeated.
        assert kube.watched[1] > kube.watched[0]
        kube.add_pod("other", "u2")
        notifications.expect(None, *["default/redis"] * 2, "default/other")
        kube.end_watches(forget=True)
        notifications.expect(None, *["default/redis"] * 2, "default/other", None)
        until(lambda: len(kube.watched) == 4)
    finally:
        watch.stop()


def test_a_failed_watch_is_retried_and_logged_once(
    kube: KubeApi, cluster: ClusterReader, caplog: pytest.LogCaptureFixture
) -> None:
    notifications = NotificationLog()
    kube.failing["GET"] = 403
    watch = PodWatch(cluster.api, notifications.notify)
    watch.start()
    try:
        until(lambda: kube.asked.count("/api/v1/pods") > 1)
        del kube.failing["GET"]
        notifications.expect(None)
    finally:
        watch.stop()
    assert caplog.text.count("Pods cannot be watched") == 1
