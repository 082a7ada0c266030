# SPDX-License-Identifier: Apache-2.0
"""Moves that make room: out of one pool, or elsewhere so that a request finds a pool."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tonnage.capacity.request import Request
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
from tonnage.extensions.moves.planning.plan import StayingVolume
from tonnage.extensions.moves.planning.pool_model import Permission, PoolModel
from tonnage.extensions.moves.planning.volume_subsets import Candidate, smallest

#: Most pools that are tried as the pool in which room is made, those that lack least first.
_MOST_POOLS = 20


def free(
    model: PoolModel,
    pool: str,
    needed_gb: float,
    freed_gb: Callable[[PlacedVolume], float],
    permits: Permission | None = None,
) -> Sequence[StayingVolume] | None:
    """Move volumes out of a pool until ``needed_gb`` are free there, with as few GiB copied as possible.

    ``freed_gb`` is what the move of a volume frees. Return None if that is done. If it is not possible, nothing is
    moved, and the volumes that cannot be moved are returned.
    """
    length = len(model)
    volumes = [volume for volume in model.volumes(pool) if volume.spec is not None]
    staying = [volume.staying(volume.reason) for volume in model.volumes(pool) if volume.spec is None]
    while True:
        chosen = smallest([Candidate(volume.size_gb, freed_gb(volume)) for volume in volumes], needed_gb)
        if chosen is None:
            return staying
        stuck = None
        for volume in sorted((volumes[index] for index in chosen), key=lambda volume: (-volume.size_gb, volume.id)):
            target = model.target(volume, permits)
            if isinstance(target, str):
                stuck, reason = volume, target
                break
            model.move(volume, *target)
        if stuck is None:
            return None
        model.take_back(length)
        staying.append(stuck.staying(reason))
        # A volume of the same size may still find a pool: its type, or the location of its copies, is another.
        volumes.remove(stuck)


def make_room_for(model: PoolModel, request: Request, *, physical_gb: float) -> str | None:
    """Move volumes so that a pool accepts a request, and return that pool; None if no moves out of one pool do it.

    ``physical_gb`` is what the request writes at once. Of the pools that only lack room the one is chosen for which the
    fewest GiB are copied, then with the fewest moves.
    """
    best: tuple[int, int, str] | None = None
    length = len(model)
    for pool, lacking in _lacking_pools(model, request):
        is_possible = _free_for(model, pool, request, lacking, physical_gb)
        cost = (model.copied_since(length), len(model) - length, pool)
        model.take_back(length)
        if is_possible and (best is None or cost < best):
            best = cost
    if best is None:
        return None
    pool = best[2]
    lacking = request.size_gb - model.headroom(pool, request)
    _free_for(model, pool, request, lacking, physical_gb)
    return pool


def _free_for(model: PoolModel, pool: str, request: Request, lacking_gb: float, physical_gb: float) -> bool:
    """Move volumes out of a pool that lacks room for a request; nothing moves into it meanwhile."""
    is_thin = model.is_thin_in(pool, request)
    lacks_physically = physical_gb > model.physical_room(pool)

    def freed(volume: PlacedVolume) -> float:
        # Only a thick volume certainly leaves physical room.
        return volume.size_gb if volume.is_thick or (is_thin and not lacks_physically) else 0

    needed = max(lacking_gb, physical_gb - model.physical_room(pool) if lacks_physically else 0.0)
    is_added = pool not in model.sources
    model.sources.add(pool)
    try:
        return free(model, pool, needed, freed) is None
    finally:
        if is_added:
            model.sources.discard(pool)


def _lacking_pools(model: PoolModel, request: Request) -> Iterator[tuple[str, float]]:
    """Yield the pools that refuse a request for their room alone, with the GiB that they lack, the fewest first."""
    pools = model.pools
    suitable = model.rules.without_room.filters.candidates(pools, request)
    lacking = [
        (request.size_gb - model.headroom(name, request), name)
        for name in (pools.names[row] for row in np.flatnonzero(suitable).tolist())
        if name not in model.sources
    ]
    for gib, name in sorted(lacking)[:_MOST_POOLS]:
        if np.isfinite(gib):
            yield name, gib
