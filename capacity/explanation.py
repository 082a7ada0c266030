# SPDX-License-Identifier: Apache-2.0
"""Explanations: what every filter and weigher made of every pool, for one request."""

from dataclasses import dataclass

from tonnage.capacity.decision import Rejection


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
class PoolVerdict:
    """One pool: turned away by ``filter`` for ``rejection``, or a candidate with weights and their total."""

    pool: str
    filter: str | None = None
    rejection: Rejection | None = None
    weights: tuple[Weight, ...] = ()
    total_weight: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a request would be decided right now, without side effect. ``pool`` is None for a refusal."""

    what: str
    pool: str | None
    message: str
    verdicts: tuple[PoolVerdict, ...]
