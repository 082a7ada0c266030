# SPDX-License-Identifier: Apache-2.0
"""Requests of kube-scheduler for pods without volumes, and requests that cannot be handled."""

import json
from typing import Any

import msgspec
import pytest

from tests.unit.extensions.kubernetes.cluster.test_pod_volumes import Cluster, of_claim
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.fit.extender_protocol import Extender


class Queries:
    """Queries on a ledger that is away."""

    def check(self) -> None:
        raise errors.Unavailable("password of the database")

    def decide(self, *arguments: Any) -> None:
        raise errors.Unavailable("password of the database")

    def nodes_of_published_claims(self, holder: str) -> set[str]:
        raise errors.Unavailable("password of the database")


@pytest.fixture
def extender() -> Extender:
    queries: Any = Queries()
    cluster = Cluster()
    cluster.add_claim("data")
    return Extender(queries, cluster, None)


def request(*volumes: dict[str, Any], **nodes: Any) -> bytes:
    pod = {"metadata": {"name": "redis"}, "spec": {"volumes": list(volumes)}}
    return json.dumps({"Pod": pod, **nodes}).encode()


def filtered(extender: Extender, raw: bytes) -> Any:
    return msgspec.to_builtins(json.loads(msgspec.json.encode(extender.filter(raw))))


def test_a_pod_without_volumes_fits_everywhere_and_all_keys_are_sent(extender: Extender) -> None:
    assert filtered(extender, request(NodeNames=["n2", "n1"])) == {
        "Nodes": None,
        "NodeNames": ["n2", "n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_whole_nodes_are_returned_unchanged(extender: Extender) -> None:
    node = {"metadata": {"name": "n1", "labels": None}, "status": {"phase": "x"}}
    assert filtered(extender, request(Nodes={"items": [node]}))["Nodes"] == {"items": [node]}


def test_an_error_of_the_ledger_is_not_shown_to_readers_of_events(extender: Extender) -> None:
    error = filtered(extender, request(of_claim("data"), NodeNames=["n1"]))["Error"]
    assert error == "Tonnage cannot look up its figures now: the log of tonnage-api has more"
    assert extender.problems() == ["the database of the ledger does not answer"]


def test_a_missing_claim_is_an_error_in_the_response(extender: Extender) -> None:
    response = filtered(extender, request(of_claim("gone"), NodeNames=["n1"]))
    assert (response["Error"], response["NodeNames"]) == ("claim default/gone is not there", None)


def test_nodes_have_no_score_after_an_error(extender: Extender) -> None:
    scores = extender.prioritize(request(of_claim("data"), NodeNames=["n1", "n2"]))
    assert [(row.host, row.score) for row in scores] == [("n1", 0), ("n2", 0)]


def test_evictions_for_a_pod_without_volumes_are_not_its_concern(extender: Extender) -> None:
    sent = {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}, "n2": {"Pods": [], "NumPDBViolations": 0}}
    assert extender.preempt(request(NodeNameToMetaVictims={"n1": sent["n1"]})).node_name_to_meta_victims.keys() == {
        "n1"
    }
    # Another extender has refused n2, from which nobody has to go.
    assert extender.preempt(request(NodeNameToMetaVictims=sent)).node_name_to_meta_victims == {}


def test_nothing_is_evicted_while_the_ledger_is_away(extender: Extender) -> None:
    sent = {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}
    with pytest.raises(errors.Unavailable):
        extender.preempt(request(of_claim("data"), NodeNameToMetaVictims=sent))


@pytest.mark.parametrize("raw", [b"", b"{}", request()])
def test_a_request_without_pod_or_nodes_is_refused(extender: Extender, raw: bytes) -> None:
    with pytest.raises(errors.InvalidInput):
        extender.filter(raw)


class ForbiddenQueries(Queries):
    """Queries that no test may reach."""

    def decide(self, *arguments: Any) -> None:
        raise AssertionError("decided before claims were revived")

    claim = decide


def test_nothing_is_decided_before_claims_have_been_revived() -> None:
    queries: Any = ForbiddenQueries()
    cluster = Cluster()
    cluster.add_claim("data")

    def revive() -> None:
        raise errors.Unavailable("claims are being looked up")

    extender = Extender(queries, cluster, 60.0, revive)
    assert filtered(extender, request(of_claim("data"), NodeNames=["n1"]))["Error"]
    with pytest.raises(errors.Unavailable, match="claims are being looked up"):
        extender.preempt(request(of_claim("data"), NodeNameToMetaVictims={"n1": {"Pods": [], "NumPDBViolations": 0}}))
