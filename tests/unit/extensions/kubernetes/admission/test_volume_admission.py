# SPDX-License-Identifier: Apache-2.0
"""Admission of the nodes that a kube-scheduler without the extender has chosen for volumes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.servers.kube_api import CLAIMS, PENDING_PODS, KubeApi
from tests.unit.extensions.kubernetes.fit.figures import DRIVER, GI, claim_for_pod, claims_of
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.admission.volume_admission import VolumeAdmission
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.fit import extender_instruments
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database

pytestmark = pytest.mark.usefixtures("written")

LEASE = 600.0


@pytest.fixture
def kube(kube: KubeApi) -> KubeApi:
    """A cluster with a pod that has two claims of 6 Gi, and n1 has 10 Gi."""
    kube.add_class("fast", DRIVER)
    for name in ("a", "b"):
        kube.add_claim(name, "6Gi", "fast")
    kube.add_pod("redis", "u1", claims=["a", "b"])
    return kube


class Calls:
    """The admission, and the calls of the API server for changes of claims."""

    def __init__(self, ledger: database.Database, kube: KubeApi, cluster: ClusterReader) -> None:
        self._kube, self.revivals = kube, 0
        self.admission = VolumeAdmission(NodeQueries(ledger), cluster, LEASE, self._revive)

    def _revive(self) -> None:
        self.revivals += 1

    def select(self, claim: str, node: str | None = "n1", **request: Any) -> Mapping[str, Any]:
        """Return the response to the change of a claim by which a node is selected."""
        old = self._kube._objects[CLAIMS.format("default", claim)]
        notes = {} if node is None else {"annotations": {"volume.kubernetes.io/selected-node": node}}
        new = {**old, "metadata": {**old["metadata"], **notes}}
        body = {"uid": "r1", "operation": "UPDATE", "object": new, "oldObject": old, "dryRun": False, **request}
        raw = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body})
        answer = self.admission.review(raw.encode())
        assert (answer.api_version, answer.kind, answer.response.uid) == (
            "admission.k8s.io/v1",
            "AdmissionReview",
            "r1",
        )
        status = answer.response.status
        return {"allowed": answer.response.allowed, "message": None if status is None else status.message}


@pytest.fixture
def calls(written: database.Database, kube: KubeApi, cluster: ClusterReader) -> Calls:
    return Calls(written, kube, cluster)


ALLOWED = {"allowed": True, "message": None}


def test_a_pod_whose_volumes_do_not_fit_together_gets_none(calls: Calls, written: database.Database) -> None:
    """The first volume alone fits. It would keep the pod on a node without room for the second one."""
    answer = calls.select("a")
    assert not answer["allowed"]
    assert answer["message"] == (
        "node n1 does not take the volumes of pod default/redis: volumes 'a' 6Gi + 'b' 6Gi, together 12Gi, do not fit: "
        "pool p has 10Gi left"
    )
    assert claims_of(written) == []


def test_the_first_change_claims_for_all_volumes(calls: Calls, kube: KubeApi, written: database.Database) -> None:
    kube.add_claim("b", "4Gi", "fast")
    assert calls.select("a") == ALLOWED
    assert [(claim.volume, claim.node, claim.size) for claim in claims_of(written)] == [
        ("a", "n1", 6 * GI),
        ("b", "n1", 4 * GI),
    ]
    assert calls.revivals == 1
    before = claims_of(written)
    assert calls.select("b") == ALLOWED
    assert claims_of(written) == before


def test_room_that_is_claimed_for_another_pod_is_not_there(
    calls: Calls, kube: KubeApi, written: database.Database
) -> None:
    kube.add_pod("redis", "u1", claims=["a"])
    claim_for_pod(written, "other", holder="u2")
    assert not calls.select("a")["allowed"]


def test_the_claim_of_the_extender_is_enough(calls: Calls, kube: KubeApi, written: database.Database) -> None:
    """Its pod may be placed although figures have become smaller meanwhile."""
    claim_for_pod(written, "a")
    assert calls.select("a") == ALLOWED
    assert not calls.select("a", "n2")["allowed"]


def test_a_change_of_node_replaces_the_claims(calls: Calls, kube: KubeApi, written: database.Database) -> None:
    kube.add_class("shared", DRIVER)
    kube.add_claim("a", "6Gi", "shared")
    kube.add_pod("redis", "u1", claims=["a"])
    assert calls.select("a") == ALLOWED
    assert calls.select("a", "n2") == ALLOWED
    assert [claim.node for claim in claims_of(written)] == ["n2"]


def admissions() -> float:
    """Return the number of decisions in the metrics."""
    [metric] = extender_instruments.ADMISSIONS.collect()
    return sum(sample.value for sample in metric.samples if sample.name.endswith("_total"))


def test_a_trial_claims_nothing(calls: Calls, kube: KubeApi, written: database.Database) -> None:
    before = admissions()
    assert not calls.select("a", dryRun=True)["allowed"]
    kube.add_pod("redis", "u1", claims=["a"])
    assert calls.select("a", dryRun=True) == ALLOWED
    assert claims_of(written) == []
    # A revival writes claims too.
    assert (calls.revivals, admissions()) == (0, before)
    assert calls.select("a") == ALLOWED
    assert (calls.revivals, admissions()) == (1, before + 1)


@pytest.mark.parametrize("reviewed", ["a", "b"])
def test_a_claim_stays_on_the_node_that_a_volume_is_being_made_for(
    calls: Calls, kube: KubeApi, written: database.Database, reviewed: str
) -> None:
    """The call shows no selected node, as a forged one may. What the API server has stored counts."""
    for name in ("a", "b"):
        kube.add_claim(name, "4Gi", "shared")
    kube.add_class("shared", DRIVER)
    assert calls.select("a") == ALLOWED
    before = claims_of(written)
    assert [claim.node for claim in before] == ["n1", "n1"]
    kube.add_claim("a", "4Gi", "shared", node="n1")
    old = {"metadata": {"name": reviewed}, "spec": {}}
    answer = calls.select(reviewed, "n2", oldObject=old)
    assert answer == {
        "allowed": False,
        "message": "node n2 does not take the volumes of pod default/redis: volume 'a' is being made for node n1",
    }
    assert claims_of(written) == before
    assert calls.select("b") == ALLOWED


def test_a_call_without_the_claim_as_it_is_is_refused(calls: Calls, written: database.Database) -> None:
    with pytest.raises(errors.InvalidInput, match=r"request\.oldObject is missing"):
        calls.select("a", oldObject=None)
    assert claims_of(written) == []


@pytest.mark.parametrize("change", ["no node", "the same node", "bound", "deleted"])
def test_other_changes_are_allowed(calls: Calls, kube: KubeApi, written: database.Database, change: str) -> None:
    if change == "no node":
        answer = calls.select("a", None)
    elif change == "the same node":
        kube.add_claim("a", "6Gi", "fast", node="n1")
        answer = calls.select("a")
    elif change == "bound":
        kube.add_claim("a", "6Gi", "fast", bound=True)
        answer = calls.select("a")
    else:
        answer = calls.select("a", object=None)
    assert answer == ALLOWED
    assert claims_of(written) == []
    assert PENDING_PODS not in kube.asked


def test_a_claim_without_a_waiting_pod_is_allowed(
    calls: Calls, kube: KubeApi, written: database.Database, caplog: pytest.LogCaptureFixture
) -> None:
    kube.remove_pod("redis")
    with caplog.at_level("INFO"):
        assert calls.select("a") == ALLOWED
    assert "Claim default/a: no pod waits for it" in caplog.text
    assert claims_of(written) == []


def test_a_pod_that_an_api_server_has_not_seen_yet_gets_its_claims(
    calls: Calls, kube: KubeApi, written: database.Database
) -> None:
    """Of several API servers the one that answers may lag behind the one that kube-scheduler watches."""
    kube.uncached_pods = {"redis"}
    assert not calls.select("a")["allowed"]
    kube.add_claim("b", "4Gi", "fast")
    assert calls.select("a") == ALLOWED
    assert [claim.volume for claim in claims_of(written)] == ["a", "b"]


def test_a_pod_that_an_api_server_has_seen_is_listed_once(calls: Calls, kube: KubeApi) -> None:
    """A list that is not from the cache is expensive."""
    calls.select("a")
    assert kube.asked.count(PENDING_PODS) == 1


def test_a_look_that_fails_is_no_decision(calls: Calls, kube: KubeApi) -> None:
    kube.failing["GET"] = 503
    with pytest.raises(errors.Unavailable):
        calls.select("a")
    del kube.failing["GET"]
    kube.remove_claim("b")
    with pytest.raises(errors.NotFound, match="claim default/b is not there"):
        calls.admission.review(
            json.dumps(
                {
                    "apiVersion": "admission.k8s.io/v1",
                    "request": {
                        "uid": "r1",
                        "oldObject": {"metadata": {"name": "a"}, "spec": {}},
                        "object": {
                            "metadata": {"name": "a", "annotations": {"volume.kubernetes.io/selected-node": "n1"}},
                            "spec": {},
                        },
                    },
                }
            ).encode()
        )


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"apiVersion": "v1"}', b'{"apiVersion": "v1", "request": {}}'])
def test_a_malformed_call_is_refused(calls: Calls, raw: bytes) -> None:
    with pytest.raises(errors.InvalidInput):
        calls.admission.review(raw)


def test_volumes_that_cannot_be_checked_are_allowed(calls: Calls, kube: KubeApi, written: database.Database) -> None:
    kube.add_class("other", "other.example.com")
    kube.add_claim("a", "600Gi", "other")
    kube.add_pod("redis", "u1", claims=["a"])
    assert calls.select("a") == ALLOWED
    assert claims_of(written) == []
