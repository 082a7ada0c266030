# SPDX-License-Identifier: Apache-2.0
"""The chain of the enabled weighers, which ranks the candidates."""

import logging
import numbers
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.capacity import plugin_errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.explanation import Weight
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.plugin import checked_column, log_failure
from tonnage.weighers import selection
from tonnage.weighers.base import Mask, Weigher, Weights
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.selection import Ordered, Selection

Rows = npt.NDArray[np.intp]
Ranks = npt.NDArray[np.integer[Any]]

LOG = logging.getLogger(__name__)

#: The largest absolute weight; the difference of two larger ones could overflow.
_LARGEST = 1e300

#: The largest absolute multiplier; with larger ones, the sum of a few weighers could overflow.
LARGEST_MULTIPLIER = 1e100


#: Between these multipliers, scaled weights are as different as raw ones.
_LEAST_USUAL, _LARGEST_USUAL = 1e-3, 1e6


@dataclass(frozen=True, slots=True)
class _Scores:
    """One weigher's raw and scaled weights of the candidates.

    ``unranked`` is a mask of the candidates that cannot be ranked, None if there are none. ``failure`` is the error of
    a weigher that failed; its weights are 0.
    """

    weigher: Weigher
    multiplier: float
    raw: Weights
    scaled: Weights
    unranked: Mask | None
    failure: str | None = None


class WeigherChain:
    """Ranks candidates by the sum of their scaled and multiplied weights.

    ``selection`` defines the scaling, and whether the pool with the largest sum or a random one is selected. Pools that
    a weigher cannot rank come after all others, those of a worse rank, if ranks are given, after these, and pools whose
    backends are not responsive last of all. Ties are broken by a shuffle with the request id as its seed: the same
    request and pools have the same order in every scheduler, for any order of the rows. A weigher that fails counts 0
    for every pool.
    """

    def __init__(self, weighers: Iterable[Weigher], selection: Selection | None = None) -> None:
        self.weighers = tuple(weighers)
        self._selection = Ordered() if selection is None else selection

    def with_calculation(self, calculation: Calculation) -> "WeigherChain":
        """Return a copy of this chain for another ``over_provisioning_calculation``."""
        return WeigherChain([weigher.with_calculation(calculation) for weigher in self.weighers], self._selection)

    def rank(self, pools: PoolTable, request: Request, candidates: Mask, ranks: Ranks | None = None) -> int | None:
        """Return the row of the best candidate, None if there is none.

        ``ranks`` has a number for each row of the table: the smallest one is selected before the weights count.
        """
        candidates = candidates.view()
        candidates.flags.writeable = False
        rows = np.flatnonzero(candidates)
        if rows.size == 0:
            return None
        totals, unranked = self._totals(pools, request, candidates, rows)
        scores = self._selection.scores(totals, pools, request, rows)
        tiers = _tiers(pools, rows, unranked, ranks)
        if tiers is not None:
            scores = np.where(tiers > tiers.min(), -np.inf, scores)
        return selection.first(pools, request, rows[scores == scores.max()])

    def sole_column(self, pools: PoolTable, request: Request) -> Weights | None:
        """Return the column of weights if the pool with the largest one is the best, and nothing else counts.

        Each weight depends on the pool alone, and on the ``provisioning`` of the request. None: other weighers, a
        random selection, or a multiplier of another sign or magnitude than usual.
        """
        [*others, weigher] = self.weighers or [None]
        if others or type(weigher) is not CapacityWeigher or type(self._selection) is not Ordered:
            return None
        return weigher.weigh(pools, request) if _LEAST_USUAL <= weigher.multiplier <= _LARGEST_USUAL else None

    def order(self, pools: PoolTable, request: Request, candidates: Mask, ranks: Ranks | None = None) -> Rows:
        """Return the rows of all candidates, best first; ``ranks`` as in :meth:`rank`."""
        rows = np.flatnonzero(candidates)
        if rows.size == 0:
            return rows
        totals, unranked = self._totals(pools, request, candidates, rows)
        scores = self._selection.scores(totals, pools, request, rows)
        keys: tuple[npt.NDArray[np.generic], ...] = (selection.shuffled(pools, request, rows), -scores)
        tiers = _tiers(pools, rows, unranked, ranks)
        if tiers is not None:
            keys = (*keys, tiers)
        return rows[np.lexsort(keys)]

    def weights(
        self, pools: PoolTable, request: Request, candidates: Mask
    ) -> dict[str, tuple[tuple[Weight, ...], float]]:
        """Return the weights by all weighers and the total for the name of each candidate, for explanations."""
        rows = np.flatnonzero(candidates)
        if rows.size == 0:
            return {}
        columns = [
            [
                Weight(scores.weigher.name, raw, scaled, scores.multiplier, scores.failure)
                for raw, scaled in zip(scores.raw.tolist(), scores.scaled.tolist(), strict=True)
            ]
            for scores in self._scores(pools, request, candidates, rows)
        ]
        totals = self._totals(pools, request, candidates, rows)[0].tolist()
        return {
            pools.names[row]: (tuple(column[i] for column in columns), totals[i]) for i, row in enumerate(rows.tolist())
        }

    def _totals(self, pools: PoolTable, request: Request, candidates: Mask, rows: Rows) -> tuple[Weights, Mask | None]:
        """Return the candidates' totals, and a mask of those that some weigher cannot rank."""
        totals: Weights | None = None
        unranked: Mask | None = None
        for scores in self._scores(pools, request, candidates, rows):
            multiplier = abs(scores.multiplier) if self._selection.reverses else scores.multiplier
            part = scores.scaled if multiplier == 1 else scores.scaled * multiplier
            totals = part if totals is None else totals + part
            if scores.unranked is not None:
                unranked = scores.unranked if unranked is None else unranked | scores.unranked
        return np.zeros(rows.size) if totals is None else totals, unranked

    def _scores(self, pools: PoolTable, request: Request, candidates: Mask, rows: Rows) -> Iterator[_Scores]:
        read_only = candidates.view()
        read_only.flags.writeable = False
        for weigher in self.weighers:
            try:
                multiplier = _multiplier(weigher.multiplier)
                column = _checked(weigher.weigh_candidates(pools, request, read_only), len(pools))
            except plugin_errors.CAUGHT as error:
                failure = plugin_errors.described(error)
                log_failure(LOG, "Weigher %s failed and counts 0 for every pool: %s", weigher.name, failure)
                zeros = np.zeros(rows.size)
                yield _Scores(weigher, 0.0, zeros, zeros, None, failure)
                continue
            raw = column if rows.size == len(pools) else column[rows]
            yield _Scores(weigher, multiplier, raw, *self._scaled(raw, multiplier))

    def _scaled(self, raw: Weights, multiplier: float) -> tuple[Weights, Mask | None]:
        """Return the weights scaled to 0..1, and a mask of those that are not finite (scaled to 0)."""
        low, high = float(raw.min()), float(raw.max())
        if -_LARGEST <= low <= high <= _LARGEST:
            return self._selection.scaled(raw, low, high, multiplier), None
        finite = np.isfinite(raw)
        if not finite.any():
            return np.zeros(raw.size), ~finite
        scaled = np.zeros(raw.size)
        scaled[finite], _ = self._scaled(np.clip(raw[finite], -_LARGEST, _LARGEST), multiplier)
        return scaled, None if finite.all() else ~finite


def _tiers(pools: PoolTable, rows: Rows, unranked: Mask | None, ranks: Ranks | None) -> npt.NDArray[np.int_] | None:
    """Return the tier of each candidate: a pool is selected only if no candidate has a lower one. None: all have one.

    A responsive pool has a lower tier than one that is not, of two that are the one of a better rank, and of two of the
    same rank the one that is not ``unranked``.
    """
    # The usual case, in which the column is only read.
    all_responsive = bool(pools.responsive.all())
    if ranks is None and all_responsive:
        return None if unranked is None else unranked.astype(np.int_)
    tiers = np.zeros(rows.size, dtype=np.int_) if ranks is None else ranks[rows].astype(np.int_) * 2
    if unranked is not None:
        tiers = tiers + unranked
    if all_responsive:
        return tiers
    return np.where(pools.responsive[rows], tiers, tiers + (tiers.max() - tiers.min() + 1))


def _checked(weights: object, rows: int) -> Weights:
    return checked_column(weights, rows, "fiu", "floats").astype(np.float64, copy=False)


def _multiplier(value: object) -> float:
    if type(value) is not float and not isinstance(value, numbers.Real):
        raise TypeError(f"its multiplier is {plugin_errors.type_text(value)}, expected a number")
    multiplier = float(value)
    # nan is not smaller either.
    if not abs(multiplier) <= LARGEST_MULTIPLIER:
        raise ValueError(f"its multiplier is {multiplier}, expected a number of at most {LARGEST_MULTIPLIER:g}")
    return multiplier
