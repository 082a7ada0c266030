# SPDX-License-Identifier: Apache-2.0
"""How pools stand for one kind of request, kept from one decision to the next.

A pool stands by two numbers: its room, the size up to which it takes requests of that kind, and its score, by which it
is ranked. So a decision looks for the best score that has room, and a claim costs the work for the pool that it is in.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tonnage.capacity.elementwise import Floats
from tonnage.capacity.pools.derived_columns import ChangedRows

#: What something comes to for a pool, or for each of a table of pools: a function of figures and flags alone, written
#: as those of :mod:`tonnage.capacity.arithmetic` are. What is ``==`` comes to the same.
Formula: TypeAlias = Callable[[Any], Floats]

Column: TypeAlias = npt.NDArray[np.float64]

#: For so many kinds of requests it is kept; beyond that those go that were not asked for the longest time.
MOST = 16

#: Up to so many rows are worked out one by one.
_FEW = 8


class Pools(Protocol):
    """What the table of pools is asked for."""

    def __len__(self) -> int: ...
    def take(self, rows: npt.NDArray[np.intp]) -> Self: ...
    def evaluate(self, formula: Formula) -> Column: ...
    def one(self, row: int) -> Any: ...


class Kind(NamedTuple):
    """A kind of request: whatever is asked alike but for its size.

    ``key`` tells kinds apart. ``admitted`` are the pools that take them at all, whatever else changes in their figures,
    ``rooms`` the sizes up to which they do, of which the least counts, and ``weight`` is what they are ranked by: times
    ``sign``, that is, which is -1 where less is better.
    """

    key: Hashable
    admitted: Callable[[], npt.NDArray[np.bool_]]
    rooms: Collection[Formula]
    weight: Formula
    sign: float


@dataclass(slots=True)
class Standing:
    """``room`` and ``score`` of each row, with space for rows to come.

    A pool that is not admitted has no room, ``-inf``. Its score is ``-inf`` as well, and that of one that cannot be
    ranked. ``floor`` is at most the least of the other scores. ``seen`` is how many changes are contained in all this,
    ``traits_seen`` how many of traits are contained in ``admitted``.
    """

    room: Column
    score: Column
    floor: float
    seen: int
    admitted: npt.NDArray[np.bool_]
    traits_seen: int


class Standings:
    """How the pools of one table stand, for the kinds of requests that were asked for last.

    Reading is thread-safe, as long as nobody changes the table.
    """

    def __init__(self, changes: ChangedRows, trait_changes: ChangedRows) -> None:
        self._changes = changes
        self._trait_changes = trait_changes
        self._kept: OrderedDict[Hashable, Standing] = OrderedDict()
        self._lock = threading.RLock()

    def of(self, pools: Pools, kind: Kind) -> Standing:
        """Return how pools stand now. What a formula raises is raised."""
        with self._lock:
            kept = self._kept.get(kind.key)
            rows = None if kept is None else self._changes.since(kept.seen, len(pools))
            if kept is None or rows is None or len(pools) > len(kept.room):
                return self._keep(pools, kind)
            if rows:
                if kept.traits_seen != self._trait_changes.now:
                    kept.admitted, kept.traits_seen = kind.admitted(), self._trait_changes.now
                _bring_up_to_date(kept, pools, kind, rows)
            kept.seen = self._changes.now
            self._kept.move_to_end(kind.key)
            return kept

    def _keep(self, pools: Pools, kind: Kind) -> Standing:
        count, admitted = len(pools), kind.admitted()
        both = np.full((2, count + count // 8 + 16), -np.inf)
        both[:, :count] = _worked_out(pools, kind, admitted)
        kept = self._kept[kind.key] = Standing(
            both[0], both[1], _least(both[1]), self._changes.now, admitted, self._trait_changes.now
        )
        self._kept.move_to_end(kind.key)
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return kept


def _bring_up_to_date(kept: Standing, pools: Pools, kind: Kind, rows: Collection[int]) -> None:
    if len(rows) > _FEW:
        many = np.fromiter(rows, dtype=np.intp, count=len(rows))
        kept.room[many], scores = _worked_out(pools.take(many), kind, kept.admitted[many])
        kept.score[many] = scores
        kept.floor = min(kept.floor, _least(scores))
        return
    for row in rows:
        kept.room[row], kept.score[row] = _of_one(pools, kind, row) if kept.admitted[row] else (-math.inf, -math.inf)
        if -math.inf < kept.score[row] < kept.floor:
            kept.floor = float(kept.score[row])


def _of_one(pools: Pools, kind: Kind, row: int) -> tuple[float, float]:
    """Return room and score of one row."""
    pool, room = pools.one(row), math.inf
    for formula in kind.rooms:
        size = float(formula(pool))
        if not size >= room:
            room = size if size == size else -math.inf
    weight = kind.sign * float(kind.weight(pool))
    return room, weight if -math.inf < weight < math.inf else -math.inf


def _worked_out(pools: Pools, kind: Kind, admitted: npt.NDArray[np.bool_]) -> tuple[Column, Column]:
    """Return the room and the score of each row."""
    room = np.minimum.reduce([np.full(len(pools), np.inf), *map(pools.evaluate, kind.rooms)])
    weight = kind.sign * pools.evaluate(kind.weight)
    return np.where(admitted, room, -np.inf), np.where(admitted & np.isfinite(weight), weight, -np.inf)


def _least(scores: Column) -> float:
    return float(np.min(scores, where=scores > -np.inf, initial=np.inf))
