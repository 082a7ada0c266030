# SPDX-License-Identifier: Apache-2.0
"""Refusals to come: the requests of recorded days, in random order, decided on the pools as they are now.

Only the net growth of a type is played, as the simulator deletes nothing: a day with as many deleted as created volumes
takes no capacity. At the end of each run each type asks for one more volume.
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.extensions.history import coming_refusals, history_reader, history_writer
from tonnage.extensions.history.coming_refusals import DAYS, ComingRefusals, WantedVolume
from tonnage.extensions.history.forecast import growth_paths
from tonnage.extensions.history.history_reader import TypeDay
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import CreateVolume, WhatIf
from tonnage.scheduler.simulation.simulator import DecisionSnapshots, Simulator, Snapshot

#: The number of runs.
RUNS = 20

#: Number of days whose requests are repeated.
HISTORY = 60

#: About the most volumes in a run; of more, several are asked for as one.
_MOST = 900

#: Seconds from one forecast to the next.
INTERVAL = 3600.0


class RefusalForecaster:
    """Expects the refusals of all volume types once an hour, by the pools and rules of the moment."""

    def __init__(
        self,
        database: Database,
        asker: Simulator,
        snapshots: DecisionSnapshots,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._asker, self._snapshots, self._clock = database, asker, snapshots, clock
        self._due = clock()

    def work(self, go_on: Callable[[], bool]) -> None:
        """Expect the refusals if that is due.

        ``go_on`` is called after each run, and may pause; nothing is stored if it returns False. Raises
        :class:`~tonnage.capacity.errors.Unavailable` while the database is away, and the errors of
        :meth:`~simulator.Simulator.what_if`.
        """
        if self._clock() < self._due:
            return
        with self._database.reading() as session:
            age = coming_refusals.age(session)
            if age is not None and 0 <= age < INTERVAL:
                self._due = self._clock() + INTERVAL - age
                return
            day = history_reader.last_day(session, history_writer.database_time(session))
            history = [] if day is None else history_reader.type_days(session, day, HISTORY)
        if not any(history):
            return
        self._due = self._clock() + INTERVAL
        forecasts = expect(self._asker, self._snapshots.take(), history, go_on)
        if forecasts is not None:
            self._database.run(coming_refusals.store, forecasts)


class _Refusal(NamedTuple):
    """The first refusal of a type in a run: its position among the requests, the filter, and the reason in words."""

    position: int
    filter: str
    message: str


class _Tally:
    """The runs in which a type was refused, by the filter that refused it first, with the first run of each."""

    def __init__(self) -> None:
        self.filters: Counter[str] = Counter()
        self.examples: dict[str, tuple[str, Sequence[WantedVolume]]] = {}

    def add(self, refusal: _Refusal, volumes: Sequence[WantedVolume]) -> None:
        """Add the first refusal in a run."""
        self.filters[refusal.filter] += 1
        self.examples.setdefault(refusal.filter, (refusal.message, volumes[: refusal.position + 1]))

    def result(self, type_id: str, known_days: int) -> ComingRefusals:
        """Return the refusals to come."""
        if not self.filters:
            return ComingRefusals(type_id=type_id, known_days=known_days, runs=RUNS)
        [(name, _)] = self.filters.most_common(1)
        message, requests = self.examples[name]
        return ComingRefusals(
            type_id=type_id,
            known_days=known_days,
            runs=RUNS,
            refused=self.filters.total(),
            filter=name,
            message=message,
            requests=requests,
        )


def expect(
    asker: Simulator,
    snapshot: Snapshot,
    history: Sequence[Mapping[str, TypeDay] | None],
    go_on: Callable[[], bool] = lambda: True,
) -> list[ComingRefusals] | None:
    """Return the refusals to come of each type in the history; None if ``go_on`` has returned False after a run.

    ``history`` has the volumes of each type by its id on each day, the oldest first; None is a hole. The same history
    has the same result. Raises the errors of :meth:`~simulator.Simulator.what_if`.
    """
    days = [day for day in history[-HISTORY:] if day is not None]
    types = sorted({type_id for day in days for type_id in day})
    if len(days) < growth_paths.LEAST_HISTORY:
        return [ComingRefusals(type_id=type_id, known_days=len(days)) for type_id in types]
    tallies = {type_id: _Tally() for type_id in types}
    for order in growth_paths.repeated_days(len(days), RUNS, DAYS).tolist():
        volumes = _merged(list(_requests([days[number] for number in order])))
        for type_id, refusal in _play(asker, snapshot, volumes).items():
            tallies[type_id].add(refusal, volumes)
        if not go_on():
            return None
    return [tally.result(type_id, len(days)) for type_id, tally in tallies.items()]


def _requests(days: Sequence[Mapping[str, TypeDay]]) -> Iterator[WantedVolume]:
    """Yield volumes of each type as large as its growth on some days, and at the end one more."""
    grown: Counter[str] = Counter()
    requested_gb: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for day in days:
        for type_id, volumes in sorted(day.items()):
            if volumes.creates:
                sizes[type_id] = max(1, round(volumes.created_gb / volumes.creates))
            grown[type_id] += volumes.grown_gb
            size = sizes.get(type_id)
            while size is not None and requested_gb[type_id] + size <= grown[type_id]:
                requested_gb[type_id] += size
                yield WantedVolume(type_id, size)
    for type_id, size in sorted(sizes.items()):
        yield WantedVolume(type_id, size)


def _merged(volumes: Sequence[WantedVolume]) -> Sequence[WantedVolume]:
    """Return about :data:`_MOST` volumes: if there are more, several of a type become one."""
    together = -(-len(volumes) // _MOST)
    if together <= 1:
        return volumes
    waiting: dict[str, list[int]] = {}
    merged = []
    for volume in volumes:
        sizes = waiting.setdefault(volume.type_id, [])
        sizes.append(volume.size_gb)
        if len(sizes) == together:
            merged.append(WantedVolume(volume.type_id, sum(sizes)))
            sizes.clear()
    return [*merged, *(WantedVolume(type_id, sum(sizes)) for type_id, sizes in waiting.items() if sizes)]


def _play(asker: Simulator, snapshot: Snapshot, volumes: Sequence[WantedVolume]) -> dict[str, _Refusal]:
    """Return for each type that is refused its first refusal."""
    if not volumes:
        return {}
    # A request without a project is about the pools alone, and not about quotas.
    requests = [
        CreateVolume(
            request_id=f"coming-{number}",
            volume_id=str(uuid.UUID(int=number)),
            size_gb=volume.size_gb,
            project_id="",
            volume_type=volume.type_id or None,
        )
        for number, volume in enumerate(volumes)
    ]
    refused: dict[str, _Refusal] = {}
    outlooks = asker.what_if(WhatIf(requests=[], detail=False), requests, snapshot)
    for position, (volume, outlook) in enumerate(zip(volumes, outlooks, strict=True)):
        [decided] = outlook.volumes
        if decided.refusal is not None:
            refused.setdefault(volume.type_id, _Refusal(position, decided.refusal.reason[0], decided.message))
    return refused
