# SPDX-License-Identifier: Apache-2.0
"""A watch on objects of any kind: lists, changes and interruptions."""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kubernetes import client

from tests.servers.kube_api import KubeApi
from tests.unit.api.cluster import wait_until
from tonnage.extensions.kubernetes.cluster import api_connection
from tonnage.extensions.kubernetes.cluster.object_watch import ObjectWatch


class Recorder(ObjectWatch):
    """A watch that records the objects that it takes."""

    thread_name = "recorder"
    failure = "Nothing can be recorded"

    def __init__(self, api: client.ApiClient) -> None:
        super().__init__(client.CoreV1Api(api).list_node)
        self.taken: list[str] = []

    def _take_list(self, raw: bytes) -> str:
        listed = json.loads(raw)
        self.taken.append(f"{len(listed['items'])} listed")
        version: str = listed["metadata"]["resourceVersion"]
        return version

    def _take_change(self, kind: str, changed: Mapping[str, Any]) -> None:
        self.taken.append(f"{kind} {changed['metadata']['name']}")

    def _interrupted(self) -> None:
        self.taken.append("interrupted")


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        api.add_node("n1")
        yield api


@pytest.fixture
def recorder(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[Recorder]:
    with api_connection.connect(kube.kubeconfig(tmp_path)) as api:
        watching = Recorder(api)
        watching.start()
        yield watching
        watching.stop()


def test_changes_come_after_the_list_and_bookmarks_are_none(kube: KubeApi, recorder: Recorder) -> None:
    wait_until(lambda: recorder.taken == ["1 listed"])
    kube.add_node("n2")
    kube.remove_node("n1")
    wait_until(lambda: recorder.taken == ["1 listed", "ADDED n2", "DELETED n1"])


def test_an_interruption_is_told_and_logged(
    kube: KubeApi, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    wait_until(lambda: recorder.taken == ["1 listed"])
    kube.failing["GET"] = 503
    kube.end_watches(forget=True)
    wait_until(lambda: "interrupted" in recorder.taken)
    del kube.failing["GET"]
    wait_until(lambda: recorder.taken[-1] == "1 listed")
    assert caplog.text.count("Nothing can be recorded") == 1
