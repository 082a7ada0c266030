# SPDX-License-Identifier: Apache-2.0
"""The node-fit query on the bus."""

from typing import Any

import pytest

from tonnage.extensions.kubernetes.fit import node_fit_messages
from tonnage.extensions.kubernetes.fit.node_fit_messages import (
    FIT_NODES,
    FitAnswer,
    FitQuery,
    NodePool,
    NodeRefusal,
    NodeVolume,
    UncheckedVolume,
)
from tonnage.rpc import contract, serialization

POOL = NodePool(driver="d", storage_class="", name="p", capacity=2**62, left=None, largest=5, expired=False)
MESSAGES: list[Any] = [
    FitQuery(volumes=[NodeVolume(name="data", driver="d", size=2**62)], nodes={"n1": {"zone": "a"}}, holder="h"),
    FitQuery(volumes=[], nodes={}),
    FitAnswer(
        nodes={"n1": 0.25},
        refused={"n2": NodeRefusal(code="full", message="m", volumes=["data"], exact=True, pools=[POOL])},
        unchecked=[UncheckedVolume(volume="log", code="c", message="m")],
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: Any) -> None:
    assert serialization.unpack(serialization.pack(message), type(message)) == message


def test_a_message_of_an_earlier_release_has_the_defaults() -> None:
    answer = serialization.unpack({"nodes": {"n1": 1.0}, "refused": {}}, FitAnswer)
    assert answer == FitAnswer(nodes={"n1": 1.0}, refused={})
    assert serialization.unpack({"volumes": [], "nodes": {}}, FitQuery).holder is None


def test_the_method_changes_nothing_and_is_none_of_the_core() -> None:
    """A lost answer is asked for again."""
    assert FIT_NODES.name not in {method.name for method in contract.SCHEDULER_METHODS}
    assert FIT_NODES.delivery is node_fit_messages.Delivery.SINGLE_CALL
