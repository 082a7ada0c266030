# SPDX-License-Identifier: Apache-2.0
"""The goal to empty a pool or a backend, for maintenance or the end of its life."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tonnage.extensions.moves.goals import pool_names
from tonnage.extensions.moves.goals.arguments import Text
from tonnage.extensions.moves.goals.goal import Goal
from tonnage.extensions.moves.planning.plan import MovePlan

if TYPE_CHECKING:
    from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
    from tonnage.extensions.moves.planning.pool_model import PoolModel


class Empty(Goal):
    """Moves all volumes out of a pool or of all pools of a backend.

    The large volumes come first, each into the pool that the scheduler chooses. If some find no pool then, other orders
    are tried, see :class:`_Order`, and the best is taken. Room is made by moves out of one pool, one level deep.
    """

    name = "empty"
    summary = "move all volumes out of a pool or a backend"
    arguments = (Text(name="target", summary="a pool or a backend", names_pools=True),)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._target = values["target"]

    def plan(self, model: "PoolModel") -> MovePlan:
        pools = pool_names.of_pool_or_backend(model.pools, self._target)
        model.sources.update(pools)
        model.load_volumes(pools)
        volumes = sorted(
            (volume for pool in pools for volume in model.volumes(pool)),
            key=lambda volume: (-volume.size_gb, volume.id),
        )
        staying = _move_all(model, volumes, _PLAIN)
        if any(volume.spec is not None for volume in staying):
            staying = _with_the_best_order(model, volumes)
        text = f"empty {self._target}"
        if not volumes:
            return model.plan(text, f"{self._target} has no volume", is_reached=True)
        if not staying:
            return model.plan(text, f"{self._target} becomes empty", is_reached=True)
        left_gb = sum(volume.size_gb for volume in staying)
        outcome = f"{len(staying)} of {len(volumes)} volumes with {left_gb} GiB stay in {self._target}"
        left = [volume.staying(reason) for volume, reason in staying.items()]
        return model.plan(text, outcome, is_reached=False, staying=left)


@dataclass(frozen=True, slots=True)
class _Order:
    """A way to move all volumes: each into the fullest pool that takes it, or as the scheduler chooses; those with the
    fewest pools first, or the largest. A volume without a pool gets room at once, after the others, or not at all.
    """

    is_tight: bool = False
    fewest_pools_first: bool = False
    room_at_once: bool = False
    room_at_the_end: bool = False


_PLAIN = _Order()

_ORDERS = [
    _Order(is_tight=is_tight, fewest_pools_first=fewest, room_at_once=at_once, room_at_the_end=True)
    for is_tight, fewest, at_once in itertools.product((False, True), repeat=3)
]


def _with_the_best_order(model: "PoolModel", volumes: "Sequence[PlacedVolume]") -> "dict[PlacedVolume, str]":
    """Move the volumes in the order that leaves the fewest GiB, then copies the fewest; return those that stay."""
    costs = []
    for number, order in enumerate(_ORDERS):
        model.take_back(0)
        staying = _move_all(model, volumes, order)
        costs.append((sum(volume.size_gb for volume in staying), model.copied_since(0), len(model), number))
    model.take_back(0)
    return _move_all(model, volumes, _ORDERS[min(costs)[-1]])


def _move_all(model: "PoolModel", volumes: "Sequence[PlacedVolume]", order: _Order) -> "dict[PlacedVolume, str]":
    """Move volumes, and return those that no pool takes, with the reasons."""
    staying: dict[PlacedVolume, str] = {}
    if order.fewest_pools_first:
        volumes = sorted(volumes, key=lambda volume: (model.number_of_pools(volume), -volume.size_gb, volume.id))
    for volume in volumes:
        target = model.target(volume, is_tight=order.is_tight)
        if isinstance(target, str) and not (order.room_at_once and _moved_with_room(model, volume)):
            staying[volume] = target
        elif not isinstance(target, str):
            model.move(volume, *target)
    if order.room_at_the_end:
        staying = {volume: reason for volume, reason in staying.items() if not _moved_with_room(model, volume)}
    return staying


def _moved_with_room(model: "PoolModel", volume: "PlacedVolume") -> bool:
    """Move a volume for which other moves make room, and return whether that is possible."""
    from tonnage.extensions.moves.planning import room

    if volume.spec is None:
        return False
    length = len(model)
    if room.make_room_for(model, model.request_of(volume), physical_gb=volume.size_gb) is None:
        return False
    target = model.target(volume)
    if isinstance(target, str):
        model.take_back(length)
        return False
    model.move(volume, *target)
    return True
