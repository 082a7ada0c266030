# SPDX-License-Identifier: Apache-2.0
"""Victims of a preemption, in both forms of the call, and the nodes that remain."""

import json
from typing import Any

import pytest

from tests.servers.base import wait_for
from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.fit.figures import DRIVER, LEASE, claims_of
from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.fit import preemption
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

    def evict_for(self, pod: str, claim: str) -> list[str]:
        """Return the nodes from which pods may be evicted for a pod."""
        sent = {"n1": {"Pods": [{"UID": "victim"}], "NumPDBViolations": 0}}
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
    assert scheduler.fits("redis", "a")
    assert scheduler.nominations.claim() == 0


def test_a_pod_without_a_node_holds_nothing_and_is_forgotten(
    kube: KubeApi, scheduler: Scheduler, written: database.Database
) -> None:
    assert scheduler.evict_for("redis", "a") == ["n1"]
    assert scheduler.nominations.claim() == 0
    scheduler.seconds = 11.0
    looks = len(kube.asked)
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    assert scheduler.nominations.claim() == 0
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
    assert scheduler.nominations.claim() == 0
    looks = len(kube.asked)
    assert scheduler.nominations.claim() == 0
    assert (held(written), len(kube.asked)) == ([], looks)


def test_room_that_has_gone_meanwhile_is_not_claimed(
    kube: KubeApi, scheduler: Scheduler, written: database.Database
) -> None:
    assert scheduler.evict_for("redis", "a") == ["n1"]
    assert scheduler.fits("other", "b")
    kube.add_pod("redis", "uid of redis", claims=["a"], nominated="n1")
    assert scheduler.nominations.claim() == 0
    assert (held(written), held(written, "other")) == ([], ["n1"])


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
