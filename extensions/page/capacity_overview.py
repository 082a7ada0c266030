# SPDX-License-Identifier: Apache-2.0
"""The overview of all pools, computed from the rows of the ledger by the arithmetic of decisions."""

import datetime
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import orm

from tonnage.api.context.shared_results import SharedResult
from tonnage.api.extension_parts import PoolForecast, PoolForecasts
from tonnage.api.http.cached_answers import text_of_time
from tonnage.capacity import arithmetic, elementwise, units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.elementwise import Floats
from tonnage.capacity.pool_stats import BACKEND_STATE, PoolStats, StatsColumns, is_reported_down
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.reports import validation
from tonnage.extensions.page import problems, severity
from tonnage.extensions.page.overview_bodies import (
    BackendCounts,
    BackendOverview,
    CapacitySummary,
    LeftOut,
    PhysicalSums,
    PoolOverview,
    Problem,
    PromisedSums,
    SeverityCounts,
)
from tonnage.extensions.page.severity import Severity
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends, drains
from tonnage.ledger.inventory.backends import BackendRow, PoolRow
from tonnage.ledger.inventory.drains import DrainProgress
from tonnage.ledger.locks import scheduling_rules


@dataclass(frozen=True, slots=True)
class Overview:
    """All pools and backends by name, and their summary."""

    pools: Sequence[PoolOverview]
    backends: Sequence[BackendOverview]
    summary: CapacitySummary


#: The forecast of a pool that has no room now: its figures say it, so no estimate is needed.
_FULL = "full"


def shared_overview(
    database: Database,
    down_time: float,
    health: Callable[[], list[str]],
    pool_forecasts: PoolForecasts,
    lifetime: float,
) -> SharedResult[Overview]:
    """Return a reading of the overview for all users. The ledger is read again after ``lifetime`` seconds.

    A backend is down after ``down_time`` seconds of silence. ``health`` returns the reasons of the health check, and
    ``pool_forecasts`` the forecasts of pools.
    """

    def compute() -> Overview:
        reasons, forecasts = health(), pool_forecasts()
        with database.reading(snapshot=True, patient=False) as session:
            # Read after the health check, which tries a write.
            return read(session, down_time, reasons, forecasts, database.refusal)

    return SharedResult(lifetime, compute)


def read(
    session: orm.Session,
    down_time: float,
    reasons: list[str],
    forecasts: Mapping[str, PoolForecast],
    refusal: str | None = None,
) -> Overview:
    """Return the overview by one session, whose statements all see the same state of the ledger.

    ``refusal`` is the cause if the ledger cannot be written.
    """
    by_id = {row.id: row for row in backends.load_backends(session)}
    rules = scheduling_rules.find(session)
    calculation = Calculation.CINDER if rules is None else Calculation(rules.calculation)
    silence = _Silence(down_time, is_recorded=refusal is None)
    pools: list[PoolOverview] = []
    absent: set[str] = set()
    storage_rooms: dict[str, float] = {}
    # Pools that are no longer reported have a table of their own: they take nothing of the storage of others.
    for is_absent in (False, True):
        rows = sorted(backends.load_pools(session, absent=is_absent), key=lambda row: row.name)
        if not rows:
            continue
        backend_rows = [by_id[row.backend_id] for row in rows]
        stats = _stats(rows)
        state = _State.of_absent if is_absent else _State.of
        states = [state(row, backend, silence) for row, backend in zip(rows, backend_rows, strict=True)]
        table = _table(rows, backend_rows, stats)
        absent.update(table.names if is_absent else ())
        pools += _pools(table, calculation, states, stats.storage_id, {} if is_absent else forecasts)
        storage_rooms |= zip(table.names, np.asarray(table.storage_room).tolist(), strict=True)
    pools.sort(key=lambda pool: pool.name)
    reported = [pool for pool in pools if pool.name not in absent]
    backend_views = _backends(by_id.values(), reported, drains.load(session), silence)
    problem_list = problems.load(session, pools, backend_views, down_time, refusal, absent)
    return Overview(
        pools=pools,
        backends=backend_views,
        summary=_summary(pools, storage_rooms, _backend_counts(by_id.values(), down_time), reasons, problem_list),
    )


@dataclass(frozen=True, slots=True)
class _Silence:
    """The seconds of silence after which a backend is down, and whether the ledger can record reports at all."""

    down_time: float
    is_recorded: bool

    @property
    def reason(self) -> str:
        """The reason of the state "down"."""
        if not self.is_recorded:
            return "no report can be recorded, because the ledger cannot be written"
        return f"no report for more than {self.down_time:g} seconds (service_down_time)"


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a pool, and the time of its figures."""

    word: str
    reason: str | None
    stale: bool
    collected_at: str | None

    @classmethod
    def of(cls, row: PoolRow, backend: BackendRow, silence: _Silence) -> "_State":
        collected_at = _collected_at(backend)
        if row.figures_age is not None and backend.last_report_at is not None:
            # The backend's last report had no usable figures of the pool.
            now = backend.last_report_at + datetime.timedelta(seconds=backend.silence or 0.0)
            collected_at = now - datetime.timedelta(seconds=row.figures_age)
        word, reason = _word(row, backend, silence)
        return cls(word, reason, word == "down" or row.figures_age is not None, text_of_time(collected_at))

    @classmethod
    def of_absent(cls, row: PoolRow, backend: BackendRow, silence: "_Silence") -> "_State":
        """Return the state of a pool with volumes that was not in the last report. Nobody knows its figures."""
        word, reason = _backend_word(backend, silence)
        missing = (
            f"its backend no longer reports it, and the ledger counts {row.counters.allocated} GiB of volumes there"
        )
        return cls("down", f"{missing}; {reason}" if reason and word == "down" else missing, True, None)


def _word(row: PoolRow, backend: BackendRow, silence: _Silence) -> tuple[str, str | None]:
    """Return the state of a pool and its reason."""
    word, reason = _backend_word(backend, silence)
    if word != "down" and is_reported_down(row.stats.get(BACKEND_STATE)):
        return "down", "its driver reports backend_state down"
    if word == "up" and reason is None and row.figures_age is not None:
        return word, "the last report of the backend has no usable figures of this pool"
    return word, reason


def _backend_word(backend: BackendRow, silence: _Silence) -> tuple[str, str | None]:
    """Return the state of a backend and its reason; that of one that is up is the notice of its agent."""
    notice = None if backend.notice is None else backend.notice.sentence
    if not _is_up(backend, silence.down_time):
        return "down", silence.reason if notice is None else f"{silence.reason}; {notice}"
    if backend.draining:
        return "draining", backend.disabled_reason
    if not backend.enabled:
        return "disabled", backend.disabled_reason
    return "up", notice


def _is_up(backend: BackendRow, down_time: float) -> bool:
    return backend.silence is not None and backend.silence <= down_time


def _collected_at(backend: BackendRow) -> datetime.datetime | None:
    if backend.last_report_at is None:
        return None
    return backend.last_report_at - datetime.timedelta(seconds=backend.report_age)


def _stats(rows: Sequence[PoolRow]) -> StatsColumns:
    """Return the last reports of these pools."""
    # Pools of different backends may have the same name in their reports.
    raw = [{**row.stats, "pool_name": str(number)} for number, row in enumerate(rows)]
    valid = {stats.name: stats for stats in validation.validate(raw).pools}
    unusable = PoolStats("", math.nan, math.nan)
    return StatsColumns.of([valid.get(str(number), unusable) for number in range(len(rows))])


def _table(rows: Sequence[PoolRow], backend_rows: Sequence[BackendRow], stats: StatsColumns) -> PoolTable:
    counters = [row.counters for row in rows]
    columns: dict[str, Any] = {
        **stats.by_field(),
        "allocated": [pool_counters.allocated for pool_counters in counters],
        "claimed": [pool_counters.in_flight for pool_counters in counters],
        "claimed_physical": [pool_counters.in_flight_physical for pool_counters in counters],
        "shared_allocated": [pool_counters.shared_allocated for pool_counters in counters],
        "shared_in_flight": [pool_counters.shared_in_flight for pool_counters in counters],
        "shared_in_flight_physical": [pool_counters.shared_in_flight_physical for pool_counters in counters],
        "external": [pool_counters.external for pool_counters in counters],
        "ratio": [row.ratio for row in rows],
        "availability_zone": [backend.availability_zone for backend in backend_rows],
    }
    table = PoolTable()
    table.put_columns([row.name for row in rows], columns)
    return table


@elementwise.quiet
def _pools(
    table: PoolTable,
    calculation: Calculation,
    states: Sequence[_State],
    storage_ids: Sequence[str | None],
    forecasts: Mapping[str, PoolForecast],
) -> list[PoolOverview]:
    """Return the pools of the table, in its order."""
    reserved, promised = arithmetic.reserve(table), arithmetic.promised(table)
    usable = table.total - reserved
    limit = arithmetic.promise_limit(table, calculation)
    physical_left = np.where(np.isfinite(table.free), np.maximum(arithmetic.physical_room(table), 0.0), table.free)
    used = table.total - table.free
    physical_percent = _percent(used + table.in_flight_physical, usable)
    promised_percent = _percent(promised, limit)
    physical_excess = np.maximum(used + table.in_flight_physical - usable, 0.0)
    promised_excess = np.maximum(promised - limit, 0.0)
    promise_left = np.maximum(limit - promised, 0.0)
    thin, thick = (arithmetic.headroom(table, np.full(len(table), is_thin), calculation) for is_thin in (True, False))
    # Volumes for a pool that supports neither are thick.
    takes_thick = table.thick | ~table.thin
    has_no_room = ~((table.thin & (thin >= 1)) | (takes_thick & (thick >= 1)))
    severities = zip(
        severity.of_bound(physical_percent, physical_excess, physical_left, severity.NEAR_PHYSICAL),
        severity.of_bound(promised_percent, promised_excess, promise_left, severity.NEAR_PROMISED),
        has_no_room.tolist(),
        strict=True,
    )
    columns: dict[str, Sequence[Any]] = {
        "total_gb": _wire(table.total),
        "free_gb": _wire(table.free),
        "used_gb": _wire(used),
        "in_flight_physical_gb": table.in_flight_physical.tolist(),
        "reserved_gb": _wire(reserved),
        "physical_left_gb": _wire(physical_left),
        "physical_excess_gb": _wire(physical_excess),
        "promised_gb": _wire(promised),
        "in_flight_gb": table.in_flight.tolist(),
        "promise_limit_gb": _wire(limit),
        "promise_left_gb": _wire(promise_left),
        "promise_excess_gb": _wire(promised_excess),
        "allocated_gb": table.allocated.tolist(),
        "max_over_subscription_ratio": elementwise.two_decimals(np.asarray(table.ratio)).tolist(),
        "headroom_thin_gb": _where(table.thin, _wire(thin)),
        "headroom_thick_gb": _where(takes_thick, _wire(thick)),
        "physical_percent": _finite_or_none(physical_percent),
        "promised_percent": _finite_or_none(promised_percent),
        "full_percent": _finite_or_none(np.fmax(physical_percent, promised_percent)),
    }
    fullness = [_fullness(*bounds, state.stale) for bounds, state in zip(severities, states, strict=True)]
    rows = zip(table.names, table.zones, storage_ids, states, fullness, *columns.values(), strict=True)
    return [
        PoolOverview(
            name=name,
            backend=backend_of(name),
            availability_zone=zone,
            storage_id=storage_id,
            state=state.word,
            state_reason=state.reason,
            stale=state.stale,
            collected_at=state.collected_at,
            **of_pool,
            **_forecast(of_pool["severity"], forecasts.get(name)),
            **dict(zip(columns, values, strict=True)),
        )
        for name, zone, storage_id, state, of_pool, *values in rows
    ]


def _fullness(
    physical: Severity | None, promised: Severity | None, has_no_room: bool, stale: bool
) -> dict[str, Severity | None]:
    """Return the severities of a pool. Old figures tell nothing about fullness."""
    if stale:
        physical = promised = None
    bounds = [physical, promised]
    if has_no_room and any(bounds):
        bounds.append(Severity.FULL)
    return {"severity": severity.worst(bounds), "physical_severity": physical, "promised_severity": promised}


def _forecast(fullness: Severity | None, forecast: PoolForecast | None) -> dict[str, Any]:
    """Return the forecast of a pool; the figures say of a full one that it is full."""
    if fullness in (Severity.OVER, Severity.FULL):
        return {"forecast": _FULL, "full_in_days": 0.0}
    if forecast is None:
        return {"forecast": None, "full_in_days": None}
    return {"forecast": forecast.text, "full_in_days": forecast.full_in_days}


def _percent(part: Floats, whole: Floats) -> Any:
    """Return part / whole in percent, ``nan`` if one is unknown or infinite or ``whole`` is not positive."""
    is_divisor = elementwise.finite(whole) & (whole > 0)
    return np.where(is_divisor, part / np.where(is_divisor, whole, 1.0) * 100, math.nan)


def _wire(column: Any) -> Sequence[Any]:
    return units.column_to_wire(elementwise.two_decimals(np.asarray(column, dtype=np.float64)))


def _finite_or_none(column: Any) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in elementwise.two_decimals(column).tolist()]


def _where(mask: Any, values: Sequence[Any]) -> list[Any]:
    return [value if selected else None for selected, value in zip(mask.tolist(), values, strict=True)]


def _backends(
    rows: Iterable[BackendRow],
    pools: Iterable[PoolOverview],
    progress: Mapping[str, DrainProgress],
    silence: _Silence,
) -> list[BackendOverview]:
    """Return the backends by name, with the sums of their pools; the reason of a drain has its progress."""
    by_backend: dict[str, list[PoolOverview]] = {}
    for pool in pools:
        by_backend.setdefault(pool.backend, []).append(pool)
    views = []
    for row in sorted(rows, key=lambda row: row.name):
        state, reason = _backend_word(row, silence)
        if (drain := progress.get(row.name)) is not None:
            reason = drain.text if reason is None else f"{reason}; {drain.text}"
        of_backend = by_backend.get(row.name, [])
        views.append(
            BackendOverview(
                name=row.name,
                availability_zone=row.availability_zone,
                state=state,
                state_reason=reason,
                reported_at=text_of_time(row.last_report_at),
                pools=len(of_backend),
                fullness=_severity_counts(of_backend),
                allocated_gb=row.allocated_gb,
                in_flight_gb=sum(pool.in_flight_gb for pool in of_backend),
            )
        )
    return views


def _severity_counts(pools: Iterable[PoolOverview]) -> SeverityCounts:
    counts = Counter(pool.severity for pool in pools)
    return SeverityCounts(**{word: counts[word] for word in Severity})


def _backend_counts(rows: Iterable[BackendRow], down_time: float) -> BackendCounts:
    rows = list(rows)
    times = [_collected_at(row) for row in rows if _is_up(row, down_time)]
    return BackendCounts(
        total=len(rows),
        current=len(times),
        oldest_collected_at=text_of_time(min((time for time in times if time is not None), default=None)),
    )


def _summary(
    pools: Sequence[PoolOverview],
    storage_rooms: Mapping[str, float],
    counts: BackendCounts,
    reasons: list[str],
    problem_list: list[Problem],
) -> CapacitySummary:
    """Return the summary. ``storage_rooms`` has the rest of the storage of a partition, ``inf`` for other pools."""
    left_out = LeftOut(stale=0, disabled=0, unknown=0)
    summed: dict[str, PoolOverview] = {}
    number = 0
    for pool in pools:
        if pool.stale:
            left_out.stale += 1
        elif pool.state != "up":
            left_out.disabled += 1
        elif pool.full_percent is None or pool.physical_percent is None or pool.promised_percent is None:
            left_out.unknown += 1
        else:
            number += 1
            # Each pool of a shared storage reports the whole storage, unless it is a partition.
            summed.setdefault(pool.name if math.isfinite(storage_rooms[pool.name]) else _storage_key(pool), pool)

    def total(key: str) -> float:
        return round(float(sum(getattr(pool, key) for pool in summed.values())), 2)

    return CapacitySummary(
        reasons=reasons,
        backends=counts,
        problems=problem_list,
        pools=len(pools),
        fullness=_severity_counts(pools),
        summed_pools=number,
        physical=PhysicalSums(
            total_gb=total("total_gb"),
            used_gb=total("used_gb"),
            in_flight_gb=total("in_flight_physical_gb"),
            reserved_gb=total("reserved_gb"),
            left_gb=_physical_left(summed.values(), storage_rooms),
            excess_gb=total("physical_excess_gb"),
        ),
        promised=PromisedSums(
            promised_gb=total("promised_gb"),
            in_flight_gb=total("in_flight_gb"),
            limit_gb=total("promise_limit_gb"),
            left_gb=total("promise_left_gb"),
            excess_gb=total("promise_excess_gb"),
        ),
        left_out=left_out,
    )


def _physical_left(pools: Iterable[PoolOverview], storage_rooms: Mapping[str, float]) -> float:
    """Return the sum of the rooms of pools in GiB. The partitions of a storage have at most its rest together."""
    rooms: dict[str, float] = {}
    bounds: dict[str, float] = {}
    for pool in pools:
        storage = _storage_key(pool)
        rooms[storage] = rooms.get(storage, 0.0) + float(pool.physical_left_gb)
        bounds[storage] = max(bounds.get(storage, 0.0), storage_rooms[pool.name])
    return round(sum(min(room, bounds[storage]) for storage, room in rooms.items()), 2)


def _storage_key(pool: PoolOverview) -> str:
    """Return a key of the pool's storage, which differs from the names of pools."""
    return pool.name if pool.storage_id is None else f"\0{pool.storage_id}"
