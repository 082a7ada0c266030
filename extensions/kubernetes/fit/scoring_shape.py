# SPDX-License-Identifier: Apache-2.0
"""The scoring shape: the score of a node by the utilization that its storage would have with a pod's volumes.

It is the shape of KEP-4049: scores at some utilizations, with straight lines between them.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tonnage.extensions.kubernetes.fit.node_decision import Decision

#: The largest score of an extender of kube-scheduler. The smallest is 0.
MAX_SCORE = 10

Scores: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoringShape:
    """Points of utilization in percent, which increase, and score, 0 to 10. Outside of them the score is constant."""

    points: Sequence[tuple[float, float]]

    def __post_init__(self) -> None:
        """Raise ValueError for points that do not form a shape."""
        utilizations = [utilization for utilization, _ in self.points]
        if not utilizations:
            raise ValueError("it has no points")
        if any(not 0 <= utilization <= 100 for utilization in utilizations):
            raise ValueError("a utilization is 0 to 100")
        if any(later <= earlier for earlier, later in itertools.pairwise(utilizations)):
            raise ValueError("the utilizations have to increase")
        if any(not 0 <= score <= MAX_SCORE for _, score in self.points):
            raise ValueError(f"a score is 0 to {MAX_SCORE}")

    def scores(self, decision: Decision) -> Scores:
        """Return the score of each node by the utilization of the fullest pool that the volumes use together.

        It is 0 for nodes that do not take the volumes.
        """
        utilizations, scores = zip(*self.points, strict=True)
        node_scores = np.interp((1 - decision.remaining_fraction()) * 100, utilizations, scores)
        return np.where(decision.packing.fits, node_scores, 0.0)

    def priorities(self, decision: Decision) -> list[int]:
        """Return the scores as whole numbers, in which the nodes with the highest score stay above all others."""
        exact = self.scores(decision)
        whole = np.floor(exact + 1e-9).astype(int)
        if not len(whole):
            return []
        best = exact >= exact.max() - 1e-9
        beaten = ~best & (whole == whole[best].max())
        if beaten.any():
            whole[beaten] -= 1
            if whole.min() < 0:
                whole[best] += 1
                whole = np.maximum(whole, 0)
        return [int(score) for score in whole]


SPREAD = ScoringShape([(0, MAX_SCORE), (100, 0)])
PACK = ScoringShape([(0, 0), (100, MAX_SCORE)])

#: Shapes with a name.
NAMED: Mapping[str, ScoringShape] = {"spread": SPREAD, "pack": PACK}


def parse(text: str) -> ScoringShape:
    """Return the shape with a name, or with points ``utilization:score``, separated by commas. Raises ValueError."""
    if text in NAMED:
        return NAMED[text]
    points = []
    for point in text.split(","):
        utilization, separator, score = point.partition(":")
        try:
            points.append((float(utilization), float(score)))
        except ValueError:
            separator = ""
        if not separator:
            raise ValueError(f"{point.strip()!r} is neither {' nor '.join(NAMED)}, and no point utilization:score")
    return ScoringShape(points)
