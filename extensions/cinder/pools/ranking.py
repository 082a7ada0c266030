# SPDX-License-Identifier: Apache-2.0
"""The order of pools by their weights, as Cinder's weight handler makes it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]

_Weighed = TypeVar("_Weighed")


def scaled(raw: Weights, low: float, high: float) -> Weights:
    """Return weights scaled so that ``low`` is 0 and ``high`` is 1; all 0 if these are equal."""
    return np.zeros(len(raw)) if low == high else (raw - low) / (high - low)


class Ranking(Sequence[_Weighed]):
    """Weighed pools, best first, and equal ones in their order. They are made only when they are asked for.

    ``totals`` are the weights, and ``make`` returns the weighed pool at an index of them.
    """

    def __init__(self, totals: Weights, make: Callable[[int, float], _Weighed]) -> None:
        self._totals, self._make = totals, make
        self._order: list[int] | None = None
        self._made: dict[int, _Weighed] = {}

    def __len__(self) -> int:
        return len(self._totals if self._order is None else self._order)

    def __iter__(self) -> Iterator[_Weighed]:
        if self._order is None and len(self):
            yield self._at(int(self._totals.argmax()))  # most callers want no more
            yield from map(self._at, self._indices()[1:])
        else:
            yield from map(self._at, self._indices())

    def remove(self, weighed: _Weighed) -> None:
        """Leave out a pool, as Cinder's scheduler does with pools of other backends than the requested one."""
        removed = next(index for index, made in self._made.items() if made is weighed)
        self._indices().remove(removed)

    @overload
    def __getitem__(self, index: int) -> _Weighed: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Weighed]: ...
    def __getitem__(self, index: Any) -> Any:
        selected = self._indices()[index]
        return list(map(self._at, selected)) if isinstance(selected, list) else self._at(selected)

    def _indices(self) -> list[int]:
        if self._order is None:
            self._order = np.argsort(-self._totals, kind="stable").tolist()
        return self._order

    def _at(self, index: int) -> _Weighed:
        if index not in self._made:
            self._made[index] = self._make(index, float(self._totals[index]))
        return self._made[index]
