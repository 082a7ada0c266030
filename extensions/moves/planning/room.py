# SPDX-License-Identifier: Apache-2.0
"""Moves that make room: out of one pool, or elsewhere so that a request finds a pool."""

import math
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tonnage.capacity import arithmetic
from tonnage.capacity.request import Request
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
from tonnage.extensions.moves.planning.plan import StayingVolume
from tonnage.extensions.moves.planning.pool_model import Ceilings, PoolModel
from tonnage.extensions.moves.planning.volume_subsets import Candidate, smallest

#: Most pools that are tried as the pool in which room is made, those that lack least first.
_MOST_POOLS = 20


@dataclass(frozen=True, slots=True)
class Demand:
    """An amount that is to become free in a pool. ``freed_gb`` returns the GiB that the move of a volume frees.

    ``ceilings`` limit the pools below their bounds; None does not.
    """

    pool: str
    needed_gb: float
    freed_gb: Callable[[PlacedVolume], float]
    ceilings: Ceilings | None = None


@dataclass(slots=True)
class _Attempt:
    """An attempt to free an amount. ``stuck`` are the volumes that were chosen and found no pool."""

    staying: list[StayingVolume]
    stuck: list[StayingVolume] = field(default_factory=list)
    is_freed: bool = False


def free(
    model: PoolModel, demand: Demand, first: Sequence[PlacedVolume] | None = None, *, levels: int = 1
) -> Sequence[StayingVolume] | None:
    """Move volumes out of a pool until an amount is free there, with as few GiB copied as possible.

    A volume that no pool takes is left out or, with ``levels``, gets room by other moves: the choice that copies less.
    Return None if the amount becomes free. If it cannot, nothing is moved, and the volumes that stay are returned.
    ``first`` are the volumes that :func:`first_choice` has returned.
    """
    length = len(model)
    plain = _attempt(model, demand, first, levels=0)
    if levels == 0 or not plain.stuck or model.is_exhausted:
        return None if plain.is_freed else plain.staying
    copied_gb = model.copied_since(length) if plain.is_freed else math.inf
    moves = model.take_back(length)
    with model.trial():
        passed_on = _attempt(model, demand, levels=levels)
    if passed_on.is_freed and model.copied_since(length) < copied_gb:
        return None
    model.take_back(length)
    if not plain.is_freed:
        return plain.staying
    model.repeat(moves)
    return None


def free_most(model: PoolModel, demand: Demand) -> tuple[float, Sequence[StayingVolume]]:
    """Move volumes out of a pool, those first that free most, until an amount is free there or no other one can leave.

    Return the GiB that become free, and the volumes that stay. Those that would free nothing are not among these.
    """
    freed_gb, staying = 0.0, []
    volumes = [volume for volume in model.candidates(demand.pool) if demand.freed_gb(volume) > 0]
    movable = [volume for volume in volumes if volume.may_move]
    staying += [volume.staying(volume.reason) for volume in volumes if not volume.may_move]
    for volume in model.in_full(sorted(movable, key=lambda volume: (-demand.freed_gb(volume), volume.id))):
        if freed_gb >= demand.needed_gb:
            break
        stuck = _move_all(model, [volume], demand.ceilings, levels=1)
        if stuck is None:
            freed_gb += demand.freed_gb(volume)
        else:
            staying.append(volume.staying(stuck[1]))
    return freed_gb, staying


def _attempt(model: PoolModel, demand: Demand, first: Sequence[PlacedVolume] | None = None, *, levels: int) -> _Attempt:
    length, volumes = len(model), model.candidates(demand.pool)
    attempt = _Attempt([volume.staying(volume.reason) for volume in volumes if not volume.may_move])
    volumes = [volume for volume in volumes if volume.may_move]
    # A move for another pool may have taken one of the first meanwhile.
    is_first = first is not None and {volume.id for volume in volumes}.issuperset(volume.id for volume in first)
    while True:
        began = time.thread_time()
        chosen = first if is_first else _choice(demand, volumes)
        is_first = False
        if chosen is None or (attempt.stuck and model.is_exhausted):
            attempt.staying += attempt.stuck
            return attempt
        stuck = _move_all(model, chosen, demand.ceilings, levels)
        if stuck is None:
            attempt.is_freed = True
            return attempt
        model.take_back(length)
        model.count_trial(began)
        volume, reason = stuck
        attempt.stuck.append(volume.staying(reason))
        # A volume of the same size may still find a pool: its type, or the location of its copies, is another.
        volumes = [other for other in volumes if other.id != volume.id]


def first_choice(model: PoolModel, demand: Demand) -> Sequence[PlacedVolume] | None:
    """Return the volumes that :func:`free` will try to move first, so that those of many pools can be read together.

    None if all volumes together free too little.
    """
    return _choice(demand, [volume for volume in model.candidates(demand.pool) if volume.may_move])


def _choice(demand: Demand, volumes: Sequence[PlacedVolume]) -> list[PlacedVolume] | None:
    """Return the volumes whose moves free the amount; None if all of them free less."""
    candidates = [Candidate(volume.size_gb, demand.freed_gb(volume)) for volume in volumes]
    chosen = smallest(candidates, demand.needed_gb)
    return None if chosen is None else [volumes[index] for index in chosen]


def _move_all(
    model: PoolModel, volumes: Sequence[PlacedVolume], ceilings: Ceilings | None, levels: int
) -> tuple[PlacedVolume, str] | None:
    """Move volumes, the largest first; return the first that finds no pool, with the reason."""
    for volume in model.in_full(sorted(volumes, key=lambda volume: (-volume.size_gb, volume.id))):
        target = model.target(volume, ceilings)
        if isinstance(target, str) and levels:
            request = model.request_of(volume)
            make_room_for(model, request, physical_gb=volume.size_gb, ceilings=ceilings, levels=levels - 1)
            target = model.target(volume, ceilings)
        if isinstance(target, str):
            return volume, target
        model.move(volume, *target)
    return None


def make_room_for(
    model: PoolModel, request: Request, *, physical_gb: float, ceilings: Ceilings | None = None, levels: int = 0
) -> str | None:
    """Move volumes so that a pool accepts a request, and return that pool; None if no moves out of one pool do it.

    ``physical_gb`` are the GiB that the request writes at once. Of the pools that only lack room the one is chosen for
    which the fewest GiB are copied, then with the fewest moves. With ``levels`` these moves may get room by others.
    """
    if request.size_gb > model.total_room_gb() + arithmetic.TOLERANCE_GB:
        return None
    length = len(model)
    ways = []
    for demand in _demands(model, request, physical_gb, ceilings):
        if model.is_exhausted:
            break
        with model.trial():
            is_possible = _free_without_return(model, demand, levels)
            cost = (model.copied_since(length), len(model) - length, demand.pool)
            moves = model.take_back(length)
        if is_possible:
            ways.append((cost, moves))
    if not ways:
        return None
    (_, _, pool), moves = min(ways, key=operator.itemgetter(0))
    model.repeat(moves)
    return pool


def _free_without_return(model: PoolModel, demand: Demand, levels: int) -> bool:
    """Free an amount in a pool into which nothing moves meanwhile; return whether that is possible."""
    is_added = demand.pool not in model.sources
    model.sources.add(demand.pool)
    try:
        return free(model, demand, levels=levels) is None
    finally:
        if is_added:
            model.sources.discard(demand.pool)


def _demands(model: PoolModel, request: Request, physical_gb: float, ceilings: Ceilings | None) -> Iterator[Demand]:
    """Yield for the pools that refuse a request for their room alone the GiB that they lack, the fewest first."""
    pools = model.pools
    suitable = model.rules.without_room.filters.candidates(pools, request)
    counted = None if ceilings is None else model.counted(ceilings)
    demands = []
    for row in np.flatnonzero(suitable).tolist():
        name = pools.names[row]
        if model.is_source(name):
            continue
        lacking_gb = request.size_gb - model.headroom(name, request)
        lacking_physically_gb = physical_gb - model.physical_room(name)
        if ceilings is not None and counted is not None:
            excess_gb = float(counted[row]) + request.size_gb - float(ceilings.gb[row])
            if ceilings.is_physical:
                lacking_physically_gb = max(lacking_physically_gb, excess_gb)
            else:
                lacking_gb = max(lacking_gb, excess_gb)
        is_thin = model.is_thin_in(name, request)
        needed_gb = max(lacking_gb, lacking_physically_gb)
        if math.isfinite(needed_gb):
            counts_thin = is_thin and lacking_physically_gb <= 0
            demands.append((needed_gb, name, counts_thin))
    for needed_gb, name, counts_thin in sorted(demands)[:_MOST_POOLS]:
        yield Demand(name, needed_gb, _freed_whole if counts_thin else _freed_certainly, ceilings)


def _freed_whole(volume: PlacedVolume) -> float:
    """Return the GiB of promises that the move of a volume frees."""
    return volume.size_gb


def _freed_certainly(volume: PlacedVolume) -> float:
    """Return the GiB of physical room that the move of a volume frees for certain: none if it is thin."""
    return volume.size_gb if volume.is_thick else 0
