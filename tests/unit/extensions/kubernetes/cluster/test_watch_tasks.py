# SPDX-License-Identifier: Apache-2.0
"""Rounds of a background task after each change that a watch sees."""

import pathlib
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.servers.kube_api import KubeApi
from tests.unit.api.cluster import wait_until
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import api_connection
from tonnage.extensions.kubernetes.cluster.pod_watch import PodWatch
from tonnage.extensions.kubernetes.cluster.watch_tasks import WatchedRounds


class Rounds(WatchedRounds):
    """Rounds that are counted, and fail while there is an error."""

    thread_name, failure = "rounds", "Nothing can be done now"
    interval, debounce = 3600.0, 0.05

    def __init__(self, api: client.ApiClient) -> None:
        super().__init__()
        self._watch = PodWatch(api, lambda pod: self._wake())
        self.count, self.error, self.interrupted = 0, "", False

    def _round(self) -> None:
        self.count += 1
        if self.error:
            raise errors.Unavailable(self.error)

    def _interrupt(self) -> None:
        self.interrupted = True


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        yield api


@pytest.fixture
def rounds(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[Rounds]:
    with api_connection.connect(kube.kubeconfig(tmp_path)) as api:
        rounds = Rounds(api)
        yield rounds
        rounds.stop()


def test_a_change_leads_to_a_round(kube: KubeApi, rounds: Rounds) -> None:
    rounds.start()
    wait_until(lambda: bool(kube.watched) and rounds.count >= 1)
    before = rounds.count
    kube.add_pod("redis", "u1")
    wait_until(lambda: rounds.count > before)


def test_a_failure_is_logged_once_until_it_is_another_one(
    kube: KubeApi, rounds: Rounds, caplog: pytest.LogCaptureFixture
) -> None:
    rounds.error = "no answer"
    rounds.start()
    for number in range(3):
        before = rounds.count
        kube.add_pod(f"p{number}", f"u{number}")
        wait_until(lambda before=before: rounds.count > before)
    rounds.error = "refused"
    kube.add_pod("last", "u9")
    wait_until(lambda: "Nothing can be done now: refused" in caplog.text)
    assert caplog.text.count("Nothing can be done now: no answer") == 1


def test_only_started_rounds_are_interrupted(kube: KubeApi, rounds: Rounds) -> None:
    rounds.stop()
    assert not rounds.interrupted
    rounds.start()
    rounds.stop()
    rounds.stop()
    assert rounds.interrupted
