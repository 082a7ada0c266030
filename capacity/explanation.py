# SPDX-License-Identifier: Apache-2.0
"""Explanations: what every filter and weigher made of every pool, for one request."""

from dataclasses import dataclass

from tonnage.capacity.decision import Refusal, Rejection
from tonnage.capacity.over_subscription import WorkedOut


@dataclass(frozen=True, slots=True)
class Weight:
    """What one weigher gave one pool: raw, scaled to 0..1 over the candidates, and the multiplier that it counts with.

    ``raw`` is ``nan`` where the weigher cannot rank the pool; such pools come last. ``failure`` says why a weigher that
    failed counts nothing.
    """

    weigher: str
    raw: float
    scaled: float
    multiplier: float
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """A filter that refuses a pool, and why."""

    filter: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """One pool: turned away by ``filter`` for ``rejection``, or a candidate with weights and their total.

    ``also`` are filters further down that would turn it away too, which a decision does not ask any more; every filter
    of the explanation that is named in neither accepts the pool. ``headroom`` is the largest volume of the kind asked
    for that the pool would be given right now, in GiB, or ``infinite``; ``thin`` tells whether it would be thin.
    ``auto_ratio`` is how a ratio that binds it was worked out, if it is an ``auto`` one.
    """

    pool: str
    filter: str | None = None
    rejection: Rejection | None = None
    weights: tuple[Weight, ...] = ()
    total_weight: float | None = None
    also: tuple[FilterVerdict, ...] = ()
    headroom: float | str | None = None
    thin: bool | None = None
    auto_ratio: WorkedOut | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a request would be decided right now, without side effect.

    ``pool`` is None for a refusal, which ``refusal`` has as data, with the nearest miss. ``filters`` are those that
    were asked, in their order. ``ignored_hints`` says of hints that none of them looks at who would.
    """

    what: str
    pool: str | None
    message: str
    verdicts: tuple[PoolVerdict, ...]
    filters: tuple[str, ...] = ()
    refusal: Refusal | None = None
    ignored_hints: tuple[str, ...] = ()
