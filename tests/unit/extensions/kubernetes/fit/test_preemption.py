# SPDX-License-Identifier: Apache-2.0
"""Victims of a preemption, in both forms of the call, and the nodes that remain."""

import json
import threading
from concurrent import futures
from typing import Any

import pytest

from tests.servers.base import wait_for
from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.fit.figures import DRIVER, GI, LEASE, claims_of, patch, published_claims
from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims, preemption
from tonnage.extensions.kubernetes.fit.claim_release import ClaimReleaser
from tonnage.extensions.kubernetes.fit.claim_revival import ClaimRevival
from tonnage.extensions.kubernetes.fit.extender_protocol import Extender
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.fit.pod_claim_tasks import PodClaimTasks
from tonnage.extensions.kubernetes.fit.preemption import MetaPod, MetaVictims, Nominations, PreemptionArguments
from tonnage.ledger.db import database


def victims(**body: Any) -> dict[str, MetaVictims]:
    raw = json.dumps({"Pod": {"metadata": {"name": "redis"}}, **body}).encode()
    return objects.decode(raw, PreemptionArguments).victims()


def test_both_forms_of_the_call_have_the_same_victims() -> None:
    uids = {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}
    pods = {"Pods": [{"metadata": {"name": uid, "uid": uid}} for uid in "ab"], "NumPDBViolations": 1}
    expected = {"n1": MetaVictims([MetaPod("a"), MetaPod("b")], 1)}
    assert victims(NodeNameToMetaVictims={"n1": uids}, NodeNameToVictims=None) == expected
    assert victims(NodeNameToMetaVictims=None, NodeNameToVictims={"n1": pods}) == expected


@pytest.mark.parametrize("empty", [None, {"Pods": None, "NumPDBViolations": 0}, {"Pods": []}])
@pytest.mark.parametrize("form", ["NodeNameToMetaVictims", "NodeNameToVictims"])
def test_a_node_may_have_no_victims(form: str, empty: Any) -> None:
    [of_node] = victims(**{form: {"n1": empty}}).values()
    assert not of_node.pods


def test_a_call_without_nodes_has_no_victims() -> None:
    assert victims() == victims(NodeNameToVictims={}) == {}


def of(*uids: str) -> MetaVictims:
    return MetaVictims([MetaPod(uid) for uid in uids])


@pytest.mark.parametrize(
    ("sent", "fitting", "remaining"),
    [
        ({"n1": of("a"), "n2": of("b", "c")}, {"n1", "n2"}, {"n1", "n2"}),
        ({"n1": of("a"), "n2": of("b", "c")}, {"n2"}, {"n2"}),
        ({"n1": of("a"), "n2": of("b", "c")}, set(), set()),
        # Nobody has to go from a node that the extender refused, and its volumes would not fit.
        ({"n1": of("a"), "n2": of()}, {"n1"}, {"n1"}),
        ({"n1": of(), "n2": of()}, set(), set()),
        # Room has come: the pod needs no eviction anywhere.
        ({"n1": of("a"), "n2": of()}, {"n1", "n2"}, set()),
        ({"n1": of(), "n2": of()}, {"n1", "n2"}, set()),
    ],
)
def test_only_nodes_that_take_the_volumes_and_have_victims_remain(
    sent: dict[str, MetaVictims], fitting: set[str], remaining: set[str]
) -> None:
    kept = preemption.remaining(sent, {name: name in fitting for name in sent})
    assert kept == {name: sent[name] for name in remaining}


@pytest.fixture
def kube(kube: KubeApi) -> KubeApi:
    """A cluster with two pods, whose claims of 6 Gi need n1 with 10 Gi."""
    kube.add_class("fast", DRIVER)
    for pod, claim in (("redis", "a"), ("other", "b")):
        kube.add_claim(claim, "6Gi", "fast")
        kube.add_pod(pod, f"uid of {pod}", claims=[claim])
    return kube


class Scheduler:
    """The calls of a kube-scheduler to an extender with reservations, whose nominations have a clock."""

    def __init__(self, ledger: database.Database, cluster: ClusterReader) -> None:
        self.seconds = 0.0
        queries = NodeQueries(ledger)
        self.nominations = Nominations(queries, cluster, LEASE, lambda: self.seconds)
        self._extender = Extender(queries, cluster, LEASE, None, self.nominations)

    def evict_for(self, pod: str, claim: str, *nodes: str) -> list[str]:
        """Return the nodes from which pods may be evicted for a pod."""
        sent = {node: {"Pods": [{"UID": "victim"}], "NumPDBViolations": 0} for node in nodes or ("n1",)}
        answer = self._extender.preempt(self._call(pod, claim, NodeNameToMetaVictims=sent))
        return list(answer.node_name_to_meta_victims)

    def fits(self, pod: str, claim: str) -> bool:
        return self._extender.filter(self._call(pod, claim, NodeNames=["n1"])).node_names == ["n1"]

    @staticmethod
    def _call(pod: str, claim: str, **nodes: Any) -> bytes:
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}}]
        metadata = {"name": pod, "namespace": "default", "uid": f"uid of {pod}"}
        return json.dumps({"Pod": {"metadata": metadata, "spec": {"volumes": volumes}}, **nodes}).encode()


@pytest.fixture
def scheduler(written: database.Database, cluster: ClusterReader) -> Scheduler:
    return Scheduler(written, cluster)


def held(ledger: database.Database, pod: str = "redis") -> list[str]:
    return [claim.node for claim in claims_of(ledger, f"uid of {pod}")]


def test_no_other_pod_takes_the_storage_before_the_next_turn(
    kube: KubeApi, scheduler: Scheduler, written: database.Database
) -> None:
    assert scheduler.evict_for("redis", "a") == ["n1"]
    # kube-scheduler writes the node into the pod before it turns to another one.
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    assert not scheduler.fits("other", "b")
    assert held(written) == ["n1"]
    # kube-scheduler sees the room for it, and nobody else gets it, until it has got its node.
    assert published_claims(written) == 0
    assert scheduler.fits("redis", "a")
    assert published_claims(written) == 6
    assert scheduler.nominations.claim(9) == 0


def test_a_pod_without_a_node_holds_nothing_and_is_forgotten(
    kube: KubeApi, scheduler: Scheduler, written: database.Database
) -> None:
    assert scheduler.evict_for("redis", "a") == ["n1"]
    assert scheduler.nominations.claim(9) == 0
    scheduler.seconds = 11.0
    looks = len(kube.asked)
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    assert scheduler.nominations.claim(9) == 0
    assert (held(written), len(kube.asked)) == ([], looks)


@pytest.mark.parametrize("change", ["deleted", "bound", "no claim"])
def test_a_pod_that_needs_nothing_any_more_is_forgotten(
    kube: KubeApi, scheduler: Scheduler, written: database.Database, change: str
) -> None:
    scheduler.evict_for("redis", "a")
    if change == "deleted":
        kube.remove_pod("redis")
    elif change == "bound":
        kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1", node="n1")
    else:
        kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
        kube.remove_claim("a")
    assert scheduler.nominations.claim(9) == 0
    looks = len(kube.asked)
    assert scheduler.nominations.claim(9) == 0
    assert (held(written), len(kube.asked)) == ([], looks)


def test_room_that_has_gone_meanwhile_is_not_claimed(
    kube: KubeApi, scheduler: Scheduler, written: database.Database
) -> None:
    assert scheduler.evict_for("redis", "a") == ["n1"]
    assert scheduler.fits("other", "b")
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    assert scheduler.nominations.claim(9) == 0
    assert (held(written), held(written, "other")) == ([], ["n1"])


@pytest.fixture
def placed(kube: KubeApi, written: database.Database) -> NodeQueries:
    """A pod for which others were evicted from n1, and which has been placed on n2 since; both have room for it."""
    patch(written, {"storage": [{"storageClassName": "fast", "pools": [{"name": "q", "capacity": "10Gi"}]}]})
    queries = NodeQueries(written)
    assert claim_on(queries, "n2", "redis", "a")
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    return queries


def claim_on(queries: NodeQueries, node: str, pod: str, claim: str) -> bool:
    volume, nodes = Volume(claim, DRIVER, "fast", 6 * GI), Nodes([Node(node, {})])
    return queries.claim([volume], nodes, f"uid of {pod}", LEASE, pod=f"default/{pod}")[1] is not None


@pytest.mark.parametrize("progress", ["claimed", "being made", "being made without a claim"])
def test_a_pod_that_has_been_placed_elsewhere_since_is_left_alone(
    kube: KubeApi, scheduler: Scheduler, placed: NodeQueries, written: database.Database, progress: str
) -> None:
    if progress != "claimed":
        kube.add_claim("a", "6Gi", "fast", node="n2")
    if progress == "being made without a claim":
        placed.release("uid of redis")
    scheduler.nominations.expect("default/redis")
    assert scheduler.nominations.claim(9) == 0
    assert held(written) == ([] if progress == "being made without a claim" else ["n2"])
    looks = len(kube.asked)
    assert scheduler.nominations.claim(9) == 0
    assert len(kube.asked) == looks


def test_a_volume_that_is_being_made_keeps_all_claims_of_its_pod(
    kube: KubeApi, scheduler: Scheduler, placed: NodeQueries, written: database.Database
) -> None:
    """kube-scheduler writes the node into one claim after the other."""
    kube.add_claim("a", "6Gi", "fast", node="n2")
    kube.add_claim("c", "1Gi", "fast")
    kube.add_pod("redis", "uid of redis", claims=["a", "c"], nominated="n1")
    scheduler.nominations.expect("default/redis")
    assert scheduler.nominations.claim(9) == 0
    assert held(written) == ["n2"]


def test_a_claim_that_is_made_during_the_look_is_kept(
    kube: KubeApi, scheduler: Scheduler, placed: NodeQueries, written: database.Database
) -> None:
    placed.release("uid of redis")
    scheduler.nominations.expect("default/redis")
    kube.before_read = lambda path: path.endswith("/persistentvolumeclaims/a") and claim_on(placed, "n2", "redis", "a")
    assert scheduler.nominations.claim(9) == 0
    assert held(written) == ["n2"]


def reads_of_pods(kube: KubeApi) -> list[str]:
    return [path.rpartition("/")[2] for path in kube.asked if "/pods/" in path]


def test_a_look_reads_few_pods_and_none_twice_in_a_second(kube: KubeApi, scheduler: Scheduler) -> None:
    for number in range(6):
        kube.add_pod(f"p{number}", f"uid of p{number}", claims=["a"])
        scheduler.nominations.expect(f"default/p{number}")
    for _ in range(3):
        scheduler.nominations.claim(4)
    # The pod that was expected last comes first.
    assert reads_of_pods(kube) == ["p5", "p4", "p3", "p2", "p1", "p0"]
    scheduler.seconds = 1.0
    scheduler.nominations.claim(4)
    assert len(reads_of_pods(kube)) == 10
    # A change of the pod is reported: it is not waited for.
    scheduler.nominations.expect("default/p0")
    scheduler.nominations.claim(1)
    assert reads_of_pods(kube)[-1] == "p0"


def test_a_decision_reads_few_pods(kube: KubeApi, scheduler: Scheduler) -> None:
    for number in range(50):
        scheduler.nominations.expect(f"default/p{number}")
    assert scheduler.fits("other", "b")
    assert len(reads_of_pods(kube)) == 4


def test_a_pod_that_cannot_be_read_does_not_concern_others(
    kube: KubeApi,
    scheduler: Scheduler,
    written: database.Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(kube._pods, "broken", {"metadata": {"name": 1}})
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    for pod in ("redis", "broken"):
        scheduler.nominations.expect(f"default/{pod}")
    assert not scheduler.fits("other", "b")
    assert reads_of_pods(kube) == ["broken", "redis"]
    assert held(written) == ["n1"]
    assert "Pod default/broken: its storage cannot be claimed for evictions now: " in caplog.text


def test_an_api_server_that_does_not_answer_is_not_tried_for_all_pods(kube: KubeApi, scheduler: Scheduler) -> None:
    for number in range(6):
        scheduler.nominations.expect(f"default/p{number}")
    kube.failing["GET"] = 503
    assert scheduler.nominations.claim(6) == 0
    assert len(reads_of_pods(kube)) == 2


def test_two_threads_do_not_read_the_same_pod(kube: KubeApi, scheduler: Scheduler, written: database.Database) -> None:
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    scheduler.nominations.expect("default/redis")
    answers, is_read = threading.Event(), threading.Event()
    kube.before_read = lambda path: (is_read.set(), answers.wait(30)) if "/pods/" in path else None
    with futures.ThreadPoolExecutor(2) as threads:
        try:
            first = threads.submit(scheduler.nominations.claim, 4)
            assert is_read.wait(30)
            second = threads.submit(scheduler.nominations.claim, 4)
            # The second one decides after the pod has its claim.
            assert futures.wait([second], 0.2).not_done
        finally:
            answers.set()
        assert (first.result(30), second.result(30)) == (1, 0)
    assert reads_of_pods(kube) == ["redis"]


def test_another_process_learns_of_it_by_its_watch(
    kube: KubeApi, scheduler: Scheduler, written: database.Database, cluster: ClusterReader
) -> None:
    tasks = PodClaimTasks(written, cluster, LEASE, nominations=scheduler.nominations)
    tasks.start()
    try:
        wait_for(lambda: bool(kube.watched), "the watch has begun")
        kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
        wait_for(lambda: held(written) == ["n1"], "the storage is claimed")
        kube.remove_pod("redis")
        wait_for(lambda: held(written) == [], "the claim is released")
    finally:
        tasks.stop()


def test_the_claim_is_revived_and_renewed_while_pods_are_evicted(
    kube: KubeApi, written: database.Database, cluster: ClusterReader
) -> None:
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    ClaimRevival(written, NodeQueries(written), cluster, 60.0).ensure()
    [claim] = claims_of(written, "uid of redis")
    releaser = ClaimReleaser(written, cluster, 600.0)
    assert releaser.run_once() == 0
    [renewed] = claims_of(written, "uid of redis")
    assert renewed.expires_at > claim.expires_at
    # Without that node the claim ends with its lease.
    kube.add_pod("redis", "uid of redis", claims=["a"])
    other = ClaimReleaser(written, cluster, 3600.0)
    assert other.run_once() == 0
    assert claims_of(written, "uid of redis") == [renewed]


def test_the_revival_leaves_a_pod_that_has_been_placed_elsewhere_alone(
    kube: KubeApi, placed: NodeQueries, written: database.Database, cluster: ClusterReader
) -> None:
    kube.add_claim("a", "6Gi", "fast", node="n2")
    kube.add_claim("c", "1Gi", "fast")
    kube.add_pod("redis", "uid of redis", claims=["a", "c"], nominated="n1")
    placed.release("uid of redis")
    ClaimRevival(written, placed, cluster, 60.0).ensure()
    assert held(written) == ["n2"]


def test_the_revival_tells_evictions_from_volumes_that_are_being_made(
    kube: KubeApi, written: database.Database, cluster: ClusterReader, caplog: pytest.LogCaptureFixture
) -> None:
    kube.add_claim("a", "60Gi", "fast")
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    with caplog.at_level("INFO"):
        ClaimRevival(written, NodeQueries(written), cluster, 60.0).ensure()
    assert caplog.messages == ["Pod default/redis: pods are evicted for it from n1, whose room has gone meanwhile"]


def test_nobody_is_evicted_elsewhere_while_kube_scheduler_counts_the_claim_of_the_pod_against_it(
    scheduler: Scheduler, written: database.Database, kube: KubeApi
) -> None:
    """Its binding has failed. The node of its claim has room for it, which published capacity does not show yet."""
    both = {"name": "s", "capacity": "10Gi", "nodeList": ["n1", "n2"]}
    patch(written, {"storage": [{"storageClassName": "fast", "pools": [both]}]})
    assert scheduler.fits("redis", "a")
    assert held(written) == ["n1"]
    assert scheduler.evict_for("redis", "a", "n2") == []
    assert scheduler.evict_for("redis", "a", "n1", "n2") == ["n1"]
    written.run(capacity_claims.set_published, "uid of redis", False)
    assert scheduler.evict_for("redis", "a", "n2") == ["n2"]
    assert scheduler.evict_for("redis", "a", "n1", "n2") == ["n1", "n2"]
