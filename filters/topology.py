# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume where the node that needs it can reach it."""

from collections.abc import Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.capacity.topology import accessibility, requirements
from tonnage.capacity.topology.accessibility import Unclear
from tonnage.capacity.topology.requirements import HintError, Needed, Places
from tonnage.filters.base import Filter, Mask


class TopologyFilter(Filter):
    """Accepts pools that can be reached from where the volume is needed.

    The hint ``node_name`` names a node, ``accessibility_requirements`` has the labels of nodes as the Container Storage
    Interface has them: one of the ``requisite`` topologies has to do. Both together are a node with its labels. Without
    either, every pool will do.

    Pools report from where they are reached as ``node_name`` or ``node_list``, ``topology_labels`` or
    ``node_topology``, a node selector; those that report none of these are reached from everywhere.
    """

    looks_at_figures = False

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Look at each shape of what pools report, and find the pools that have what it asks for."""
        try:
            needed = requirements.needed(request.hints)
        except HintError:
            return np.zeros(len(pools), dtype=np.bool_)
        if needed is None:
            return np.ones(len(pools), dtype=np.bool_)
        # A fit of several volumes asks again and again.
        return pools.derived_from_traits((TopologyFilter, needed.digest), lambda some: _reached(some, needed))

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request that is needed nowhere in particular; of others there are too many."""
        return None if requirements.says_something(request.hints) else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name who reaches the pool and where the volume is needed."""
        try:
            needed = requirements.needed(request.hints)
        except HintError as error:
            problem = f"cannot be judged by the hint {error.hint}: {error}"
            return Rejection("bad_hint", problem, {"hint": error.hint})
        if needed is None:
            return super().reason(pool, request)
        reached = accessibility.reader(needed)(pool.capabilities)
        if isinstance(reached, Unclear):
            problem = f"does not tell clearly from where it can be reached: {reached.problem}"
            return Rejection("topology_unclear", problem, {"needed_on": str(needed)})
        return Rejection(
            "unreachable",
            f"can be reached from {reached}, and the volume is needed on {needed}",
            {"reached_from": str(reached), "needed_on": str(needed)},
        )


def _reached(pools: PoolTable, needed: Needed) -> Mask:
    codes, known = pools.distinct(accessibility.reader(needed))
    where = Places(needed)
    wanted = {each for shape in known.kinds(accessibility.shape) for each in shape.within(where)}
    found = [known.find(each) for each in wanted]
    return np.isin(codes, [code for code in found if code is not None])
