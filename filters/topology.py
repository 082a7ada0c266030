# SPDX-License-Identifier: Apache-2.0
"""Filter that places a volume in a pool that its node can reach."""

import numpy as np
import numpy.typing as npt

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.capacity.topology import accessibility, requirements
from tonnage.capacity.topology.accessibility import InvalidAccessibility
from tonnage.capacity.topology.requirements import HintError, RequiredTopologies, TopologyRequirement
from tonnage.filters.base import Filter, Mask

Ranks = npt.NDArray[np.int16]

#: The position of a topology that matches, for a pool that no topology matches.
_UNREACHED = np.int16(requirements.MAX_TOPOLOGIES)


class TopologyFilter(Filter):
    """Accepts pools that are accessible from the required topology.

    The hint ``node_name`` names a node. The hint ``accessibility_requirements`` has node labels, in the format of the
    Container Storage Interface: the pool has to match one of the ``requisite`` topologies. Both hints together describe
    one node with its labels. Without these hints every pool is accepted. Of the accepted pools, those that match an
    earlier ``preferred`` topology come before those that match a later one or none.

    Pools report their accessibility as ``node_name``, ``node_list``, ``topology_labels`` or ``node_topology`` (a node
    selector). A pool without these capabilities is accessible from everywhere.
    """

    reads = accessibility.FIELDS
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
        accepted: Mask = _positions(pools, requirement) < _UNREACHED
        return accepted

    def ranks(self, pools: PoolTable, request: Request) -> Ranks | None:
        """Return the position of the first preferred topology that each pool matches; None if none is preferred."""
        try:
            preferences = requirements.parse_preferences(request.hints)
        except HintError:
            return None
        return None if preferences is None else _positions(pools, preferences)

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


def _positions(pools: PoolTable, requirement: TopologyRequirement) -> Ranks:
    """Return the position of the first topology from which each pool is accessible, else ``_UNREACHED``."""
    # Cached, because placing a group of volumes evaluates the same requirement many times.
    key = (TopologyFilter, requirement.digest)
    return pools.derived_from_traits(key, lambda some: _computed_positions(some, requirement))


def _computed_positions(pools: PoolTable, requirement: TopologyRequirement) -> Ranks:
    codes, values = pools.distinct(accessibility.parser_for(requirement))
    positions = np.full(len(values.values), _UNREACHED)
    where = RequiredTopologies(requirement)
    for shape in values.distinct_results(accessibility.shape_of):
        for value, position in shape.accessible_from(where):
            code = values.find(value)
            if code is not None:
                positions[code] = position
    ranks: Ranks = positions[codes]
    return ranks
