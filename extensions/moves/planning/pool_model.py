# SPDX-License-Identifier: Apache-2.0
"""The pools while a plan is made: each move that is added changes them, and can be taken back.

A pool has two bounds. The *promised* one limits the sizes of its volumes (``provisioned + in flight <= (total - R) *
ratio``), the *physical* one the data in it (``used <= total - R``), where ``R`` is the reserve. The filters of the
scheduler look at one of them, by the kind of the volume. A plan obeys both: a copy is written in full, so a thin volume
needs its size physically too, while it is moved and afterwards. In the source nothing becomes free before a move has
ended; then its promise does, and its physical room too if the volume is thick. How much of a thin volume is written is
not known, so no other move relies on it.

Example: pool *a* has 100 GiB, ratio 2, 150 GiB promised, 80 GiB used. A thin volume of 30 GiB does not move into it: it
would promise 180 of 200 GiB, but it may write 30 GiB, and 20 are free.
"""

import contextlib
import functools
import math
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic, errors, units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Placement
from tonnage.capacity.elementwise import Floats
from tonnage.capacity.pool_stats import BACKEND_STATE, is_reported_down
from tonnage.capacity.pools.columns import Formula
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning, Request
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume, VolumeReader, give_way
from tonnage.extensions.moves.planning.plan import MovePlan, PlannedMove, PoolChange, PoolLevel, StayingVolume
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.requests.pool_selection import Rules, physical_gb, provisioning_in
from tonnage.scheduler.simulation.growth_forecasts import PoolGrowth
from tonnage.scheduler.steps import moves

Mask: TypeAlias = npt.NDArray[np.bool_]
Figures: TypeAlias = npt.NDArray[np.float64]


#: Processor seconds of trials after which a plan tries no further moves.
LONGEST_TRIALS = 5.0

#: The limits of promises as formulas, whose values the table of pools keeps.
_LIMITS: Mapping[Calculation, Formula] = {
    calculation: functools.partial(arithmetic.promise_limit, calculation=calculation) for calculation in Calculation
}


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The most GiB that a goal lets each pool promise or, if it ``is_physical``, use; in the order of the table."""

    gb: Figures
    is_physical: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    volume: PlacedVolume
    placement: Placement
    reason: str
    source_level: PoolLevel
    target_level: PoolLevel


class PoolModel:
    """The pools of a snapshot, with the moves of a plan.

    ``rules`` choose among ``pools``, a copy that belongs to this object. ``sources`` are pools that the goal takes
    volumes out of: nothing moves into them. ``held`` are the pools that other plans use, with the ids of these plans:
    nothing moves into them or out of them.
    """

    def __init__(
        self, pools: PoolTable, rules: Rules, volumes: VolumeReader, held: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.pools, self.rules, self._volumes, self._held = pools, rules, volumes, held
        self.sources: set[str] = set()
        self._steps: list[_Step] = []
        self._moved: set[str] = set()
        #: The volumes that were brief, by their ids; None for one that is gone.
        self._read: dict[str, PlacedVolume | None] = {}
        #: The levels of pools before the first move that used each.
        self._before: dict[str, PoolLevel] = {}
        #: The processor time of the trials that have ended, and the begin of the one that runs.
        self._trial_seconds = 0.0
        self._trial_began: float | None = None

    def volumes(self, pool: str) -> list[PlacedVolume]:
        """Return the volumes that are in a pool by the ledger and that no move of the plan takes, the largest first."""
        return self.in_full(self.candidates(pool))

    def candidates(self, pool: str) -> list[PlacedVolume]:
        """Return the same volumes, of which some are brief: see :meth:`in_full`."""
        volumes = [volume for volume in self._volumes.of(pool) if volume.id not in self._moved]
        if (obstacle := self._obstacle_in(pool)) is None:
            return volumes
        return [
            replace(volume, spec=None, reason=obstacle, is_brief=False) if volume.may_move else volume
            for volume in volumes
        ]

    def in_full(self, volumes: Sequence[PlacedVolume]) -> list[PlacedVolume]:
        """Return volumes with the requests that their moves make, in the same order.

        One that has left its pool meanwhile, or has another size, cannot be moved.
        """
        missing = [volume.id for volume in volumes if volume.is_brief and volume.id not in self._read]
        if missing:
            read = self._volumes.read(missing)
            self._read.update({volume_id: read.get(volume_id) for volume_id in missing})
        return [self._in_full(volume) if volume.is_brief else volume for volume in volumes]

    def _in_full(self, volume: PlacedVolume) -> PlacedVolume:
        read = self._read[volume.id]
        if read is None or (read.pool, read.size_gb) != (volume.pool, volume.size_gb):
            return replace(volume, reason=f"volume {volume.id} has changed meanwhile", is_brief=False)
        return read

    def load_volumes(self, pools: Collection[str]) -> None:
        """Read the volumes of several pools at once."""
        self._volumes.load(pools)

    def target(
        self, volume: PlacedVolume, ceilings: Ceilings | None = None, *, is_tight: bool = False
    ) -> tuple[Placement, str] | str:
        """Return the pool that takes a volume, with the reason in words; without one, why it stays.

        It is the pool that the scheduler would choose among those that both bounds and ``ceilings`` allow. With
        ``is_tight`` it is the pool with the least room, so that large room remains for large volumes.
        """
        give_way()
        if volume.spec is None:
            return volume.reason
        request = self.request_of(volume)
        candidates = self.rules.filters.candidates(self.pools, request)
        allowed = candidates & self._allowed(volume) & self._is_no_source()
        if ceilings is not None:
            allowed = allowed & (self.counted(ceilings) + volume.size_gb <= ceilings.gb)
        index = self._tightest(allowed) if is_tight else self.rules.best(self.pools, request, allowed)
        if index is None:
            # Nobody reads the reasons of a trial, and they would take half of its time.
            return self._refusal(volume, request, candidates) if self._trial_began is None else ""
        name, count = self.pools.names[index], int(allowed.sum())
        best = "the fullest" if is_tight else "the best"
        reason = f"{request.describe()} goes to {name}, {best} of {count} candidate{'' if count == 1 else 's'}"
        return Placement(name, provisioning_in(self.pools, index, request)), reason

    def accepts(self, volume: PlacedVolume, pool: str) -> Placement | str:
        """Return the placement of a volume in a pool if both bounds and the scheduler allow it, else the reason."""
        index = self.pools.index(pool)
        if index is None:
            return _unreported(pool)
        if (obstacle := self._obstacle_in(volume.pool)) is not None:
            return obstacle
        if volume.spec is None:
            return volume.reason
        request = replace(self.request_of(volume), pool=pool)
        candidates = self.rules.filters.candidates(self.pools, request)
        if not (candidates & self._allowed(volume))[index]:
            return self._refusal(volume, request, candidates)
        return Placement(pool, provisioning_in(self.pools, index, request))

    def move(self, volume: PlacedVolume, placement: Placement, reason: str) -> None:
        """Add a move to the plan, and count its end: the volume is in its new pool, and no longer in its old one."""
        for pool in (volume.pool, placement.pool):
            if pool not in self._before:
                self._before[pool] = self.level(pool)
        self._count(volume, placement.pool, 1)
        levels = self.level(volume.pool), self.level(placement.pool)
        self._steps.append(_Step(volume, placement, reason, *levels))
        self._moved.add(volume.id)

    def copy(self, volume: PlacedVolume, placement: Placement) -> None:
        """Count the copy of a volume that is being made in a pool. In its old pool nothing becomes free."""
        index = self.pools.index(placement.pool)
        if index is not None:
            self.pools.claim(index, volume.size_gb, volume.size_gb)

    def grow(self, growth: Mapping[str, PoolGrowth]) -> None:
        """Count the growth of pools as if it had happened. A pool that is to shrink does not.

        Pools that report the figures of a whole storage all have the forecast of this storage: it counts once, at its
        largest value. The growth of the parts of a storage is contained in it.
        """
        of_storages: dict[str, tuple[int, float, float]] = {}
        of_parts: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for name, forecast in growth.items():
            index, row = self.pools.index(name), self.pools.get(name)
            if index is None or row is None:
                continue
            physical_gb = max(0.0, forecast.physical_gb or 0.0)
            # A pool without thin volumes promises as much as it writes.
            promised_gb = max(0.0, forecast.promised_gb or 0.0) if row.thin else physical_gb
            if row.storage_id is not None and math.isnan(row.storage_free):
                first, promised, physical = of_storages.get(row.storage_id, (index, 0.0, 0.0))
                of_storages[row.storage_id] = first, max(promised, promised_gb), max(physical, physical_gb)
                continue
            if row.storage_id is not None:
                promised, physical = of_parts[row.storage_id]
                of_parts[row.storage_id] = promised + promised_gb, physical + physical_gb
            self.pools.claim(index, promised_gb, physical_gb)
        for storage_id, (index, promised_gb, physical_gb) in of_storages.items():
            promised, physical = of_parts[storage_id]
            self.pools.claim(index, max(0.0, promised_gb - promised), max(0.0, physical_gb - physical))

    def take_back(self, length: int) -> Sequence[tuple[PlacedVolume, Placement, str]]:
        """Take back the last moves, so that the plan has ``length`` of them.

        Return the arguments of :meth:`move` with which the others were added, in their order.
        """
        taken_back = self._steps[length:]
        for step in reversed(taken_back):
            self._moved.discard(step.volume.id)
            self._count(step.volume, step.placement.pool, -1)
        del self._steps[length:]
        return [(step.volume, step.placement, step.reason) for step in taken_back]

    def repeat(self, moves: Iterable[tuple[PlacedVolume, Placement, str]]) -> None:
        """Add moves again that were taken back."""
        for move in moves:
            self.move(*move)

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Count the time in which moves are tried that may be taken back. A trial within a trial is a part of it."""
        if self._trial_began is not None:
            yield
            return
        self._trial_began = began = time.thread_time()
        try:
            yield
        finally:
            self._trial_began = None
            self.count_trial(began)

    def count_trial(self, began: float) -> None:
        """Count the processor time of this thread since ``began``, unless it is a part of a trial."""
        if self._trial_began is None:
            self._trial_seconds += time.thread_time() - began

    @property
    def is_exhausted(self) -> bool:
        """Whether trials have taken so long that no further one is to begin: in full pools they would take hours."""
        running = 0.0 if self._trial_began is None else time.thread_time() - self._trial_began
        return self._trial_seconds + running > LONGEST_TRIALS

    def total_room_gb(self) -> float:
        """Return the GiB of room in all pools together, of each pool by the bound that leaves more.

        A move takes at least as much of it as it frees, so no moves make room for a larger volume. It is ``inf`` if a
        pool has no limit. Example: ten full pools with 2 GiB of room each never take a volume of 30 GiB.
        """
        promised, limits = self.promises()
        room = np.fmax(limits - promised, self.pools.evaluated(arithmetic.physical_room))
        return float(room[self._is_no_source() & (room > 0)].sum())

    def __len__(self) -> int:
        """Return the number of moves."""
        return len(self._steps)

    def copied_since(self, length: int) -> int:
        """Return the GiB that the moves after the first ``length`` copy."""
        return sum(step.volume.size_gb for step in self._steps[length:])

    def level(self, pool: str) -> PoolLevel:
        """Return the levels of a pool as the moves leave it."""
        row = self.pools.get(pool)
        if row is None:
            raise LookupError(f"the plan has no pool {pool}")
        return PoolLevel(
            promised_gb=round(float(arithmetic.promised(row)), 2),
            promise_limit_gb=_figure(arithmetic.promise_limit(row, self.rules.calculation)),
            used_gb=_figure(_used(row)),
            physical_limit_gb=_figure(row.total - arithmetic.reserve(row)),
        )

    def plan(self, goal: str, outcome: str, *, is_reached: bool, staying: Iterable[StayingVolume] = ()) -> MovePlan:
        """Return the plan. ``staying`` are the volumes that the goal would move."""
        last_out: dict[str, list[int]] = {}
        planned = []
        for number, step in enumerate(self._steps, start=1):
            planned.append(
                PlannedMove(
                    number=number,
                    volume_id=step.volume.id,
                    size_gb=step.volume.size_gb,
                    source=step.volume.pool,
                    target=step.placement.pool,
                    reason=step.reason,
                    after=tuple(last_out.get(step.placement.pool, ())),
                    source_level=step.source_level,
                    target_level=step.target_level,
                )
            )
            last_out.setdefault(step.volume.pool, []).append(number)
        if self.is_exhausted and not is_reached:
            outcome += f" (after {LONGEST_TRIALS:g} s of trials; other moves may do it)"
        order = sorted(staying, key=lambda volume: (volume.pool, -volume.size_gb, volume.volume_id))
        names = sorted({pool for move in planned for pool in (move.source, move.target)})
        changes = (PoolChange(pool=name, before=self._before[name], after=self.level(name)) for name in names)
        sources = {*self.sources, *(volume.pool for volume in order)} - self._held.keys()
        return MovePlan(
            goal=goal,
            is_reached=is_reached,
            outcome=outcome,
            moves=tuple(planned),
            staying=tuple(order),
            pools=tuple(changes),
            sources=tuple(sorted(sources)),
        )

    def request_of(self, volume: PlacedVolume) -> Request:
        """Return the request that the move of a volume makes. Raises ValueError for one that cannot be moved."""
        if volume.spec is None:
            raise ValueError(f"volume {volume.id} cannot be moved: {volume.reason}")
        return moves.without_source(self.pools, volume.spec.request, volume.pool)

    def request_for(self, size_gb: int, volume_type: str, zone: str) -> Request:
        """Return the request for a new volume; an empty type or zone is none.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a volume type that is not there.
        """
        message = CreateVolume(
            request_id="",
            volume_id=str(uuid.uuid4()),
            size_gb=size_gb,
            project_id="",
            volume_type=volume_type or None,
            availability_zone=zone or None,
        )
        lookup = self._volumes.lookup([message])
        if volume_type and volume_type not in lookup.types:
            raise errors.InvalidInput(
                f"volume type {volume_type!r} could not be found: name another one, by its name or id; 'tonnage types' "
                "lists the types, 'openstack volume type list' those of a cloud"
            )
        return resolution.resolve_create(message, lookup).request

    def suitable(self, request: Request) -> list[str]:
        """Return the pools that are suitable for a request, apart from their room."""
        candidates = self.rules.without_room.filters.candidates(self.pools, request)
        return [self.pools.names[row] for row in np.flatnonzero(candidates).tolist()]

    def number_of_pools(self, volume: PlacedVolume) -> int:
        """Return the number of pools that are suitable for a volume, apart from their room."""
        if volume.spec is None:
            return 0
        candidates = self.rules.without_room.filters.candidates(self.pools, self.request_of(volume))
        return int((candidates & self._is_no_source()).sum())

    def take_room(self, placement: Placement, request: Request) -> None:
        """Count a new volume in its pool, as if reports contained it: it is none of the operations in flight.

        Pools that share a storage are the exception.
        """
        index, row = self.pools.index(placement.pool), self.pools.get(placement.pool)
        if index is None or row is None:
            return
        written_gb = physical_gb(placement, request, 0)
        if row.storage_id is not None:
            self.pools.claim(index, request.size_gb, written_gb)
            return
        figures = {
            "allocated": [row.allocated + request.size_gb],
            "provisioned": [row.provisioned + request.size_gb],
            "free": [row.free - written_gb],
        }
        self.pools.set_figures([placement.pool], figures)

    def is_thin_in(self, pool: str, request: Request) -> bool:
        """Return whether a pool would make the volume of a request thin."""
        index = self.pools.index(pool)
        return index is not None and provisioning_in(self.pools, index, request) is Provisioning.THIN

    def headroom(self, pool: str, request: Request) -> float:
        """Return the GiB up to which a pool would accept the request, negative if it is over its limit."""
        row = self.pools.get(pool)
        if row is None:
            return -math.inf
        return float(arithmetic.bound(row, self.is_thin_in(pool, request), self.rules.calculation))

    def physical_room(self, pool: str) -> float:
        """Return the GiB that can be written in a pool, negative if it is over its limit."""
        row = self.pools.get(pool)
        return -math.inf if row is None else float(arithmetic.physical_room(row))

    def promises(self) -> tuple[Figures, Figures]:
        """Return the promised GiB of each pool and the limit, as columns of the table."""
        promised = self.pools.evaluated(arithmetic.promised)
        return promised, self.pools.evaluated(_LIMITS[self.rules.calculation])

    def counted(self, ceilings: Ceilings) -> Figures:
        """Return the GiB of each pool that the ceilings limit, as a column of the table."""
        return self.pools.evaluated(_used) if ceilings.is_physical else self.promises()[0]

    def _count(self, volume: PlacedVolume, target: str, sign: int) -> None:
        into, out_of = self.pools.index(target), self.pools.index(volume.pool)
        if into is not None:
            self.pools.claim(into, sign * volume.size_gb, sign * volume.size_gb)
        if out_of is not None:
            self.pools.claim(out_of, -sign * volume.size_gb, -sign * (volume.size_gb if volume.is_thick else 0))
        if self.rules.counts_volumes:
            numbers = {target: (into, sign), volume.pool: (out_of, -sign)}
            self.pools.set_volumes(
                {
                    name: int(self.pools.volumes[row]) + change
                    for name, (row, change) in numbers.items()
                    if row is not None
                }
            )

    def _allowed(self, volume: PlacedVolume) -> Mask:
        """Return the pools in which the volume passes neither bound."""
        pools, size = self.pools, volume.size_gb - arithmetic.TOLERANCE_GB
        has_room = np.greater_equal(pools.evaluated(arithmetic.physical_room), size)
        promised, limit = self.promises()
        promise_room = limit - promised
        result: Mask = has_room & (~pools.thin | np.greater_equal(promise_room, size))
        return result

    def _obstacle_in(self, pool: str) -> str | None:
        """Return why no volume can leave a pool; None if nothing keeps them."""
        if (plan_id := self._held.get(pool)) is not None:
            return f"plan {plan_id} uses {pool}"
        return self.absence(pool) if pool in self.pools else None

    def absence(self, pool: str) -> str | None:
        """Return why nothing can be copied into a pool or out of it now: its backend is down, or gone; else None."""
        row = self.pools.get(pool)
        if row is None:
            return _unreported(pool)
        if row.up and not is_reported_down(row.capabilities.get(BACKEND_STATE)):
            return None
        return f"backend {backend_of(pool)} is down"

    def is_source(self, pool: str) -> bool:
        """Return whether nothing moves into a pool, because the goal or another plan uses it."""
        return pool in self.sources or pool in self._held

    def _is_no_source(self) -> Mask:
        mask = np.ones(len(self.pools), dtype=np.bool_)
        rows = [self.pools.index(name) for name in (*self.sources, *self._held)]
        mask[[row for row in rows if row is not None]] = False
        return mask

    def _tightest(self, allowed: Mask) -> int | None:
        rows = np.flatnonzero(allowed)
        if not rows.size:
            return None
        promised, limit = self.promises()
        room = np.minimum(limit - promised, self.pools.evaluated(arithmetic.physical_room))
        return int(rows[np.lexsort((self.pools.name_hash[rows], room[rows]))[0]])

    def _refusal(self, volume: PlacedVolume, request: Request, candidates: Mask) -> str:
        """Return why no pool takes a volume: the refusal of the scheduler, or the reason of the plan."""
        index = self.rules.best(self.pools, request, candidates)
        if index is None:
            refusal = self.rules.filters.refusal(self.pools, request, self.rules.filters.run(self.pools, request))
            return refusal.message
        name = self.pools.names[index]
        if name in self.sources:
            return f"{request.describe()} would go to {name}, out of which this plan moves volumes"
        if (plan_id := self._held.get(name)) is not None:
            return f"{request.describe()} would go to {name}, which plan {plan_id} uses"
        room = float(arithmetic.physical_free(self.pools.row(index)))
        if not self._allowed(volume)[index]:
            return (
                f"{request.describe()} would go to {name}, where a copy of {volume.size_gb} GiB passes a bound: "
                f"{units.to_wire(round(room, 2))} GiB are free"
            )
        return f"{request.describe()} would go to {name}, which would then be above the level of this plan"


def _used(pools: arithmetic.Figures) -> Floats:
    """Return the physically used GiB, with those in flight."""
    return pools.total - pools.free + pools.in_flight_physical


def _unreported(pool: str) -> str:
    return f"no report has named pool {pool}"


def _figure(value: Floats) -> float | None:
    number = float(value)
    return round(number, 2) if math.isfinite(number) else None
