# SPDX-License-Identifier: Apache-2.0
"""The base class of goals.

A goal is a class under the entry point group ``tonnage.moves.goals``. It takes volumes out of pools on a
:class:`~tonnage.extensions.moves.planning.pool_model.PoolModel`, which chooses their new pools and obeys the bounds.

The commands load the classes for the arguments of their command lines. So modules of goals import the parts that plan
in the methods that use them: these take a second to load.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tonnage.extensions.moves.goals.arguments import Argument
from tonnage.extensions.moves.planning.plan import MovePlan

if TYPE_CHECKING:
    from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
    from tonnage.extensions.moves.planning.pool_model import PoolModel

PHYSICAL, PROMISED = "physical", "promised"


class Goal(abc.ABC):
    """A goal of plans. It is made for one plan."""

    #: The name by which users ask for it.
    name: ClassVar[str]
    #: Its meaning in a few words, for lists.
    summary: ClassVar[str]
    #: Its arguments; the first is the subject, which follows the goal on a command line.
    arguments: ClassVar[Sequence[Argument]]

    @abc.abstractmethod
    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take the values of all arguments by their names. Missing ones have their defaults."""

    @abc.abstractmethod
    def plan(self, model: "PoolModel") -> MovePlan:
        """Move volumes on the model, and return the plan.

        Raises :class:`~tonnage.capacity.errors.NotFound` for a pool or a backend that is not there.
        """


class LevelGoal(Goal):
    """A goal about the share of a pool's bound that is used: physically, or by promises."""

    bound: str

    def used_and_limit(self, model: "PoolModel", pool: str) -> tuple[float, float] | None:
        """Return the used GiB of the bound and its limit; None if either is not known."""
        level = model.level(pool)
        used, limit = (
            (level.used_gb, level.physical_limit_gb)
            if self.bound == PHYSICAL
            else (level.promised_gb, level.promise_limit_gb)
        )
        return None if used is None or not limit else (used, limit)

    def freed_gb(self, model: "PoolModel", pool: str) -> "Callable[[PlacedVolume], float]":
        """Return a function that returns the GiB of the bound that the move of a volume out of a pool frees.

        How much of a thin volume is written is not known. For the physical bound it counts with the same share as the
        average of its pool: of a pool with 100 GiB used and 400 GiB promised a volume of 40 GiB frees about 10 GiB.
        """
        level = model.level(pool)
        written = min(1.0, (level.used_gb or 0.0) / level.promised_gb) if level.promised_gb > 0 else 0.0

        def freed(volume: "PlacedVolume") -> float:
            is_whole = volume.is_thick or self.bound == PROMISED
            return volume.size_gb if is_whole else volume.size_gb * written

        return freed
