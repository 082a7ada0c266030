# SPDX-License-Identifier: Apache-2.0
"""The goal to empty a pool or a backend, for maintenance or the end of its life."""

from collections.abc import Sequence

from tonnage.extensions.moves.goals import pool_names
from tonnage.extensions.moves.goals.goal import Arguments, Goal
from tonnage.extensions.moves.planning import room
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.moves.planning.pool_model import PoolModel


class Empty(Goal):
    """Moves all volumes out of a pool or of all pools of a backend.

    The large volumes come first. If the choice of the scheduler, which spreads volumes, leaves some without a pool, the
    volumes are packed tightly instead; what is still left gets room by moves of other volumes, one level deep.
    """

    name = "empty"
    summary = "move all volumes out of a pool or a backend"

    def __init__(self, arguments: Arguments) -> None:
        self._target = arguments.text("target")
        arguments.end()

    def plan(self, model: PoolModel) -> MovePlan:
        pools = pool_names.of_pool_or_backend(model.pools, self._target)
        model.sources.update(pools)
        model.load_volumes(pools)
        volumes = sorted(
            (volume for pool in pools for volume in model.volumes(pool)),
            key=lambda volume: (-volume.size_gb, volume.id),
        )
        left = _move_all(model, volumes, is_tight=False)
        if any(volume.spec is not None for volume in left):
            spread_gb = sum(volume.size_gb for volume in left)
            model.take_back(0)
            left = _move_all(model, volumes, is_tight=True)
            if sum(volume.size_gb for volume in left) > spread_gb:
                model.take_back(0)
                left = _move_all(model, volumes, is_tight=False)
        staying = [volume.staying(reason) for volume, reason in left.items() if not _moved_with_room(model, volume)]
        text = f"empty {self._target}"
        if not volumes:
            return model.plan(text, f"{self._target} has no volume", is_reached=True)
        if not staying:
            return model.plan(text, f"{self._target} becomes empty", is_reached=True)
        staying_gb = sum(volume.size_gb for volume in staying)
        outcome = f"{len(staying)} of {len(volumes)} volumes with {staying_gb} GiB stay in {self._target}"
        return model.plan(text, outcome, is_reached=False, staying=staying)


def _move_all(model: PoolModel, volumes: Sequence[PlacedVolume], *, is_tight: bool) -> dict[PlacedVolume, str]:
    """Move volumes, and return those that no pool takes, with the reasons."""
    left = {}
    for volume in volumes:
        target = model.target(volume, is_tight=is_tight)
        if isinstance(target, str):
            left[volume] = target
        else:
            model.move(volume, *target)
    return left


def _moved_with_room(model: PoolModel, volume: PlacedVolume) -> bool:
    """Move a volume for which other moves make room, and return whether that is possible."""
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
