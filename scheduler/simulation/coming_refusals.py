# SPDX-License-Identifier: Apache-2.0
"""Refusals to come: the requests of recorded days, in random order, decided on the pools as they are now.

Only the net growth of a type is played, as the simulator deletes nothing: a day with as many deleted as created volumes
takes no capacity. At the end of each run each type asks for one more volume.
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tonnage.capacity.forecast import growth_paths
from tonnage.ledger.db.database import Database
from tonnage.ledger.history import history_reader, history_writer
from tonnage.ledger.history.history_reader import TypeDay
from tonnage.ledger.inventory import volume_figures
from tonnage.rpc.messages import Asked, CreateVolume, WhatIf
from tonnage.scheduler.simulation import simulator
from tonnage.scheduler.simulation.simulator import MAX_REQUESTS, Simulator, Snapshot

#: Days that a run plays, and the number of runs.
DAYS = 14
RUNS = 20

#: Days of which the requests are repeated.
HISTORY = 60


class WantedVolume(NamedTuple):
    """A volume that a run asks for."""

    type_id: str
    size_gb: int


class _Refusal(NamedTuple):
    """The first refusal of a type in a run: its place among the requests, the filter, and the reason in words."""

    place: int
    filter: str
    message: str


@dataclass(slots=True)
class ComingRefusals:
    """The runs in which a type was refused, and the filters that refused it first, with their numbers of runs.

    ``known_days`` is the length of the history. With too few days there are no ``runs``. ``requests`` are those of the
    first of these runs up to the refusal of the type, and ``message`` is its reason; both are empty without a refusal.
    """

    type_id: str
    known_days: int
    runs: int = 0
    refused: int = 0
    first: Counter[str] = field(default_factory=Counter)
    message: str | None = None
    requests: Sequence[WantedVolume] = ()

    @property
    def filter(self) -> str | None:
        """The filter that refused it first in most runs, None if it was never refused."""
        return self.first.most_common(1)[0][0] if self.first else None

    def text(self) -> str:
        """Return the result in words."""
        if not self.runs:
            return f"no forecast: {self.known_days} of {growth_paths.LEAST_HISTORY} days of history"
        if not self.refused:
            return f"not refused in {self.runs} runs of {DAYS} days"
        return f"refused in {self.refused} of {self.runs} runs within {DAYS} days, {self.filter} first"


def expect_by_name(database: Database, asker: Simulator, snapshot: Snapshot) -> list[tuple[str, ComingRefusals]]:
    """Return the refusals to come with the names of the types, by the history in the ledger; see :func:`expect`.

    Volumes without a type have an empty name. Raises :class:`~tonnage.capacity.errors.Unavailable`.
    """
    with database.reading() as session:
        last = history_reader.last_day(session, history_writer.database_time(session))
        days = [] if last is None else history_reader.type_days(session, last, HISTORY)
        names = {row.id: row.name for row in volume_figures.types(session)}
    return [(names.get(each.type_id, ""), each) for each in expect(asker, snapshot, days)]


def expect(
    asker: Simulator, snapshot: Snapshot, history: Sequence[Mapping[str, TypeDay] | None]
) -> list[ComingRefusals]:
    """Return the refusals to come of each type in the history, the most refused type first.

    ``history`` has the volumes of each type by its id on each day, the oldest first; None is a hole. The same history
    has the same result. Raises the errors of :meth:`~simulator.Simulator.what_if`.
    """
    days = [day for day in history[-HISTORY:] if day is not None]
    types = sorted({type_id for day in days for type_id in day})
    if len(days) < growth_paths.LEAST_HISTORY:
        return [ComingRefusals(type_id, len(days)) for type_id in types]
    found = {type_id: ComingRefusals(type_id, len(days), RUNS) for type_id in types}
    for order in growth_paths.repeated_days(len(days), RUNS, DAYS).tolist():
        wanted = _merged(list(_requests([days[number] for number in order])), MAX_REQUESTS - len(types))
        for type_id, refusal in _play(asker, snapshot, wanted).items():
            one = found[type_id]
            one.refused += 1
            one.first[refusal.filter] += 1
            if one.message is None:
                one.message, one.requests = refusal.message, wanted[: refusal.place + 1]
    return sorted(found.values(), key=lambda one: (-one.refused, one.type_id))


def _requests(days: Sequence[Mapping[str, TypeDay]]) -> Iterator[WantedVolume]:
    """Yield volumes of each type as large as its growth on some days, and at the end one more."""
    grown: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for day in days:
        for type_id, volumes in sorted(day.items()):
            if volumes.creates:
                sizes[type_id] = max(1, round(volumes.created_gb / volumes.creates))
            grown[type_id] += volumes.grown_gb
            size = sizes.get(type_id)
            while size is not None and asked[type_id] + size <= grown[type_id]:
                asked[type_id] += size
                yield WantedVolume(type_id, size)
    for type_id, size in sorted(sizes.items()):
        yield WantedVolume(type_id, size)


def _merged(wanted: Sequence[WantedVolume], most: int) -> Sequence[WantedVolume]:
    """Return at most about ``most`` volumes: of more, several of a type are one, in the place of the last of them."""
    together = -(-len(wanted) // most)
    if together <= 1:
        return wanted
    waiting: dict[str, list[int]] = {}
    merged = []
    for each in wanted:
        sizes = waiting.setdefault(each.type_id, [])
        sizes.append(each.size_gb)
        if len(sizes) == together:
            merged.append(WantedVolume(each.type_id, sum(sizes)))
            sizes.clear()
    return [*merged, *(WantedVolume(type_id, sum(sizes)) for type_id, sizes in waiting.items() if sizes)]


def _play(asker: Simulator, snapshot: Snapshot, wanted: Sequence[WantedVolume]) -> dict[str, _Refusal]:
    """Return for each type that is refused its first refusal."""
    if not wanted:
        return {}
    # A request without a project is about the pools alone, and not about quotas.
    requests = [
        Asked(
            create=CreateVolume(
                request_id=f"coming-{number}",
                volume_id=str(uuid.UUID(int=number)),
                size_gb=each.size_gb,
                project_id="",
                volume_type=each.type_id or None,
            )
        )
        for number, each in enumerate(wanted)
    ]
    question = WhatIf(requests=requests, detail=False)
    refused: dict[str, _Refusal] = {}
    outlooks = asker.what_if(question, simulator.requests_of(question), snapshot)
    for place, (each, outlook) in enumerate(zip(wanted, outlooks, strict=True)):
        [decided] = outlook.volumes
        if decided.refusal is not None:
            refused.setdefault(each.type_id, _Refusal(place, decided.refusal.reason[0], decided.message))
    return refused
