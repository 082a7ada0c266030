# SPDX-License-Identifier: Apache-2.0
"""The background tasks for the claims of pods."""

import time
from collections.abc import Callable

import pytest

from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.fit.figures import LEASE, claim_for_pod, claims_of
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.wake_claim import WakeClaim
from tonnage.extensions.kubernetes.fit.pod_claim_tasks import PodClaimTasks
from tonnage.ledger.db import database

pytestmark = pytest.mark.usefixtures("written")


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.01)


def test_the_watch_triggers_the_release_of_a_deleted_pods_claim(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    tasks = PodClaimTasks(ledger, cluster, LEASE)
    tasks.start()
    try:
        until(lambda: "/api/v1/namespaces/default/pods/redis" in kube.asked and bool(kube.watched))
        assert len(claims_of(ledger)) == 1
        kube.remove_pod("redis")
        until(lambda: not claims_of(ledger))
    finally:
        tasks.stop()
        # A second call has no effect.
        tasks.stop()


def test_waiting_pods_are_woken_when_a_claim_is_released(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, caplog: pytest.LogCaptureFixture
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    tasks = PodClaimTasks(ledger, cluster, LEASE, wake_claim=WakeClaim(cluster.api, "default/wake"))
    tasks.start()
    try:
        until(lambda: caplog.text.count("Pods that wait for room are tried late: claim default/wake") == 1)
        kube.add_claim("wake", "1", "none")
        assert kube.written == []
        kube.remove_pod("redis")
        until(lambda: kube.written == [("PATCH", "wake")])
        assert not claims_of(ledger)
    finally:
        tasks.stop()


def test_a_wake_that_failed_is_tried_again(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = PodClaimTasks(ledger, cluster, LEASE, wake_claim=WakeClaim(cluster.api, "default/wake"))
    tasks.start()
    try:
        until(lambda: "Pods that wait for room are tried late: claim default/wake" in caplog.text)
        assert kube.written == []
        kube.add_claim("wake", "1", "none")
        until(lambda: kube.written == [("PATCH", "wake")], 20.0)
    finally:
        tasks.stop()
