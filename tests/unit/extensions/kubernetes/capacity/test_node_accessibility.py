# SPDX-License-Identifier: Apache-2.0
"""Access of nodes to pools, with a cache from earlier queries."""

from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity import pool_columns
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool, Storage
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes


def zone(*names: str) -> NodeSelector:
    expression = {"key": "zone", "operator": "In", "values": names}
    return type_conversion.convert({"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, NodeSelector)


POOLS = (
    Pool(name="all"),
    Pool(name="a", node_topology=zone("a")),
    Pool(name="ab", node_topology=zone("a", "b")),
    Pool(name="some", node_list=("n1", "n3", "n9")),
)
nodes = st.lists(
    st.builds(
        Node,
        st.sampled_from(["n1", "n2", "n3", "n4"]),
        st.dictionaries(st.just("zone"), st.sampled_from(["a", "b", "c"])) | st.just({"other": "x"}),
    ),
    unique_by=lambda node: node.name,
    max_size=4,
)


def is_reached(pool: Pool, node: Node) -> bool:
    if pool.node_topology is not None:
        return pool.node_topology.matches(node.name, node.labels)
    return pool.node_list is None or node.name in pool.node_list


@given(queries=st.lists(nodes, min_size=1, max_size=4), pools=st.lists(st.sampled_from(POOLS), unique=True))
def test_cached_results_are_correct_for_other_nodes_and_labels(queries: list[list[Node]], pools: list[Pool]) -> None:
    storage = Storage("fast", tuple(pools))
    driver = pool_columns.from_driver(Driver(name="d", uid="u", version=1, tracking=True, storage=(storage,)))
    accessibility = AccessibilityCache()
    for each in queries:
        everything = Nodes([*each, Node("n5", {"zone": "a"})])
        selection = everything.selection([node.name for node in each])
        assert selection is not None
        selected = accessibility.pools_by_node(driver, "fast", selection)
        found = accessibility.pools_by_node(driver, "fast", Nodes(each))
        assert selected.tolist() == found.tolist()
        assert [[pools[slot].name for slot in row if slot >= 0] for row in found.tolist()] == [
            [pool.name for pool in pools if is_reached(pool, node)] for node in each
        ]
