# SPDX-License-Identifier: Apache-2.0
"""Volumes that lost their pools before they were made, and that hints bind to one another: which of them goes first.

What a hint asks depends on where the volume is that it names. While that one waits for a pool itself there is no
telling, so who names it waits as well. Of volumes that name one another, in a circle, the one with the smallest id goes
first, and the others go by where it is.
"""

from collections.abc import Mapping
from collections.abc import Sequence

from tonnage.filters import affinity
from tonnage.ledger import models

#: Volumes by their ids.
Volumes = Mapping[str, models.Volume]

_CREATING = "creating"


def ahead(volume: models.Volume, volumes: Volumes) -> str | None:
    """Return a volume that has to have a pool before this one, None if this one may go.

    ``volumes`` are those that it names, and that these name in their turn as long as they wait.
    """
    followed: dict[str, list[str]] = {}
    found = [volume]
    while found:
        each = found.pop()
        if each.id not in followed:
            apart = _named(each, affinity.DIFFERENT_HOST, volumes)
            others = [*beside(each, volumes), *(other for other in apart if _waits(other))]
            followed[each.id] = [other.id for other in others]
            found += others
    circle = _who_reach(volume.id, followed)
    first = min(followed.keys() - circle or circle)
    return None if first == volume.id else first


def beside(volume: models.Volume, volumes: Volumes) -> list[models.Volume]:
    """Return the waiting volumes that this one is to be beside; none if it names one that has a place."""
    named = _named(volume, affinity.SAME_HOST, volumes)
    return [] if any(each.pool_id is not None for each in named) else [each for each in named if _waits(each)]


def unsettled(volume: models.Volume, volumes: Volumes) -> str | None:
    """Return a volume that hints of this one name and that a pool is still making, or may fail to make."""
    named = [*_named(volume, affinity.SAME_HOST, volumes), *_named(volume, affinity.DIFFERENT_HOST, volumes)]
    return next((each.id for each in named if each.status == _CREATING and each.pool_id is not None), None)


def _named(volume: models.Volume, hint: str, volumes: Volumes) -> list[models.Volume]:
    """Return what a hint names. To a project, volumes of others are not there."""
    found = (volumes.get(each) for each in affinity.named(volume.hints, hint))
    return [each for each in found if each is not None and each.project_id == volume.project_id]


def _waits(volume: models.Volume) -> bool:
    return volume.status == _CREATING and volume.pool_id is None


def _who_reach(volume_id: str, followed: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the volumes that follow this one, or one that does, and so on; this one among them."""
    followers: dict[str, list[str]] = {each: [] for each in followed}
    for each, others in followed.items():
        for other in others:
            followers[other].append(each)
    reached, found = set[str](), [volume_id]
    while found:
        each = found.pop()
        if each not in reached:
            reached.add(each)
            found += followers[each]
    return reached
