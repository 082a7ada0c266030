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

    judges_kind = True
    looks_at_figures = False
    request_fields = ("hints",)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Find the pools with one of the accessibility values that match the requirement."""
        try:
            needed = requirements.parse_hints(request.hints)
        except HintError:
            return np.zeros(len(pools), dtype=np.bool_)
        if needed is None:
            return np.ones(len(pools), dtype=np.bool_)
        # Cached, because placing a group of volumes evaluates the same requirement many times.
        return pools.derived_from_traits((TopologyFilter, needed.digest), lambda some: _reached(some, needed))

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the accessibility of the pool and the required topology."""
        try:
            needed = requirements.parse_hints(request.hints)
        except HintError as error:
            problem = f"cannot be judged by the hint {error.hint}: {error}"
            return Rejection("bad_hint", problem, {"hint": error.hint})
        if needed is None:
            return super().reason(pool, request)
        reached = accessibility.parser_for(needed)(pool.capabilities)
        if isinstance(reached, InvalidAccessibility):
            problem = f"does not tell clearly from where it can be reached: {reached.problem}"
            return Rejection("topology_unclear", problem, {"needed_on": str(needed)})
        return Rejection(
            "unreachable",
            f"can be reached from {reached}, and the volume is needed on {needed}",
            {"reached_from": str(reached), "needed_on": str(needed)},
        )


def _reached(pools: PoolTable, needed: TopologyRequirement) -> Mask:
    codes, known = pools.distinct(accessibility.parser_for(needed))
    where = RequiredTopologies(needed)
    wanted = {each for shape in known.kinds(accessibility.shape_of) for each in shape.accessible_from(where)}
    found = [known.find(each) for each in wanted]
    return np.isin(codes, [code for code in found if code is not None])
