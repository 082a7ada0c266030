# SPDX-License-Identifier: Apache-2.0
"""The goal to make room for volumes that would be refused now."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tonnage.capacity import units
from tonnage.extensions.moves.goals.arguments import Text, Whole
from tonnage.extensions.moves.goals.goal import Goal
from tonnage.extensions.moves.planning.plan import MovePlan

if TYPE_CHECKING:
    from tonnage.extensions.moves.planning.pool_model import PoolModel

#: Most volumes of one question.
_MOST = 1000


class Fit(Goal):
    """Moves volumes so that ``count`` volumes of ``size`` GiB find pools, one after another."""

    name = "fit"
    summary = "move volumes so that a request finds a pool that would be refused now"
    arguments = (
        Whole(name="size", summary="the GiB of each volume", most=units.MAX_SIZE_GB),
        Text(name="volume_type", summary="the volume type, by name or id", option="type", default=""),
        Text(name="zone", summary="the availability zone", default=""),
        Whole(name="count", summary="so many volumes", most=_MOST, default=1),
    )

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._size, self._count = values["size"], values["count"]
        self._type, self._zone = values["volume_type"], values["zone"]

    def plan(self, model: "PoolModel") -> MovePlan:
        from tonnage.capacity.decision import Placement
        from tonnage.extensions.moves.planning import room

        request = model.request_for(self._size, self._type, self._zone)
        text = f"make room for {self._count} x {request.describe()}"
        placed: list[str] = []
        for _ in range(self._count):
            decision = model.rules.choose(model.pools, request)
            if not isinstance(decision, Placement):
                if room.make_room_for(model, request, physical_gb=0, levels=1) is None:
                    outcome = f"{len(placed)} of {self._count} fit, and no moves make room for more: {decision.message}"
                    return model.plan(text, outcome, is_reached=False)
                decision = model.rules.choose(model.pools, request)
            if not isinstance(decision, Placement):
                return model.plan(text, decision.message, is_reached=False)
            model.take_room(decision, request)
            placed.append(decision.pool)
        names = ", ".join(dict.fromkeys(placed))
        count = len(model)
        moves = f"after {count} move{'' if count == 1 else 's'}" if count else "now"
        return model.plan(text, f"{self._count} fit {moves}, in {names}", is_reached=True)
