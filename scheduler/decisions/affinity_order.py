# SPDX-License-Identifier: Apache-2.0
"""Volumes that lost their pools before they were made, and that hints bind to one another: which of them goes first.

What a hint asks depends on where the volume is that it names. While that one waits for a pool itself there is no
telling, so who names it waits as well. Of volumes that name one another, in a circle, the one with the smallest id goes
first, and the others go by where it is.
"""

from collections.abc import Callable, Mapping, Sequence

from tonnage.filters import affinity
from tonnage.ledger import models

_CREATING = "creating"


class Bonds:
    """What hints say of volumes that wait, among ``volumes``: all that these name, and that those name if they wait."""

    def __init__(self, volumes: Mapping[str, models.Volume]) -> None:
        self._volumes = volumes
        self._followed: dict[str, list[str]] = {}
        #: Of volumes that name one another and wait for nobody else, the one that goes first.
        self._first: dict[str, str] = {}

    def ahead(self, volume: models.Volume) -> str | None:
        """Return a volume that has to have a pool before this one, None if this one may go."""
        first = self._first.get(volume.id) or self._find_first(volume)
        return None if first == volume.id else first

    def beside(self, volume: models.Volume) -> list[str]:
        """Return the waiting volumes that this one is to be beside; none if it names one that has a place."""
        named = self._named(volume, affinity.SAME_HOST)
        return [] if any(each.pool_id is not None for each in named) else [each.id for each in named if _waits(each)]

    def places(self, volume: models.Volume) -> dict[str, int | None]:
        """Return the volumes that hints of this one name, with their pools."""
        named = self._named(volume, affinity.SAME_HOST) + self._named(volume, affinity.DIFFERENT_HOST)
        return {each.id: each.pool_id for each in named}

    def unsettled(self, volume: models.Volume) -> str | None:
        """Return a volume that hints of this one name and that a pool is still making, or may fail to make."""
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
        """Return the waiting volumes by which it depends where one goes."""
        if volume_id not in self._followed:
            volume = self._volumes[volume_id]
            apart = [each.id for each in self._named(volume, affinity.DIFFERENT_HOST) if _waits(each)]
            self._followed[volume_id] = self.beside(volume) + apart
        return self._followed[volume_id]

    def _named(self, volume: models.Volume, hint: str) -> list[models.Volume]:
        """Return what a hint names. To a project, volumes of others are not there."""
        found = (self._volumes.get(each) for each in affinity.hinted_volumes(volume.hints, hint))
        return [each for each in found if each is not None and each.project_id == volume.project_id]


def _waits(volume: models.Volume) -> bool:
    return volume.status == _CREATING and volume.pool_id is None


def _reached(volume_id: str, steps: Callable[[str], Sequence[str]]) -> set[str]:
    """Return a volume with those to which steps lead from it, and from these."""
    reached, found = set[str](), [volume_id]
    while found:
        each = found.pop()
        if each not in reached:
            reached.add(each)
            found += steps(each)
    return reached
