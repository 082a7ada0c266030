# SPDX-License-Identifier: Apache-2.0
"""Which nodes take volumes together, asked over RPC."""

import pytest

from tests.unit.extensions.kubernetes.fit.figures import DRIVER, GI, patch
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit.node_fit import NodeFit
from tonnage.extensions.kubernetes.fit.node_fit_messages import FitAnswer, FitQuery, NodePool, NodeRefusal, NodeVolume
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database
from tonnage.rpc import serialization


@pytest.fixture(autouse=True)
def two_pools(ledger: database.Database) -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    pools = [
        {"name": "one", "capacity": "10Gi", "nodeList": ["n1"]},
        {"name": "two", "capacity": "16Gi", "nodeTopology": {"nodeSelectorTerms": [zone]}},
    ]
    patch(ledger, {"storage": [{"storageClassName": "fast", "pools": pools}]})


def volumes(*sizes: int | None) -> list[NodeVolume]:
    return [
        NodeVolume(name=f"v{number}", driver=DRIVER, storage_class="fast", size=size)
        for number, size in enumerate(sizes)
    ]


def test_all_volumes_are_fitted_together_and_refusals_have_numbers(ledger: database.Database) -> None:
    query = FitQuery(volumes=volumes(6 * GI, 6 * GI), nodes={"n1": {}, "n2": {"zone": "b"}})
    answer = NodeFit(ledger).answer(query)
    pool = NodePool(
        driver=DRIVER,
        storage_class="fast",
        name="one",
        capacity=10 * GI,
        left=10 * GI,
        largest=10 * GI,
        expired=False,
    )
    words = "volumes 'v0' 6Gi + 'v1' 6Gi, together 12Gi, do not fit: pool one has 10Gi left"
    assert answer == FitAnswer(
        nodes={"n2": 0.25},
        refused={"n1": NodeRefusal(code="NotTogether", message=words, volumes=["v0", "v1"], exact=True, pools=[pool])},
    )
    assert serialization.unpack(serialization.pack(answer), FitAnswer) == answer


def test_what_was_not_checked_is_told(ledger: database.Database) -> None:
    asked = [*volumes(GI, None), NodeVolume(name="x", driver="misspelled.example.com", size=600 * GI)]
    answer = NodeFit(ledger).answer(FitQuery(volumes=asked, nodes={"n1": {}}))
    assert list(answer.nodes) == ["n1"]
    assert [(each.volume, each.code) for each in answer.unchecked] == [("v1", "NoSize"), ("x", "UnknownDriver")]
    assert serialization.unpack(serialization.pack(answer), FitAnswer) == answer


def test_what_is_claimed_counts_but_for_the_holder(ledger: database.Database) -> None:
    asked = volumes(10 * GI)
    held = [Volume("held", DRIVER, "fast", 6 * GI)]
    NodeQueries(ledger).claim(held, Nodes([Node("n1", {})]), "u1", 60)
    [why] = NodeFit(ledger).answer(FitQuery(volumes=asked, nodes={"n1": {}})).refused.values()
    assert why.message.endswith("pool one has 4Gi left of 10Gi")
    assert NodeFit(ledger).answer(FitQuery(volumes=asked, nodes={"n1": {}}, holder="u1")).nodes == {"n1": 0.0}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (volumes(1) * 2, "volume 'v0' is named twice"),
        (volumes(-1), "size = -1"),
        (volumes(2**63), "bytes"),
        (volumes(*[1] * 129), "at most 128"),
    ],
)
def test_what_cannot_be_meant_is_refused(ledger: database.Database, asked: list[NodeVolume], words: str) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        NodeFit(ledger).answer(FitQuery(volumes=asked, nodes={"n1": {}}))
