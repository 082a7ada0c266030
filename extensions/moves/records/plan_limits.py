# SPDX-License-Identifier: Apache-2.0
"""The limits of the execution of a plan: those of the options, and those of the administrator for this plan."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.moves.records.hours import Hours

#: The largest value of a limit: that of a column of whole numbers.
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a plan. Moves of other plans count too, except for failures.

    ``moves_per_backend`` and ``moves`` are the most moves at a time, from or to a backend and in all. ``in_flight_gb``
    are the most GiB that are copied at a time, 0 for any number; a larger volume moves alone. ``hours`` are the hours
    of the day in which moves begin, as :class:`~tonnage.extensions.moves.records.hours.Hours` reads them. The plan
    fails when ``failures`` moves have failed.
    """

    moves_per_backend: int = 2
    moves: int = 8
    in_flight_gb: int = 0
    hours: str = ""
    failures: int = 3

    def changed(self, values: Mapping[str, Any]) -> "Limits":
        """Return the limits with other values. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
        for name, value in values.items():
            if name == "hours":
                _check_hours(value)
                continue
            if name not in asdict(self):
                raise errors.InvalidInput(f"plans have no limit {name}: expected {', '.join(sorted(asdict(self)))}")
            least = 0 if name == "in_flight_gb" else 1
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
                raise errors.InvalidInput(f"{name} is {value!r}: expected a whole number from {least} to {LARGEST}")
        return replace(self, **values)


def _check_hours(value: object) -> None:
    try:
        if not isinstance(value, str):
            raise ValueError(f"{value!r}: expected a text")
        Hours.parse(value)
    except ValueError as error:
        raise errors.InvalidInput(f"hours is {error}") from None


class Load(NamedTuple):
    """A move that is under way or may begin."""

    source: str
    target: str
    size_gb: int


class Slots:
    """The moves under way, and whether the limits of a plan allow another one beside them."""

    def __init__(self, limits: Limits, moving: Iterable[Load]) -> None:
        self._limits = limits
        self._count = self._size_gb = 0
        self._per_backend: Counter[str] = Counter()
        for load in moving:
            self.take(load)

    def take(self, load: Load) -> None:
        """Count a move."""
        self._count += 1
        self._size_gb += load.size_gb
        self._per_backend.update({backend_of(load.source), backend_of(load.target)})

    def allow(self, load: Load) -> bool:
        """Return whether a move may begin beside those that are counted."""
        limits = self._limits
        if self._count >= limits.moves:
            return False
        if limits.in_flight_gb and self._count and self._size_gb + load.size_gb > limits.in_flight_gb:
            return False
        backends = {backend_of(load.source), backend_of(load.target)}
        return all(self._per_backend[backend] < limits.moves_per_backend for backend in backends)
