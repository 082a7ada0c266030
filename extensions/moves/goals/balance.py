# SPDX-License-Identifier: Apache-2.0
"""The goal to balance pools: none is used much more than their mean."""

import itertools
from collections.abc import Sequence

import numpy as np

from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.moves.goals import pool_names
from tonnage.extensions.moves.goals.goal import PROMISED, Arguments, LevelGoal
from tonnage.extensions.moves.planning import room
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
from tonnage.extensions.moves.planning.plan import MovePlan, StayingVolume
from tonnage.extensions.moves.planning.pool_model import Figures, PoolModel
from tonnage.extensions.moves.planning.room import Demand

#: Most pools above the level for which it is tried that others pass volumes on, and how often one of them does.
_MOST_POOLS, _MOST_ROUNDS = 50, 200

#: The levels of pools are rounded to this.
_TOLERANCE_GB = 0.01


class Balance(LevelGoal):
    """Moves volumes among pools until no pool promises more than ``points`` of its limit above the mean of all.

    The mean is ``sum(promised) / sum(limits)``, which moves among the pools do not change. Each pool that is above the
    mean and ``points`` loses the fewest GiB that bring it there, the fullest pool first, and nothing moves into a pool
    that would be above it then.

    Example: pools of 100 GiB with 90, 30 and 30 GiB promised have the mean 50 %. With 10 points the first one gives at
    least 30 GiB away.
    """

    name = "balance"
    summary = "move volumes among pools until none is far above their mean"
    bound = PROMISED

    def __init__(self, arguments: Arguments) -> None:
        self._named = arguments.texts("pools")
        self._zone = arguments.text("zone", "")
        self._points = arguments.number("points", 10.0, most=100)
        arguments.end()

    def plan(self, model: PoolModel) -> MovePlan:
        names = self._pools(model.pools)
        figures = {name: pair for name in names if (pair := self.used_and_limit(model, name)) is not None}
        if not figures:
            raise errors.InvalidInput("no pool that is to be balanced has a limit of its promises")
        if len(figures) == 1:
            raise errors.InvalidInput(
                f"a single pool cannot be balanced: {next(iter(figures))} is its own mean; name two pools or more, or "
                "use the goal relieve"
            )
        mean = sum(used for used, _ in figures.values()) / sum(limit for _, limit in figures.values())
        highest = mean + self._points / 100
        # Nothing moves into other pools.
        ceilings = np.array([highest * figures[name][1] if name in figures else -np.inf for name in model.pools.names])
        text = f"balance {len(figures)} pools within {self._points:g} points of their mean, {100 * mean:.1f} %"
        order = sorted(figures, key=lambda name: (-figures[name][0] / figures[name][1], name))
        demands = [
            _demand(name, needed, ceilings)
            for name in order
            if (needed := figures[name][0] - highest * figures[name][1]) > 0
        ]
        model.load_volumes([demand.pool for demand in demands])
        choices = [room.first_choice(model, demand) for demand in demands]
        model.in_full([volume for choice in choices for volume in choice or ()])
        stuck = _free_all(model, demands, choices)
        if stuck and len(demands) <= _MOST_POOLS:
            model.take_back(0)
            stuck = {}
            if not _freed_through_others(model, list(figures), highest):
                model.take_back(0)
                stuck = _free_all(model, demands, choices)
        if stuck:
            shares = {name: 100 * figures[name][0] / figures[name][1] for name in stuck}
            outcome = "; ".join(f"{name} stays at {share:.1f} %" for name, share in shares.items())
            return model.plan(text, outcome, is_reached=False, staying=itertools.chain(*stuck.values()))
        return model.plan(text, f"no pool is above {100 * highest:.1f} %", is_reached=True)

    def _pools(self, pools: PoolTable) -> list[str]:
        """Return the pools that are to be balanced: those that are named, or all, of one zone if it is given."""
        pool_names.require(pools, self._named)
        names = self._named or list(pools.names)
        if self._zone:
            zones = dict(zip(pools.names, pools.zones, strict=True))
            names = [name for name in names if zones[name] == self._zone]
            if not names:
                raise errors.NotFound(f"availability zone {self._zone} has no pool")
        return names


def _demand(pool: str, needed_gb: float, ceilings: Figures) -> Demand:
    return Demand(pool, needed_gb, lambda volume: volume.size_gb, ceilings)


def _freed_through_others(model: PoolModel, names: Sequence[str], highest: float) -> bool:
    """Bring all pools to the level, and let them be above it in between; return whether that is possible.

    A pool that takes volumes of another one passes its own on. A volume moves once.
    """
    rows = [row for name in names if (row := model.pools.index(name)) is not None]
    strict, loose = (np.full(len(model.pools), -np.inf) for _ in range(2))
    strict[rows], loose[rows] = highest * model.promises()[1][rows], np.inf
    for _ in range(_MOST_ROUNDS):
        excess = model.promises()[0][rows] - strict[rows]
        highest_row = int(np.argmax(excess))
        if excess[highest_row] <= _TOLERANCE_GB:
            return True
        pool, needed_gb = model.pools.names[rows[highest_row]], float(excess[highest_row])
        if all(room.free(model, _demand(pool, needed_gb, ceilings)) is not None for ceilings in (strict, loose)):
            return False
    return False


def _free_all(
    model: PoolModel, demands: Sequence[Demand], choices: Sequence[Sequence[PlacedVolume] | None]
) -> dict[str, Sequence[StayingVolume]]:
    """Free the amounts, and return the volumes that stay by the pools that stay above the level."""
    stuck: dict[str, Sequence[StayingVolume]] = {}
    for demand, choice in zip(demands, choices, strict=True):
        if (staying := room.free(model, demand, choice)) is not None:
            stuck[demand.pool] = staying
    return stuck
