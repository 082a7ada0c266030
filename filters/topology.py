# SPDX-License-Identifier: Apache-2.0
"""Filter that places a volume in a pool that its node can reach."""

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.capacity.topology import accessibility, requirements
from tonnage.capacity.topology.accessibility import InvalidAccessibility
from tonnage.capacity.topology.requirements import HintError, RequiredTopologies, TopologyRequirement
from tonnage.filters.base import Filter, Mask


class TopologyFilter(Filter):
    """Accepts pools that are accessible from the required topology.

    The hint ``node_name`` names a node. The hint ``accessibility_requirements`` has node labels, in the format of the
    Container Storage Interface: the pool has to match one of the ``requisite`` topologies. Both hints together describe
    one node with its labels. Without these hints every pool is accepted.

    Pools report their accessibility as ``node_name``, ``node_list``, ``topology_labels`` or ``node_topology`` (a node
    selector). A pool without these capabilities is accessible from everywhere.
    """

    is_categorical = True
    reads_figures = False
    trigger_fields = ("hints",)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Find the pools with one of the accessibility values that match the requirement."""
        try:
            requirement = requirements.parse_hints(request.hints)
        except HintError:
            return np.zeros(len(pools), dtype=np.bool_)
        if requirement is None:
            return np.ones(len(pools), dtype=np.bool_)
        # Cached, because placing a group of volumes evaluates the same requirement many times.
        return pools.derived_from_traits((TopologyFilter, requirement.digest), lambda some: _reached(some, requirement))

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the accessibility of the pool and the required topology."""
        try:
            requirement = requirements.parse_hints(request.hints)
        except HintError as error:
            problem = f"cannot be judged by the hint {error.hint}: {error}"
            return Rejection("bad_hint", problem, {"hint": error.hint})
        if requirement is None:
            return super().reason(pool, request)
        reached = accessibility.parser_for(requirement)(pool.capabilities)
        if isinstance(reached, InvalidAccessibility):
            problem = f"does not tell clearly from where it can be reached: {reached.problem}"
            return Rejection("topology_unclear", problem, {"needed_on": str(requirement)})
        return Rejection(
            "unreachable",
            f"can be reached from {reached}, and the volume is needed on {requirement}",
            {"reached_from": str(reached), "needed_on": str(requirement)},
        )


def _reached(pools: PoolTable, requirement: TopologyRequirement) -> Mask:
    codes, values = pools.distinct(accessibility.parser_for(requirement))
    where = RequiredTopologies(requirement)
    accessible = {
        value for shape in values.distinct_results(accessibility.shape_of) for value in shape.accessible_from(where)
    }
    matching_codes = [values.find(value) for value in accessible]
    return np.isin(codes, [code for code in matching_codes if code is not None])
