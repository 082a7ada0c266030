# SPDX-License-Identifier: Apache-2.0
"""Questions: how requests would be decided, now or if some things were different. None of them has an effect."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tonnage.capacity import changes
from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools import PoolTable
from tonnage.ledger import volumes
from tonnage.ledger.database import Database
from tonnage.rpc.messages import Asked
from tonnage.rpc.messages import CreateGroup
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import ExtendVolume
from tonnage.rpc.messages import Outlook
from tonnage.rpc.messages import WhatIf
from tonnage.scheduler import grouping
from tonnage.scheduler import resolution
from tonnage.scheduler.choice import Rules
from tonnage.scheduler.groups import Member
from tonnage.scheduler.memory import PoolEntry
from tonnage.scheduler.rehearsal import Rehearsal
from tonnage.scheduler.rehearsal import Scene
from tonnage.scheduler.resolution import Lookup

#: Most requests that are played for one question.
MAX_REQUESTS = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """What requests are decided by at one moment: a copy of the pools, the rules, and what counts by default."""

    pools: PoolTable
    rules: Rules
    default_ratio: float | str
    entries: Mapping[str, PoolEntry]
    availability_zone: str

    @property
    def defaults(self) -> changes.Defaults:
        """What counts where a pool, one of those named, says nothing."""
        names = {name for name, entry in self.entries.items() if entry.stats.ratio is None}
        return changes.Defaults(self.default_ratio, names, self.availability_zone)


class Oracle:
    """Answers questions. Safe to use from many threads. ``moment`` returns what holds now."""

    def __init__(self, database: Database, moment: Callable[[], Moment]) -> None:
        self._database = database
        self._moment = moment

    def explain(self, message: CreateVolume) -> Explanation:
        """Return how a create would be decided now.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        [outlook] = self.what_if(WhatIf(requests=[Asked(create=message)]))
        return outlook.volumes[0]

    def what_if(self, question: WhatIf) -> list[Outlook]:
        """Return how each request would be decided, after those before it. Raises as :meth:`explain`."""
        if not 1 <= len(question.requests) <= MAX_REQUESTS:
            raise errors.InvalidInput(f"requests are {len(question.requests)}: a question takes 1 to {MAX_REQUESTS}")
        moment = self._moment()
        # Others may ask at the same moment, and playing changes the table.
        pools = moment.pools.snapshot()
        flat = [one for place, asked in enumerate(question.requests) for one in _flat(asked, place)]
        with self._database.reading() as session:
            lookup = resolution.look_up(session, flat)
            scenes = [_scene(asked, lookup) for asked in question.requests]
            if moment.rules.count_volumes:
                _show_volumes(pools, moment.entries, volumes.per_pool(session))
        if not question.changes:
            return [Outlook(volumes=each) for each in _play(pools, moment.rules, scenes, question.detail)]
        changed = pools.snapshot()
        changes.apply(changed, question.changes, moment.defaults)
        rules = moment.rules.judged_by(question.changes.calculation or moment.rules.calculation)
        played = _play(changed, rules, scenes, question.detail)
        unchanged = _play(pools, moment.rules, scenes, False)
        return [Outlook(volumes=then, unchanged=now) for then, now in zip(played, unchanged, strict=True)]


def _show_volumes(pools: PoolTable, entries: Mapping[str, PoolEntry], numbers: Mapping[int, int]) -> None:
    """Bring in how many volumes the pools have; ``numbers`` are by the ledger's ids."""
    pools.set_volumes({name: numbers.get(entry.id, 0) for name, entry in entries.items()})


def _flat(asked: Asked, place: int) -> Sequence[CreateVolume | ExtendVolume]:
    """Return what has to be looked up for a request."""
    match (asked.create, asked.group, asked.extend):
        case (CreateVolume() as create, None, None):
            return [create]
        case (None, CreateGroup() as group, None):
            return group.volumes
        case (None, None, ExtendVolume() as extend):
            return [extend]
    raise errors.InvalidInput(f"requests[{place}] takes one of create, group and extend")


def _scene(asked: Asked, lookup: Lookup) -> Scene:
    if asked.group is not None:
        return Scene(grouping.members(asked.group, grouping.resolve(asked.group, lookup)), together=True)
    if asked.create is not None:
        resolved = resolution.create(asked.create, lookup)
    elif asked.extend is not None:
        resolved = resolution.extend(asked.extend, lookup)
    else:
        raise errors.InvalidInput("a question without a request")
    return Scene([Member(request=resolved.request, copied_gb=resolved.copied_gb)])


def _play(pools: PoolTable, rules: Rules, scenes: Sequence[Scene], detail: bool) -> list[list[Explanation]]:
    rehearsal = Rehearsal(pools, rules)
    return [rehearsal.play(scene, detail=detail) for scene in scenes]
