# SPDX-License-Identifier: Apache-2.0
"""Claims whose leases ended while no extender ran, and volumes that are created meanwhile."""

import pathlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest

from tests.servers.kube_api import PODS, KubeApi
from tests.unit.extensions.kubernetes.fit.figures import claim_for_pod, claims_of, write
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.claim_revival import ClaimRevival
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database

LEASE = 60.0

pytestmark = pytest.mark.usefixtures("written")


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    """A cluster with a pod, whose claim has no volume yet."""
    with KubeApi() as api:
        api.add_node("n1")
        api.add_class("fast", "disk.example.com")
        api.add_claim("data", "6Gi", "fast")
        api.add_pod("redis", "u1", claims=["data"])
        yield api


@pytest.fixture
def cluster(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[ClusterReader]:
    reader = ClusterReader(kube.kubeconfig(tmp_path), timeout=60.0)
    yield reader
    reader.api.close()


@pytest.fixture
def revival(ledger: database.Database, cluster: ClusterReader) -> ClaimRevival:
    return ClaimRevival(ledger, NodeQueries(ledger), cluster, LEASE)


def end_leases(ledger: database.Database) -> None:
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE csi_claims SET expires_at = '2020-01-01 00:00:00.000000'")


def drop_claims(ledger: database.Database) -> None:
    ledger.run(capacity_claims.release, "u1")


@pytest.mark.parametrize("lose", [end_leases, drop_claims])
def test_the_claim_of_a_volume_that_is_being_created_is_revived(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival, lose: Callable[[database.Database], None]
) -> None:
    claim_for_pod(ledger, "data")
    kube.add_claim("data", "6Gi", "fast", node="n1")
    lose(ledger)
    assert claims_of(ledger) == []
    revival.ensure()
    [claim] = claims_of(ledger)
    assert (claim.volume, claim.node, claim.pool, claim.size) == ("data", "n1", "p", 6 * 2**30)


def test_a_pod_that_an_api_server_has_not_seen_yet_gets_its_claim_again(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival
) -> None:
    kube.add_claim("data", "6Gi", "fast", node="n1")
    kube.uncached_pods = {"redis"}
    revival.ensure()
    assert [claim.volume for claim in claims_of(ledger)] == ["data"]


def test_a_claim_is_revived_although_its_room_is_gone(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival
) -> None:
    claim_for_pod(ledger, "data")
    kube.add_claim("data", "6Gi", "fast", node="n1")
    end_leases(ledger)
    write(ledger, "1Gi")
    revival.ensure()
    assert [claim.volume for claim in claims_of(ledger)] == ["data"]


def test_a_volume_that_has_been_made_meanwhile_is_claimed_until_figures_have_it(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival
) -> None:
    claim_for_pod(ledger, "data")
    kube.add_claim("data", "6Gi", "fast", node="n1", bound=True)
    end_leases(ledger)
    revival.ensure()
    assert [claim.volume for claim in claims_of(ledger)] == ["data"]


def test_claims_that_nobody_needs_stay_ended(ledger: database.Database, kube: KubeApi, revival: ClaimRevival) -> None:
    # Its creation has not begun: kube-scheduler asks again.
    claim_for_pod(ledger, "data")
    end_leases(ledger)
    revival.ensure()
    assert claims_of(ledger) == []


def test_the_claim_of_a_pod_that_is_gone_stays_ended(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival
) -> None:
    claim_for_pod(ledger, "data")
    kube.add_claim("data", "6Gi", "fast", node="n1")
    kube.remove_pod("redis")
    end_leases(ledger)
    revival.ensure()
    assert claims_of(ledger) == []


def test_nothing_is_decided_before_the_cluster_has_answered(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival
) -> None:
    claim_for_pod(ledger, "data")
    kube.add_claim("data", "6Gi", "fast", node="n1")
    end_leases(ledger)
    kube.failing["GET"] = 503
    with pytest.raises(errors.Unavailable):
        revival.ensure()
    del kube.failing["GET"]
    revival.ensure()
    assert len(claims_of(ledger)) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_callers_share_one_look_at_the_cluster(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival, fails: bool
) -> None:
    answers, is_asked = threading.Event(), threading.Event()

    def wait(path: str) -> None:
        if path == PODS:
            is_asked.set()
            assert answers.wait(30)

    kube.before_read = wait
    with futures.ThreadPoolExecutor(3) as threads:
        try:
            first = threads.submit(revival.ensure)
            assert is_asked.wait(30)
            others = [threads.submit(revival.ensure) for _ in range(2)]
            # A round of the release does not wait for the look.
            revival.kept()
            assert not any(other.done() for other in (first, *others))
            if fails:
                kube.failing["GET"] = 503
        finally:
            answers.set()
        outcomes = [type(caller.exception(30)) for caller in (first, *others)]
    assert outcomes == [ClusterUnavailable if fails else type(None)] * 3
    assert kube.asked.count(PODS) == 1


def test_a_look_that_takes_long_leaves_the_other_callers_undecided(
    ledger: database.Database, kube: KubeApi, revival: ClaimRevival, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonnage.extensions.kubernetes.fit.claim_revival._WAIT_SECONDS", 0.1)
    answers, is_asked = threading.Event(), threading.Event()
    kube.before_read = lambda path: (is_asked.set(), answers.wait(30)) if path == PODS else None
    with futures.ThreadPoolExecutor(1) as threads:
        first = threads.submit(revival.ensure)
        assert is_asked.wait(30)
        try:
            with pytest.raises(ClusterUnavailable, match="still being read"):
                revival.ensure()
        finally:
            answers.set()
        first.result(30)
    revival.ensure()


def test_claims_are_revived_at_the_start_and_after_a_pause(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    now = 1000.0
    revival = ClaimRevival(ledger, NodeQueries(ledger), cluster, LEASE, lambda: now)

    def looks() -> int:
        before = len(kube.asked)
        revival.ensure()
        return len(kube.asked) - before

    # A round of the release says nothing of the time before the start.
    revival.kept()
    assert looks() > 0
    now += LEASE / 2 - 1
    assert looks() == 0
    revival.kept()
    now += LEASE / 2 - 1
    assert looks() == 0
    now += LEASE
    # Leases may have ended before this round.
    revival.kept()
    assert looks() > 0
