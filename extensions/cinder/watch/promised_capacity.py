# SPDX-License-Identifier: Apache-2.0
"""The capacity that Cinder has promised: a table of its pools, with each promise in flight until a report contains it.

The shadow sends no probes, so it knows from times alone when a report contains a volume. A periodic report contains
every operation that had ended, by the clock of the volume service, before that service sent the periodic report before
it: both are made one after the other by one timer. Times of rows have whole seconds, so one second is added.

Where the driver reports no provisioned capacity, the sum of the rows replaces it; it has every promise at once.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tonnage.capacity.pool_stats import ALLOCATED, PoolStats
from tonnage.capacity.pools.pool import backend_of, pool_name
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import validation
from tonnage.capacity.reports.backend_stats import pools_of
from tonnage.extensions.cinder.decoding.cinder_messages import MOVES, Command, Report, Verb
from tonnage.extensions.cinder.decoding.cinder_rows import Changes, ServiceRow, VolumeRow
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.scheduler.cache import pool_figures

#: Seconds that are added to the end of an operation, as rows have whole seconds.
_ROUNDING = 1.0

#: Seconds around a report in which a change of a volume may or may not be in it.
_MARGIN = 2.0

#: Seconds for which a volume may be missing in the figures, if the shadow did not see its command.
_ADOPTED = 300.0


@dataclass(slots=True)
class Promise:
    """The capacity of one command. ``ended_at`` is the end of its operation, None while it is under way.

    ``received_at`` is the time at which the shadow received it, by its own clock.
    """

    command: Command
    ended_at: float | None = None
    received_at: float = -math.inf


@dataclass(slots=True)
class ReportedPool:
    """The last figures of a pool, and the allocated capacity that cinder-volume reported with them (None: none)."""

    stats: PoolStats
    raw: Mapping[str, Any]
    allocated: float | None


@dataclass(slots=True)
class ObservedBackend:
    """A backend as its reports show it. ``sent_at`` and ``before`` are the times of its last two periodic reports.

    ``heard_at`` is when the shadow received the last report of any kind, by its own clock. ``pools`` have the figures
    that are used, ``latest`` those of the last report of any kind, which arrived at ``latest_at``.
    """

    name: str
    sent_at: float = -math.inf
    before: float = -math.inf
    heard_at: float = -math.inf
    host: str = ""
    pools: dict[str, ReportedPool] = field(default_factory=dict)
    latest: dict[str, ReportedPool] = field(default_factory=dict)
    latest_at: float = -math.inf


class PromisedCapacity:
    """The pools of one Cinder with all that it has promised in them. ``table`` has the columns for decisions."""

    def __init__(self, default_ratio: float | str, down_time: float) -> None:
        self.table = PoolTable()
        self.backends: dict[str, ObservedBackend] = {}
        self.volumes: dict[str, VolumeRow] = {}
        self.services: dict[str, ServiceRow] = {}
        #: Whether the rows have been read.
        self.has_rows = False
        self._default_ratio, self._down_time = default_ratio, down_time
        self._promises: dict[str, dict[str, Promise]] = {}
        self._rows: dict[str, set[str]] = {}
        self._changed_at: dict[str, float] = {}
        self._managed: set[str] = set()

    def apply_report(self, report: Report, now: float) -> tuple[validation.Report, bool]:
        """Take over a report; return it validated, and whether its figures are used.

        The figures of a report are not used if it is not periodic, or older than the last one: looks overlap, so its
        figures may be older than the figures in use.
        """
        checked = validation.validate(report.stats)
        backend = self.backends.setdefault(report.backend, ObservedBackend(report.backend))
        backend.heard_at = backend.latest_at = now
        backend.latest = _reported(report, checked)
        if backend.pools and (not report.periodic or report.sent_at <= backend.sent_at):
            return checked, False
        is_same_process = backend.host == report.host
        backend.before = backend.sent_at if is_same_process and report.periodic else -math.inf
        backend.sent_at, backend.host = report.sent_at, report.host
        before = set(backend.pools)
        backend.pools = backend.latest
        for name in backend.pools:
            self._drop_contained(name, backend.before)
        self._renew(before | set(backend.pools))
        return checked, True

    def promise(self, command: Command, now: float = -math.inf) -> None:
        """Count a command of Cinder's scheduler that arrives at ``now``. A repeated one replaces itself.

        A volume that moves is often created anew by its volume service, which sends that command itself, on behalf of
        the same request: it replaces the move.
        """
        if command.size_gb <= 0:
            return
        promises = self._promises.setdefault(command.pool, {})
        if command.verb is Verb.CREATE:
            for key, promise in list(promises.items()):
                if promise.command.verb in MOVES and promise.command.request_id == command.request_id:
                    del promises[key]
        promises[f"{command.verb}:{command.volume_id}:{command.attempt}"] = Promise(command, received_at=now)
        self._renew([command.pool])

    def manage(self, volume_id: str) -> None:
        """Note a volume that Cinder takes over from the storage: it is in the figures before it has a row."""
        self._managed.add(volume_id)

    def apply_rows(self, changes: Changes, began: float = math.inf) -> None:
        """Take over rows of volumes and services, and find the ends of operations in them.

        All messages that were sent before the read have to be known, and commands that arrived after ``began``, the
        beginning of the read, are not judged by it.
        """
        self.has_rows = True
        touched = set()
        gone = set(changes.gone)
        if changes.complete:
            gone |= self.volumes.keys() - {row.id for row in changes.live}
        for volume_id in gone:
            touched |= self._move_row(volume_id, None, changes.read_at)
        promised = {
            (pool, promise.command.volume_id)
            for pool, promises in self._promises.items()
            for promise in promises.values()
        }
        for row in changes.live:
            if row.pool is not None and (row.pool, row.id) not in promised:
                self._adopt(row, row.pool, changes.read_at)
            touched |= self._move_row(row.id, row, changes.read_at)
        services = {service.backend: service for service in changes.services}
        for name in self.services.keys() | services.keys():
            if self._state(self.services.get(name)) != self._state(services.get(name)):
                touched |= set(self.backends[name].pools) if name in self.backends else set()
        self.services = services
        for pool in self._promises:
            if self._note_ends(pool, changes.read_at, began):
                touched.add(pool)
        self._renew(touched)

    def row_sum(self, pool: str) -> float:
        """Return the sum of the sizes of the volumes of a pool by their rows, in GiB."""
        return float(sum(self.volumes[volume_id].size_gb for volume_id in self._rows.get(pool, ())))

    def is_quiet(self, pool: str) -> bool:
        """Return whether nothing is in flight in a pool, and no volume came, grew or went since the report before.

        Volumes in error do not count here: nothing happens to them, though the storage may have them or not.
        """
        backend = self.backends.get(backend_of(pool))
        return (
            backend is not None
            and self.has_rows
            and not any(self._may_change(promise) for promise in self._promises.get(pool, {}).values())
            and self._changed_at.get(pool, -math.inf) < backend.before - _MARGIN
            and not any(row.under_way for row in self.rows_of(pool))
        )

    def _may_change(self, promise: Promise) -> bool:
        row = self.volumes.get(promise.command.volume_id)
        return promise.ended_at is not None or row is None or not row.status.startswith("error")

    def rows_of(self, pool: str) -> list[VolumeRow]:
        """Return the rows of the volumes of a pool."""
        return [self.volumes[volume_id] for volume_id in self._rows.get(pool, ())]

    def reported(self, pool: str) -> ReportedPool | None:
        """Return the last figures of a pool."""
        backend = self.backends.get(backend_of(pool))
        return None if backend is None else backend.pools.get(pool)

    def in_flight(self, pool: str) -> float:
        """Return the GiB that are promised in a pool and not known to be in its figures."""
        return _sum(self._promises.get(pool, {}).values())

    def least_held(self, name: str) -> Pool | None:
        """Return a pool with the least that it may hold: the lower figures, and the commands that came after them.

        The figures may or may not contain earlier promises, and a report that is not periodic may have newer figures
        than the ones in use.
        """
        pool, backend = self.table.get(name), self.backends.get(backend_of(name))
        if pool is None or backend is None:
            return None
        promises = self._promises.get(name, {}).values()
        later = _sum(promise for promise in promises if promise.received_at > backend.latest_at)
        pool = replace(pool, claimed=later, claimed_physical=min(pool.claimed_physical, later))
        latest = backend.latest.get(name)
        if latest is None:
            return pool
        allocated = pool.allocated if latest.allocated is None else min(pool.allocated, latest.allocated + later)
        return replace(
            pool,
            provisioned=min(pool.provisioned, latest.stats.provisioned),
            free=max(pool.free, latest.stats.free),
            allocated=allocated,
        )

    def most_held(self, name: str) -> Pool | None:
        """Return a pool with the most that it may hold: the higher figures, and all promises in flight."""
        pool, backend = self.table.get(name), self.backends.get(backend_of(name))
        latest = None if backend is None else backend.latest.get(name)
        if pool is None or latest is None:
            return pool
        stats = latest.stats
        return replace(pool, provisioned=max(pool.provisioned, stats.provisioned), free=min(pool.free, stats.free))

    def promises_of(self, pool: str) -> list[Promise]:
        """Return the promises in flight in a pool."""
        return list(self._promises.get(pool, {}).values())

    def _move_row(self, volume_id: str, row: VolumeRow | None, read_at: float) -> set[str]:
        """Replace the row of a volume; return the pools whose sums change."""
        previous = self.volumes.pop(volume_id, None)
        if previous is not None and previous.pool is not None:
            self._rows[previous.pool].discard(volume_id)
        if row is None:
            self._managed.discard(volume_id)
        else:
            self.volumes[volume_id] = row
            if row.pool is not None:
                self._rows.setdefault(row.pool, set()).add(volume_id)
        if previous is not None and row is not None and (previous.pool, previous.size_gb) == (row.pool, row.size_gb):
            return set()
        changed = {volume.pool for volume in (previous, row) if volume is not None and volume.pool is not None}
        self._changed_at.update(dict.fromkeys(changed, read_at))
        return changed

    def _adopt(self, row: VolumeRow, pool: str, read_at: float) -> None:
        """Count a volume that came or grew without a command in flight: Cinder makes some without a request."""
        previous = self.volumes.get(row.id)
        size_gb = row.size_gb
        if previous is not None and previous.pool == pool:
            size_gb -= previous.size_gb
        ended_at = _launch(row) if row.finished else row.changed_at
        backend = self.backends.get(backend_of(pool))
        is_contained = backend is not None and row.finished and ended_at + _ROUNDING < backend.before
        if size_gb > 0 and row.id not in self._managed and ended_at >= read_at - _ADOPTED and not is_contained:
            command = Command(verb=Verb.CREATE, request_id="", volume_id=row.id, pool=pool, size_gb=size_gb)
            self._promises.setdefault(pool, {})[f"row:{row.id}"] = Promise(command)

    def _note_ends(self, pool: str, read_at: float, began: float) -> bool:
        """Note the ends of promised operations that the rows show; return whether one is new.

        The scheduler saves the pool in the row before it sends its command, so a volume that is not here has gone on.
        A volume that is to come here is elsewhere until it has been moved.
        """
        is_new = False
        for promise in self._promises[pool].values():
            if promise.ended_at is not None or promise.received_at >= began:
                continue
            row, verb = self.volumes.get(promise.command.volume_id), promise.command.verb
            if row is not None and row.pool == pool:
                if _is_at_rest(row):
                    promise.ended_at = _launch(row) if verb is Verb.CREATE else row.changed_at
            elif row is None or verb in (Verb.CREATE, Verb.EXTEND) or _is_at_rest(row):
                promise.ended_at = read_at
            is_new = is_new or promise.ended_at is not None
        return is_new

    def _drop_contained(self, pool: str, before: float) -> None:
        promises = self._promises.get(pool, {})
        for key, promise in list(promises.items()):
            if promise.ended_at is not None and promise.ended_at + _ROUNDING < before:
                del promises[key]

    def _is_beyond_rows(self, promise: Promise) -> bool:
        """Return whether the rows do not have the capacity of a promise yet: growth, or a volume that is to come."""
        row = self.volumes.get(promise.command.volume_id)
        is_here = row is not None and row.pool == promise.command.pool and promise.command.verb is not Verb.EXTEND
        return promise.ended_at is None and not is_here

    def _state(self, service: ServiceRow | None) -> tuple[bool, bool, str] | None:
        """Return whether a service is up and enabled, and its zone; None without its row."""
        if service is None:
            return None
        return service.silent <= self._down_time, service.enabled, service.availability_zone

    def _renew(self, names: Iterable[str]) -> None:
        """Make rows of the table again. Like Cinder's, a pool is no candidate without the row of its service."""
        pools = {name: self._pool(name) for name in names}
        self.table.put_all([pool for pool in pools.values() if pool is not None])
        for name, pool in pools.items():
            if pool is None:
                self.table.remove(name)

    def _pool(self, name: str) -> Pool | None:
        reported, state = self.reported(name), self._state(self.services.get(backend_of(name)))
        if reported is None or state is None:
            return None
        stats = reported.stats
        promises = self._promises.get(name, {}).values()
        in_flight = self.in_flight(name)
        allocated = int(self.row_sum(name)) + sum(
            promise.command.size_gb for promise in promises if self._is_beyond_rows(promise)
        )
        up, enabled, zone = state
        return Pool(
            name=name,
            total=stats.total,
            free=stats.free,
            provisioned=stats.provisioned,
            allocated=allocated,
            claimed=in_flight,
            claimed_physical=in_flight if stats.thick and not stats.thin else 0.0,
            reserved_percentage=stats.reserved_percentage,
            ratio=pool_figures.ratio(stats, Counters(allocated=allocated), self._default_ratio),
            thin=stats.thin,
            thick=stats.thick,
            up=up,
            enabled=enabled,
            availability_zone=zone,
            capabilities=stats.capabilities,
        )


#: Values of ``migration_status`` of a volume that is being moved.
_MOVING = frozenset({"starting", "migrating", "completing"})


def _reported(report: Report, checked: validation.Report) -> dict[str, ReportedPool]:
    """Return the pools of a report by their full names."""
    raw = {str(pool.get("pool_name")): pool for pool in pools_of(report.stats) if isinstance(pool, Mapping)}
    return {
        pool_name(report.backend, stats.name): ReportedPool(
            stats, raw[stats.name], _number(raw[stats.name].get(ALLOCATED))
        )
        for stats in checked.pools
    }


def _sum(promises: Iterable[Promise]) -> float:
    """Return the GiB of promises."""
    return float(sum(promise.command.size_gb for promise in promises))


def _launch(row: VolumeRow) -> float:
    return row.changed_at if row.launched_at is None else row.launched_at


def _is_at_rest(row: VolumeRow) -> bool:
    """Return whether no move of a volume is under way."""
    return row.finished and row.migration_status not in _MOVING


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
