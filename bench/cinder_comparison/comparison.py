# SPDX-License-Identifier: Apache-2.0
"""The differences between Tonnage's and Cinder's answers to a case."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cinder_comparison import tonnage_answers
from cinder_comparison.cases import WEIGHERS, Case, PoolCase

#: Relative tolerance for equal weights, which the two compute by different formulas.
_NEAR = 1e-9

#: Replaces a weigher's name if the order of the pools differs.
ORDER = "order"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the two answers.

    ``part`` is the filter or weigher, or :data:`ORDER`; ``place`` is the index of the pool in the case. ``here`` and
    ``there`` are the verdicts or raw weights of Tonnage and of Cinder, or Cinder's error; for the order two pools, best
    first.
    """

    case: Case
    answer: tonnage_answers.Answer
    part: str
    place: int
    here: Any
    there: Any

    @property
    def pool(self) -> PoolCase:
        """The pool with the difference."""
        return self.case.pools[self.place]

    @property
    def failed(self) -> str:
        """The type of Cinder's error, empty without an error."""
        return self.there.partition(":")[0] if isinstance(self.there, str) else ""


def differences(case: Case, answer: tonnage_answers.Answer, theirs: Any) -> Iterator[Difference]:
    """Yield all differences of a case; ``theirs`` is Cinder's answer."""
    if case.plugin != WEIGHERS:
        for place, (here, there) in enumerate(zip(answer.verdicts, theirs, strict=True)):
            if here != there:
                yield Difference(case, answer, case.plugin, place, here, there)
    elif answer.refused is not None or answer.left_out or isinstance(theirs, str):
        yield Difference(case, answer, WEIGHERS, next(iter(answer.left_out), 0), answer.refused or "", theirs)
    else:
        yield from _of_weights(case, answer, theirs)


def _of_weights(case: Case, answer: tonnage_answers.Answer, theirs: Any) -> Iterator[Difference]:
    other: set[str] = set()
    for weigher, raw in answer.raw.items():
        for place, pool in enumerate(case.pools):
            here, there = raw[pool.name], theirs["raw"][weigher][place]
            if not same(here, there):
                other.add(pool.name)
                yield Difference(case, answer, weigher, place, here, there)
    if other and len(case.weighers) > 1:
        return  # weights are scaled together, so one different weight may change all totals
    ranks = {name: rank for rank, name in enumerate(answer.order)}
    for one, two in itertools.combinations([pool.name for pool in case.pools if pool.name not in other], 2):
        gap = theirs["totals"][one] - theirs["totals"][two]
        first, second = (one, two) if gap > 0 else (two, one)
        if abs(gap) > _NEAR * sum(map(abs, case.weighers.values())) and ranks[first] > ranks[second]:
            place = next(place for place, pool in enumerate(case.pools) if pool.name == first)
            yield Difference(case, answer, ORDER, place, (second, first), (first, second))


def same(one: float, two: float) -> bool:
    """Return whether two weights, or verdicts, are equal."""
    return one == two or math.isclose(one, two, rel_tol=_NEAR, abs_tol=_NEAR)
