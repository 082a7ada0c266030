# SPDX-License-Identifier: Apache-2.0
"""The base class of goals, and their arguments.

A goal is a class under the entry point group ``tonnage.moves.goals``. It takes volumes out of pools on a
:class:`~tonnage.extensions.moves.planning.pool_model.PoolModel`, which chooses their new pools and obeys the bounds.
"""

import abc
import math
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from tonnage.capacity import errors
from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.moves.planning.pool_model import PoolModel

PHYSICAL, PROMISED = "physical", "promised"


class Arguments:
    """The arguments of a goal, each read once. Errors name the argument and its value."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text. Raises :class:`~tonnage.capacity.errors.InvalidInput` if there is none and no default."""
        value = self._values.pop(name, default)
        if not isinstance(value, str) or (not value and default is None):
            raise errors.InvalidInput(f"{name} is {value!r}: expected a text")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, which is empty if it is missing."""
        values = self._values.pop(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
            raise errors.InvalidInput(f"{name} is {values!r}: expected a list of texts")
        return values

    def number(self, name: str, default: float | None = None, *, least: float = 0, most: float = math.inf) -> float:
        """Return a number within bounds."""
        value = self._values.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            bounds = f"from {least:g} to {most:g}" if math.isfinite(most) else f"of at least {least:g}"
            raise errors.InvalidInput(f"{name} is {value!r}: expected a number {bounds}")
        return float(value)

    def whole(self, name: str, default: int | None = None, *, most: int) -> int:
        """Return a whole number of at least 1."""
        number = self.number(name, default, least=1, most=most)
        if number != int(number):
            raise errors.InvalidInput(f"{name} is {number!r}: expected a whole number")
        return int(number)

    def word(self, name: str, words: Collection[str], default: str) -> str:
        """Return one of some words."""
        value = self.text(name, default)
        if value not in words:
            raise errors.InvalidInput(f"{name} is {value!r}: expected {' or '.join(words)}")
        return value

    def end(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.InvalidInput` if arguments are left that the goal does not have."""
        if self._values:
            raise errors.InvalidInput(f"the goal has no argument {', '.join(sorted(self._values))}")


class Goal(abc.ABC):
    """A goal of plans. It is made for one plan."""

    #: The name by which users ask for it.
    name: ClassVar[str]
    #: Its meaning in a few words, for lists.
    summary: ClassVar[str]

    @abc.abstractmethod
    def __init__(self, arguments: Arguments) -> None:
        """Read the arguments. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""

    @abc.abstractmethod
    def plan(self, model: PoolModel) -> MovePlan:
        """Move volumes on the model, and return the plan.

        Raises :class:`~tonnage.capacity.errors.NotFound` for a pool or a backend that is not there.
        """


class LevelGoal(Goal):
    """A goal about the share of a pool's bound that is used: physically, or by promises."""

    bound: str

    def used_and_limit(self, model: PoolModel, pool: str) -> tuple[float, float] | None:
        """Return the used GiB of the bound and its limit; None if either is not known."""
        level = model.level(pool)
        used, limit = (
            (level.used_gb, level.physical_limit_gb)
            if self.bound == PHYSICAL
            else (level.promised_gb, level.promise_limit_gb)
        )
        return None if used is None or not limit else (used, limit)
