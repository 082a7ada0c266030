# SPDX-License-Identifier: Apache-2.0
"""The objects that volumes are copied from."""

from tests.unit.extensions.kubernetes.fit.decisions import zone
from tonnage.extensions.kubernetes.cluster.nodes import Node
from tonnage.extensions.kubernetes.cluster.volumes import CopySource


def test_a_source_is_reached_from_the_nodes_of_its_topology_or_from_all() -> None:
    source = CopySource("claim origin", zone("a"))
    assert source.is_reached_from(Node("n1", {"zone": "a"}))
    assert not source.is_reached_from(Node("n1", {"zone": "b"}))
    assert not source.is_reached_from(Node("n1", {}))
    assert CopySource("claim origin").is_reached_from(Node("n1", {}))
