# SPDX-License-Identifier: Apache-2.0
"""The order in which volumes are tried again whose hints name each other, after their pools failed to make them.

The meaning of a hint depends on the pool of the volume that it names. While that volume waits for a pool itself, the
one that names it waits as well. Of volumes that name each other, in a circle, the one with the smallest id goes first,
and the others follow its place.
"""

from collections.abc import Callable, Mapping, Sequence

from tonnage.filters import affinity
from tonnage.ledger import models

_CREATING = "creating"


class AffinityOrder:
    """The dependencies of waiting volumes, by hints.

    ``volumes`` has those volumes, the volumes that they name, and those that these name in turn if they wait too.
    """

    def __init__(self, volumes: Mapping[str, models.Volume]) -> None:
        self._volumes = volumes
        self._followed: dict[str, list[str]] = {}
        #: The first one, by volume, of volumes that name each other and wait for no other.
        self._first: dict[str, str] = {}

    def predecessor(self, volume: models.Volume) -> str | None:
        """Return the id of a volume that needs a pool before this one, None if there is none."""
        first = self._first.get(volume.id) or self._find_first(volume)
        return None if first == volume.id else first

    def waiting_companions(self, volume: models.Volume) -> list[str]:
        """Return the waiting volumes that share this one's backend; none if it names a volume that has a pool."""
        named = self._named(volume, affinity.SAME_HOST)
        return [] if any(each.pool_id is not None for each in named) else [each.id for each in named if _waits(each)]

    def hint_targets(self, volume: models.Volume) -> dict[str, int | None]:
        """Return the pool, None for no pool, of each volume that the hints of this one name."""
        named = self._named(volume, affinity.SAME_HOST) + self._named(volume, affinity.DIFFERENT_HOST)
        return {each.id: each.pool_id for each in named}

    def unsettled(self, volume: models.Volume) -> str | None:
        """Return a volume that the hints of this one name and that its pool is still making, and may fail to make."""
        named = self._named(volume, affinity.SAME_HOST) + self._named(volume, affinity.DIFFERENT_HOST)
        return next((each.id for each in named if each.status == _CREATING and each.pool_id is not None), None)

    def _find_first(self, volume: models.Volume) -> str:
        reached = _reached(volume.id, self._follows)
        followers: dict[str, list[str]] = {each: [] for each in reached}
        for each in reached:
            for other in self._follows(each):
                followers[other].append(each)
        circle = _reached(volume.id, followers.__getitem__)
        if reached != circle:
            return min(reached - circle)
        first = min(circle)
        self._first.update(dict.fromkeys(circle, first))
        return first

    def _follows(self, volume_id: str) -> list[str]:
        """Return the waiting volumes whose place determines that of a volume."""
        if volume_id not in self._followed:
            volume = self._volumes[volume_id]
            apart = [each.id for each in self._named(volume, affinity.DIFFERENT_HOST) if _waits(each)]
            self._followed[volume_id] = self.waiting_companions(volume) + apart
        return self._followed[volume_id]

    def _named(self, volume: models.Volume, hint: str) -> list[models.Volume]:
        """Return the volumes that a hint names. For a project the volumes of others do not exist."""
        found = (self._volumes.get(each) for each in affinity.hinted_volumes(volume.hints, hint))
        return [each for each in found if each is not None and each.project_id == volume.project_id]


def _waits(volume: models.Volume) -> bool:
    return volume.status == _CREATING and volume.pool_id is None


def _reached(volume_id: str, steps: Callable[[str], Sequence[str]]) -> set[str]:
    """Return a volume with all volumes that ``steps`` lead to from it."""
    reached, found = set[str](), [volume_id]
    while found:
        each = found.pop()
        if each not in reached:
            reached.add(each)
            found += steps(each)
    return reached
