# SPDX-License-Identifier: Apache-2.0
"""The goal to balance pools: none is used much more than their mean."""

import numpy as np

from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.moves.goals import pool_names
from tonnage.extensions.moves.goals.goal import PROMISED, Arguments, LevelGoal
from tonnage.extensions.moves.planning import room
from tonnage.extensions.moves.planning.plan import MovePlan, StayingVolume
from tonnage.extensions.moves.planning.pool_model import PoolModel


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
        mean = sum(used for used, _ in figures.values()) / sum(limit for _, limit in figures.values())
        highest = mean + self._points / 100
        # Nothing moves into other pools.
        ceilings = np.array([highest * figures[name][1] if name in figures else -np.inf for name in model.pools.names])
        text = f"balance {len(figures)} pools within {self._points:g} points of their mean, {100 * mean:.1f} %"
        order = sorted(figures, key=lambda name: (-figures[name][0] / figures[name][1], name))
        demands = [
            room.Demand(name, needed, lambda volume: volume.size_gb, ceilings)
            for name in order
            if (needed := figures[name][0] - highest * figures[name][1]) > 0
        ]
        model.load_volumes([demand.pool for demand in demands])
        model.in_full(room.first_choices(model, demands))
        above: list[str] = []
        staying: list[StayingVolume] = []
        for demand in demands:
            if (stuck := room.free(model, demand)) is not None:
                used, limit = figures[demand.pool]
                above.append(f"{demand.pool} stays at {100 * used / limit:.1f} %")
                staying += stuck
        if above:
            return model.plan(text, "; ".join(above), is_reached=False, staying=staying)
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
