# SPDX-License-Identifier: Apache-2.0
"""A plan: moves of volumes in an order, and the volumes that stay."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery:
    """A question for a plan: the name of a goal, its arguments, and the options of the system that moves volumes."""

    goal: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLevel:
    """The levels of a pool and the bounds of both, in GiB; a bound or a level that is not known is null.

    ``promised_gb`` are the sizes of its volumes and of claims in flight, ``used_gb`` is its physically used capacity.
    """

    promised_gb: float
    promise_limit_gb: float | None
    used_gb: float | None
    physical_limit_gb: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """One move. ``number`` is its place in the plan, from 1.

    ``reason`` is why the volume goes to that pool, in the words of the scheduler. ``after`` are the moves that make
    room for it; it may run beside all others. The levels are those of both pools when the move has ended.
    """

    number: int
    volume_id: str
    size_gb: int
    source: str
    target: str
    reason: str
    after: tuple[int, ...]
    source_level: PoolLevel
    target_level: PoolLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class StayingVolume:
    """A volume that the goal would move, but that stays in its pool for the ``reason``."""

    volume_id: str
    size_gb: int
    pool: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """The levels of a pool ``before`` the moves of a plan and ``after`` them."""

    pool: str
    before: PoolLevel
    after: PoolLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """A plan for a goal. ``goal`` names it in words; ``outcome`` tells in words whether the moves reach it.

    ``pools`` are the pools that the moves change, by their names. ``seconds`` is an estimate of the time that the moves
    take, None without one. ``sources`` are the pools that the goal takes volumes out of, also those without a move;
    a plan that is read from its record has none.
    """

    goal: str
    is_reached: bool
    outcome: str
    moves: tuple[PlannedMove, ...]
    staying: tuple[StayingVolume, ...]
    pools: tuple[PoolChange, ...] = ()
    seconds: float | None = None
    sources: tuple[str, ...] = field(default=(), compare=False)

    @property
    def used_pools(self) -> set[str]:
        """The pools that no other plan may use beside this one."""
        return {*self.sources, *(pool for move in self.moves for pool in (move.source, move.target))}

    @property
    def moved_gb(self) -> int:
        """The GiB that all moves copy."""
        return sum(move.size_gb for move in self.moves)

    @property
    def amount(self) -> str:
        """The number of moves and their GiB in words."""
        count = len(self.moves)
        return f"{count} move{'' if count == 1 else 's'} of {self.moved_gb} GiB"
