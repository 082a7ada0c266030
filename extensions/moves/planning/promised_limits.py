# SPDX-License-Identifier: Apache-2.0
"""Moves that bring pools to a level, each with a limit of its own in GiB of promises."""

from collections.abc import Mapping, Sequence

import numpy as np

from tonnage.extensions.moves.planning import room
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
from tonnage.extensions.moves.planning.plan import StayingVolume
from tonnage.extensions.moves.planning.pool_model import Ceilings, PoolModel
from tonnage.extensions.moves.planning.room import Demand

#: How often a pool passes volumes on, at most.
_MOST_ROUNDS = 200

#: The levels of pools are rounded to this.
_TOLERANCE_GB = 0.01


def ceilings_of(model: PoolModel, limits: Mapping[str, float], *, is_physical: bool = False) -> Ceilings:
    """Return the limits of pools as ceilings. A pool without a limit takes nothing."""
    return Ceilings(np.array([limits.get(name, -np.inf) for name in model.pools.names]), is_physical)


def demand(pool: str, needed_gb: float, ceilings: Ceilings) -> Demand:
    """Return the demand that so many GiB of promises leave a pool."""
    return Demand(pool, needed_gb, lambda volume: volume.size_gb, ceilings)


def free_through_others(model: PoolModel, limits: Mapping[str, float]) -> bool:
    """Bring pools to their limits, and let them be above these in between; return whether that is possible.

    A pool that takes volumes of another one passes its own on. A volume moves once.
    """
    strict = ceilings_of(model, limits)
    rows = np.flatnonzero(np.isfinite(strict.gb))
    loose = Ceilings(np.where(np.isfinite(strict.gb), np.inf, -np.inf))
    for _ in range(_MOST_ROUNDS):
        excess = model.promises()[0][rows] - strict.gb[rows]
        highest_row = int(np.argmax(excess))
        if excess[highest_row] <= _TOLERANCE_GB:
            return True
        pool, needed_gb = model.pools.names[rows[highest_row]], float(excess[highest_row])
        if all(room.free(model, demand(pool, needed_gb, ceilings)) is not None for ceilings in (strict, loose)):
            return False
    return False


def free_all(
    model: PoolModel, demands: Sequence[Demand], choices: Sequence[Sequence[PlacedVolume] | None]
) -> dict[str, Sequence[StayingVolume]]:
    """Free the amounts, and return the volumes that stay by the pools that stay above their limits."""
    stuck: dict[str, Sequence[StayingVolume]] = {}
    for excess, choice in zip(demands, choices, strict=True):
        if (staying := room.free(model, excess, choice)) is not None:
            stuck[excess.pool] = staying
    return stuck
