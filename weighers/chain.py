# SPDX-License-Identifier: Apache-2.0
"""The weighers together: which candidate is best, and which come next."""

import functools
import logging
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tonnage.capacity.explanation import Weight
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.pools import stable_hash
from tonnage.capacity.request import Request
from tonnage.weighers.base import Mask
from tonnage.weighers.base import Weigher
from tonnage.weighers.base import Weights

LOG = logging.getLogger(__name__)

# Odd constants of the splitmix64 generator, by Sebastiano Vigna.
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

#: Beyond this a difference of two weights would overflow.
_LARGEST = 1e300


@dataclass(frozen=True, slots=True)
class _Scores:
    """One weigher's raw and scaled weights of the candidates; ``unranked`` is None where every one can be ranked."""

    weigher: Weigher
    raw: Weights
    scaled: Weights
    unranked: Mask | None


class WeigherChain:
    """Ranks candidates by the sum of what the weighers give them.

    Each weigher's raw weights are scaled to 0..1 over the candidates (all equal: 0) and multiplied. Pools that a
    weigher cannot rank come after all others. Ties are broken by a shuffle that the request id seeds: the same request
    and pools give the same order in every scheduler, whatever the rows' order. A weigher that fails counts 0 for every
    pool.
    """

    def __init__(self, weighers: Iterable[Weigher]) -> None:
        self.weighers = tuple(weighers)

    def rank(self, pools: PoolTable, request: Request, candidates: Mask) -> int | None:
        """Return the row of the best candidate; None if there is none."""
        rows = np.flatnonzero(candidates)
        if rows.size == 0:
            return None
        totals, unranked = self._totals(pools, request, candidates, rows)
        if unranked is not None and not unranked.all():
            totals = np.where(unranked, -np.inf, totals)
        best = rows[totals == totals.max()]
        if best.size == 1:
            return int(best[0])
        return int(best[_shuffle(pools, request, best).argmin()])

    def order(self, pools: PoolTable, request: Request, candidates: Mask) -> npt.NDArray[np.intp]:
        """Return the rows of all candidates, best first."""
        rows = np.flatnonzero(candidates)
        if rows.size == 0:
            return rows
        totals, unranked = self._totals(pools, request, candidates, rows)
        keys: tuple[npt.NDArray[np.generic], ...] = (_shuffle(pools, request, rows), -totals)
        if unranked is not None:
            keys = (*keys, unranked)
        return rows[np.lexsort(keys)]

    def weights(
        self, pools: PoolTable, request: Request, candidates: Mask
    ) -> dict[str, tuple[tuple[Weight, ...], float]]:
        """Return for each candidate, by name, what every weigher gave it, and the total: for explanations."""
        rows = np.flatnonzero(candidates)
        if rows.size == 0:
            return {}
        columns = [
            [
                Weight(scores.weigher.name, raw, scaled, scores.weigher.multiplier)
                for raw, scaled in zip(scores.raw.tolist(), scores.scaled.tolist(), strict=True)
            ]
            for scores in self._scores(pools, request, candidates, rows)
        ]
        totals = self._totals(pools, request, candidates, rows)[0].tolist()
        return {
            pools.names[row]: (tuple(column[i] for column in columns), totals[i]) for i, row in enumerate(rows.tolist())
        }

    def _totals(
        self, pools: PoolTable, request: Request, candidates: Mask, rows: npt.NDArray[np.intp]
    ) -> tuple[Weights, Mask | None]:
        """Return the candidates' totals, and which of them some weigher cannot rank."""
        totals = np.zeros(rows.size)
        unranked: Mask | None = None
        for scores in self._scores(pools, request, candidates, rows):
            totals += scores.scaled * scores.weigher.multiplier
            if scores.unranked is not None:
                unranked = scores.unranked if unranked is None else unranked | scores.unranked
        return totals, unranked

    def _scores(
        self, pools: PoolTable, request: Request, candidates: Mask, rows: npt.NDArray[np.intp]
    ) -> Iterator[_Scores]:
        asked = candidates.view()
        asked.flags.writeable = False
        for weigher in self.weighers:
            try:
                column = _checked(weigher.weigh_candidates(pools, request, asked), len(pools))
            except Exception as error:
                _log_failure(weigher.name, f"{type(error).__name__}: {error}")
                nothing = np.zeros(rows.size)
                yield _Scores(weigher, nothing, nothing, None)
                continue
            raw = column if rows.size == len(pools) else column[rows]
            yield _Scores(weigher, raw, *_scaled(raw))


def _scaled(raw: Weights) -> tuple[Weights, Mask | None]:
    """Return the weights scaled to 0..1, and which of them are no numbers to rank by (scaled to 0)."""
    low, high = float(raw.min()), float(raw.max())
    if not (-_LARGEST <= low <= high <= _LARGEST):
        finite = np.isfinite(raw)
        if not finite.any():
            return np.zeros(raw.size), ~finite
        ranked, _ = _scaled(np.clip(raw[finite], -_LARGEST, _LARGEST))
        scaled = np.zeros(raw.size)
        scaled[finite] = ranked
        return scaled, None if finite.all() else ~finite
    if low == high:
        return np.zeros(raw.size), None
    scaled = raw - low
    scaled /= high - low
    return scaled, None


def _shuffle(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """Return numbers that order these rows at random, the same whenever the request id and the pools' names are."""
    mixed = pools.name_hash[rows] ^ np.uint64(stable_hash(request.request_id))
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint64(31)
    mixed *= _MIX_2
    return mixed


def _checked(weights: object, rows: int) -> Weights:
    if not isinstance(weights, np.ndarray) or weights.dtype.kind not in "fiu" or weights.shape != (rows,):
        raise TypeError(f"returned {_brief(weights)}, expected an array of {rows} floats")
    return weights.astype(np.float64, copy=False)


def _brief(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"


@functools.lru_cache(maxsize=1000)
def _log_failure(name: str, failure: str) -> None:
    """Log a failure; the cache makes it once per message, however many decisions meet it."""
    LOG.error("Weigher %s failed and counts 0 for every pool: %s", name, failure, exc_info=sys.exception())
