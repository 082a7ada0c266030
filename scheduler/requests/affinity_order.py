# SPDX-License-Identifier: Apache-2.0
"""The retry order of volumes whose affinity hints refer to each other, after their pools failed to create them.

The meaning of a hint depends on the pool of the volume that it names. While that volume waits for a pool itself, the
volumes that name it wait as well. If volumes name each other in a circle, the one with the smallest id goes first, and
the others follow to its backend.
"""

from collections.abc import Callable, Mapping, Sequence

from tonnage.filters import affinity
from tonnage.ledger import models

_CREATING = "creating"


class AffinityOrder:
    """The dependencies of waiting volumes, by hints.

    ``volumes`` has the waiting volumes and the volumes that they name, directly or through other waiting volumes.
    """

    def __init__(self, volumes: Mapping[str, models.Volume]) -> None:
        self._volumes = volumes
        self._followed: dict[str, list[str]] = {}
        #: By volume of a circle that waits for no volume outside it, the volume of the circle that goes first.
        self._first: dict[str, str] = {}

    def predecessor(self, volume: models.Volume) -> str | None:
        """Return the id of a volume that needs a pool before this one, None if there is none."""
        first = self._first.get(volume.id) or self._find_first(volume)
        return None if first == volume.id else first

    def waiting_companions(self, volume: models.Volume) -> list[str]:
        """Return the waiting volumes that share this one's backend; none if it names a volume that has a pool."""
        named = self._named(volume, affinity.SAME_HOST)
        return (
            []
            if any(target.pool_id is not None for target in named)
            else [target.id for target in named if _waits(target)]
        )

    def hint_targets(self, volume: models.Volume) -> dict[str, int | None]:
        """Return the pool, None for no pool, of each volume that the hints of this one name."""
        named = self._named(volume, affinity.SAME_HOST) + self._named(volume, affinity.DIFFERENT_HOST)
        return {target.id: target.pool_id for target in named}

    def waits_for(self, volume: models.Volume) -> str | None:
        """Return a volume that this one's hints name and whose creation in its pool is not finished, and may fail."""
        named = self._named(volume, affinity.SAME_HOST) + self._named(volume, affinity.DIFFERENT_HOST)
        return next((target.id for target in named if target.status == _CREATING and target.pool_id is not None), None)

    def _find_first(self, volume: models.Volume) -> str:
        reached = _reached(volume.id, self._follows)
        followers: dict[str, list[str]] = {volume_id: [] for volume_id in reached}
        for follower in reached:
            for leader in self._follows(follower):
                followers[leader].append(follower)
        circle = _reached(volume.id, followers.__getitem__)
        if reached != circle:
            return min(reached - circle)
        first = min(circle)
        self._first.update(dict.fromkeys(circle, first))
        return first

    def _follows(self, volume_id: str) -> list[str]:
        """Return the waiting volumes whose backends determine the backend of a volume."""
        if volume_id not in self._followed:
            volume = self._volumes[volume_id]
            separate_ids = [target.id for target in self._named(volume, affinity.DIFFERENT_HOST) if _waits(target)]
            self._followed[volume_id] = self.waiting_companions(volume) + separate_ids
        return self._followed[volume_id]

    def _named(self, volume: models.Volume, hint: str) -> list[models.Volume]:
        """Return the volumes that a hint names. For a project the volumes of others do not exist."""
        targets = (self._volumes.get(volume_id) for volume_id in affinity.hinted_volumes(volume.hints, hint))
        return [target for target in targets if target is not None and target.project_id == volume.project_id]


def _waits(volume: models.Volume) -> bool:
    return volume.status == _CREATING and volume.pool_id is None


def _reached(volume_id: str, steps: Callable[[str], Sequence[str]]) -> set[str]:
    """Return a volume with all volumes that ``steps`` lead to from it."""
    reached, pending = set[str](), [volume_id]
    while pending:
        next_id = pending.pop()
        if next_id not in reached:
            reached.add(next_id)
            pending += steps(next_id)
    return reached
