# SPDX-License-Identifier: Apache-2.0
"""The goal to bring a pool below a share of one of its bounds."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tonnage.extensions.moves.goals import pool_names
from tonnage.extensions.moves.goals.arguments import Percent, Text, Word
from tonnage.extensions.moves.goals.goal import PHYSICAL, PROMISED, LevelGoal
from tonnage.extensions.moves.planning.plan import MovePlan

if TYPE_CHECKING:
    from tonnage.extensions.moves.planning.pool_model import PoolModel


class Relieve(LevelGoal):
    """Moves volumes out of a pool until at most ``below`` percent of a bound are used."""

    name = "relieve"
    summary = "move volumes out of a pool until it is below a share of its bound"
    arguments = (
        Text(name="pool", summary="the pool", names_pools=True),
        Percent(name="below", summary="the share of the bound"),
        Word(name="bound", summary="the bound", words=(PHYSICAL, PROMISED), default=PHYSICAL),
    )

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._pool, self._below, self.bound = values["pool"], values["below"], values["bound"]

    def plan(self, model: "PoolModel") -> MovePlan:
        from tonnage.extensions.moves.planning import room

        pool_names.require(model.pools, [self._pool])
        model.sources.add(self._pool)
        text = f"relieve {self._pool} until at most {self._below:g} % of its {self.bound} bound are used"
        figures = self.used_and_limit(model, self._pool)
        if figures is None:
            outcome = f"the {self.bound} bound of {self._pool} is not known"
            return model.plan(text, outcome, is_reached=False)
        used, limit = figures
        needed = used - limit * self._below / 100
        share = f"{100 * used / limit:.1f} %"
        if needed <= 0:
            return model.plan(text, f"{share} are used", is_reached=True)
        demand = room.Demand(self._pool, needed, self.freed_gb(model, self._pool))
        if room.free(model, demand) is not None:
            freed_gb, staying = room.free_most(model, demand)
            if freed_gb < needed:
                outcome = _partial(share, 100 * (used - freed_gb) / limit, needed - freed_gb, len(staying))
                return model.plan(text, outcome, is_reached=False, staying=staying)
        outcome = f"from {share} to {self._below:g} % or less"
        return model.plan(text, outcome, is_reached=True)


def _partial(share: str, percent_after: float, missing_gb: float, staying: int) -> str:
    """Return the outcome of a plan that frees less than is needed."""
    text = f"{percent_after:.1f} %"
    way = f"{share} are used" if text == share else f"from {share} to {text}"
    if not staying:
        return f"{way}; {missing_gb:.1f} GiB more must become free, and no volume is left that frees any"
    stay = "the volume that frees more stays" if staying == 1 else f"the {staying} volumes that free more stay"
    return f"{way}; {missing_gb:.1f} GiB more must become free, but {stay}"
