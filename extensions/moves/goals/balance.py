# SPDX-License-Identifier: Apache-2.0
"""The goal to balance pools: none is used much more than their mean."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tonnage.capacity import errors
from tonnage.extensions.moves.goals import pool_names
from tonnage.extensions.moves.goals.arguments import Percent, Text, Texts, Word
from tonnage.extensions.moves.goals.goal import PHYSICAL, PROMISED, LevelGoal
from tonnage.extensions.moves.planning.plan import MovePlan

if TYPE_CHECKING:
    from tonnage.extensions.moves.planning.pool_model import PoolModel

#: Most pools above the level for which it is tried that others pass volumes on.
_MOST_POOLS = 50


class Balance(LevelGoal):
    """Moves volumes among pools until no pool uses more than ``points`` of a bound above the mean of all.

    The mean is ``sum(promised) / sum(limits)``, which moves among the pools do not change, or that of the physical use,
    to which a thin volume adds its whole size where it goes to, as it may be written in full. Each pool that is above
    the mean and ``points`` loses the fewest GiB that bring it there, the fullest pool first, and nothing moves into a
    pool that would be above it then.

    Example: pools of 100 GiB with 90, 30 and 30 GiB promised have the mean 50 %. With 10 points the first one gives at
    least 30 GiB away.
    """

    name = "balance"
    summary = "move volumes among pools until none is far above their mean"
    arguments = (
        Texts(name="pools", summary="these pools alone", names_pools=True),
        Text(name="volume_type", summary="the volume type, by name or id", option="type", default=""),
        Text(name="zone", summary="the availability zone", default=""),
        Word(name="bound", summary="the bound", words=(PHYSICAL, PROMISED), default=PROMISED),
        Percent(name="points", summary="percent of its limit that a pool may be above the mean", default=10),
    )

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._named, self._type, self._zone = values["pools"], values["volume_type"], values["zone"]
        self.bound, self._points = values["bound"], values["points"]

    def plan(self, model: "PoolModel") -> MovePlan:
        from tonnage.extensions.moves.planning import promised_limits, room

        names = self._pools(model)
        figures = {name: pair for name in names if (pair := self.used_and_limit(model, name)) is not None}
        if not figures:
            limit = "limit of its promises" if self.bound == PROMISED else "physical capacity that is known"
            raise errors.InvalidInput(f"no pool that is to be balanced has a {limit}")
        if len(figures) == 1:
            raise errors.InvalidInput(
                f"a single pool cannot be balanced: {next(iter(figures))} is its own mean; name two pools or more, or "
                "use the goal relieve"
            )
        mean = sum(used for used, _ in figures.values()) / sum(limit for _, limit in figures.values())
        highest = mean + self._points / 100
        # Nothing moves into other pools.
        limits = {name: highest * limit for name, (_, limit) in figures.items()}
        ceilings = promised_limits.ceilings_of(model, limits, is_physical=self.bound == PHYSICAL)
        text = f"balance {len(figures)} pools within {self._points:g} points of their mean, {100 * mean:.1f} %"
        if self.bound == PHYSICAL:
            text += " of physical use"
        order = sorted(figures, key=lambda name: (-figures[name][0] / figures[name][1], name))
        demands = [
            room.Demand(name, needed, self.freed_gb(model, name), ceilings)
            for name in order
            if (needed := figures[name][0] - highest * figures[name][1]) > 0
        ]
        model.load_volumes([demand.pool for demand in demands])
        choices = [room.first_choice(model, demand) for demand in demands]
        model.in_full([volume for choice in choices for volume in choice or ()])
        stuck = promised_limits.free_all(model, demands, choices)
        if stuck and self.bound == PROMISED and len(demands) <= _MOST_POOLS:
            model.take_back(0)
            stuck = {}
            if not promised_limits.free_through_others(model, limits):
                model.take_back(0)
                stuck = promised_limits.free_all(model, demands, choices)
        if stuck:
            shares = {name: 100 * figures[name][0] / figures[name][1] for name in stuck}
            outcome = "; ".join(f"{name} stays at {share:.1f} %" for name, share in shares.items())
            return model.plan(text, outcome, is_reached=False, staying=itertools.chain(*stuck.values()))
        return model.plan(text, f"no pool is above {100 * highest:.1f} %", is_reached=True)

    def _pools(self, model: "PoolModel") -> list[str]:
        """Return the pools that are to be balanced: those that are named, or all, of a zone and for a volume type."""
        pools = model.pools
        pool_names.require(pools, self._named)
        names = self._named or list(pools.names)
        if self._zone:
            zones = dict(zip(pools.names, pools.zones, strict=True))
            names = [name for name in names if zones[name] == self._zone]
            if not names:
                raise errors.NotFound(f"availability zone {self._zone} has no pool")
        if self._type:
            suitable = set(model.suitable(model.request_for(1, self._type, "")))
            names = [name for name in names if name in suitable]
            if not names:
                raise errors.NotFound(f"no pool that is to be balanced is suitable for the volume type {self._type}")
        return names
