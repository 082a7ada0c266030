# SPDX-License-Identifier: Apache-2.0
"""Explanations: the results of every filter and weigher for every pool, for one request."""

from dataclasses import dataclass

from tonnage.capacity.decision import Refusal, Rejection
from tonnage.capacity.over_subscription import AutoRatio


@dataclass(frozen=True, slots=True)
class Weight:
    """The weight of one pool by one weigher: raw, scaled to 0..1 over the candidates, and the weigher's multiplier.

    ``raw`` is ``nan`` if the weigher cannot rank the pool; such pools come last. ``failure`` is the reason why a failed
    weigher counts 0.
    """

    weigher: str
    raw: float
    scaled: float
    multiplier: float
    failure: str | None = None

    @property
    def text(self) -> str:
        """The weight as a calculation."""
        return "failed" if self.failure is not None else f"{self.raw:g} -> {self.scaled:.3f} x {self.multiplier:g}"


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """A filter that refuses a pool, and the reason."""

    filter: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """The verdict on one pool: refused by ``filter`` with ``rejection``, or a candidate with weights and their total.

    ``also`` are later filters that refuse the pool too, which a decision does not call any more; all filters of the
    explanation without a refusal accept the pool. ``headroom`` is the largest volume of the requested provisioning that
    the pool accepts now, in GiB, or ``infinite``; ``thin`` tells whether the volume would be thin. ``auto_ratio`` has
    the inputs of the ratio that limits the volume, if it is an ``auto`` ratio. ``ranked_last`` is the reason why the
    pool comes after all others whatever its weights: its backend is not responsive.
    """

    pool: str
    filter: str | None = None
    rejection: Rejection | None = None
    weights: tuple[Weight, ...] = ()
    total_weight: float | None = None
    also: tuple[FilterVerdict, ...] = ()
    headroom: float | str | None = None
    thin: bool | None = None
    auto_ratio: AutoRatio | None = None
    ranked_last: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision on a request at this time, without side effects.

    ``pool`` is None for a refusal, which ``refusal`` has as data, with the nearest miss. ``filters`` are the names of
    the called filters, in their order. ``ignored_hints`` and ``ignored_specs`` have a text for each hint, and each
    extra spec, that no enabled filter reads. ``advice`` are sentences of extensions about what would make a refused
    request possible.
    """

    request: str
    pool: str | None
    message: str
    verdicts: tuple[PoolVerdict, ...]
    filters: tuple[str, ...] = ()
    refusal: Refusal | None = None
    ignored_hints: tuple[str, ...] = ()
    ignored_specs: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def ranked(self) -> list[PoolVerdict]:
        """Return the verdicts: the chosen pool, the other candidates by weight, those ranked last, the refused pools.

        Of these, pools that the fewest filters refuse come first, then those that passed the most filters before one
        refused them, then those with the largest headroom.
        """
        return sorted(self.verdicts, key=self._distance)

    def _distance(self, verdict: PoolVerdict) -> tuple[object, ...]:
        if verdict.filter is None:
            rank_last = verdict.ranked_last is not None
            return verdict.pool != self.pool, 0, rank_last, -(verdict.total_weight or 0.0), 0.0, verdict.pool
        passed = self.filters.index(verdict.filter) if verdict.filter in self.filters else -1
        headroom = verdict.headroom if isinstance(verdict.headroom, float | int) else 0.0
        return True, 1 + len(verdict.also), False, -passed, -headroom, verdict.pool
