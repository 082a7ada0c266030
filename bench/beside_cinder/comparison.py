# SPDX-License-Identifier: Apache-2.0
"""Where two answers to a case differ."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beside_cinder import ours
from beside_cinder.cases import WEIGHERS, Case, PoolCase

#: Weights that are closer than this share of their size are the same: two ways to calculate one number.
_NEAR = 1e-9

#: What stands for a weigher's name where it is the order of the pools that differs.
ORDER = "order"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the two do not agree in.

    ``part`` is the filter or weigher, or :data:`ORDER`; ``place`` is that of the pool in the case. ``here`` and
    ``there`` are verdicts or raw weights, or the error that Cinder failed with; of the order two pools, best first.
    """

    case: Case
    answer: ours.Answer
    part: str
    place: int
    here: Any
    there: Any

    @property
    def pool(self) -> PoolCase:
        """The pool that is judged differently."""
        return self.case.pools[self.place]

    @property
    def failed(self) -> str:
        """The type of the error that Cinder failed with, empty if it did not."""
        return self.there.partition(":")[0] if isinstance(self.there, str) else ""


def differences(case: Case, answer: ours.Answer, theirs: Any) -> Iterator[Difference]:
    """Yield all differences of a case; ``theirs`` is what Cinder said."""
    if case.plugin != WEIGHERS:
        for place, (here, there) in enumerate(zip(answer.verdicts, theirs, strict=True)):
            if here != there:
                yield Difference(case, answer, case.plugin, place, here, there)
    elif answer.refused is not None or answer.left_out or isinstance(theirs, str):
        yield Difference(case, answer, WEIGHERS, next(iter(answer.left_out), 0), answer.refused or "", theirs)
    else:
        yield from _of_weights(case, answer, theirs)


def _of_weights(case: Case, answer: ours.Answer, theirs: Any) -> Iterator[Difference]:
    other: set[str] = set()
    for weigher, raw in answer.raw.items():
        for place, pool in enumerate(case.pools):
            here, there = raw[pool.name], theirs["raw"][weigher][place]
            if not same(here, there):
                other.add(pool.name)
                yield Difference(case, answer, weigher, place, here, there)
    if other and len(case.weighers) > 1:
        return  # each weight is scaled by the others, so one that differs may move all
    ranks = {name: rank for rank, name in enumerate(answer.order)}
    for one, two in itertools.combinations([pool.name for pool in case.pools if pool.name not in other], 2):
        gap = theirs["totals"][one] - theirs["totals"][two]
        first, second = (one, two) if gap > 0 else (two, one)
        if abs(gap) > _NEAR * sum(map(abs, case.weighers.values())) and ranks[first] > ranks[second]:
            place = next(place for place, pool in enumerate(case.pools) if pool.name == first)
            yield Difference(case, answer, ORDER, place, (second, first), (first, second))


def same(one: float, two: float) -> bool:
    """Tell whether two weights, or verdicts, are the same."""
    return one == two or math.isclose(one, two, rel_tol=_NEAR, abs_tol=_NEAR)
