# SPDX-License-Identifier: Apache-2.0
"""Alerts about pools that hold more than they should, found while reports are applied."""

import datetime
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np
from sqlalchemy import orm

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.reports.pool_stats import StatsColumns
from tonnage.ledger.catalog import notification_outbox
from tonnage.ledger.claims.pool_counters import Counters
from tonnage.ledger.inventory import reports
from tonnage.ledger.inventory.reports import Applied
from tonnage.notifications import payloads, threshold_crossings
from tonnage.notifications.announcer import Announcer, AnnouncerConfig
from tonnage.notifications.usage_sender import UsageReport
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports import pool_figures
from tonnage.scheduler.reports.backend_state import BackendEntry, PoolEntry
from tonnage.scheduler.reports.report_diff import ReportDiff

LOG = logging.getLogger(__name__)

#: A report, the backend that it is of, and what is new in it.
Look: TypeAlias = tuple[BackendReport, BackendEntry, ReportDiff]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A report with the over-subscription ratios that count, by pool, and how its pools stand."""

    look: Look
    ratios: dict[str, float]
    judgement: threshold_crossings.PoolStates


class CapacityAlerts:
    """Finds out, while reports are applied, which pools begin or cease to hold more than they should.

    That is written in the same transaction, so that there is no report applied whose crossings are not announced.
    """

    def __init__(self, hosts: HostManager, announcer: Announcer) -> None:
        self._hosts = hosts
        self._announcer = announcer
        #: Those that the last transaction has found.
        self._found: list[payloads.ThresholdCrossing] = []

    def writer(self, looks: Sequence[Look]) -> Callable[[orm.Session], list[Applied | None]]:
        """Return what applies reports in a transaction."""
        if not self._announcer.enabled:
            return functools.partial(reports.apply, reports=[look[2].report for look in looks])
        judged = [self._judge(look) for look in looks]

        def write(session: orm.Session) -> list[Applied | None]:
            self._found = []  # should it have been rolled back and run again
            applied = reports.apply(session, [each.look[2].report for each in judged])
            self._announce(
                session, [(each, what) for each, what in zip(judged, applied, strict=True) if what is not None]
            )
            return applied

        return write

    def applied(self, looks: Sequence[Look]) -> None:
        """Announce reports that were applied here and have been taken over."""
        if self._found:
            _log(self._found)
            self._found = []
            self._announcer.wake()
        if not self._announcer.sends_usage:
            return
        table = self._hosts.table
        for _, backend, examined in looks:
            rows = [row for row in map(table.index, examined.stats) if row is not None]
            if rows and backend.reported_at is not None:
                pools = table.take(np.array(rows, dtype=np.intp))
                self._announcer.send_usage(
                    UsageReport(backend.name, pools, self._hosts.calculation, backend.reported_at)
                )

    def change(self, plan: AnnouncerConfig) -> None:
        """Go by another configuration from the next report on."""
        self._announcer.reconfigure(plan)

    def purge(self) -> None:
        """Drop what nobody takes."""
        self._announcer.purge()

    def _judge(self, look: Look) -> _Judged:
        stats = look[2].stats
        names = list(stats)
        columns = StatsColumns.of(list(stats.values()))
        entries = self._hosts.entries
        ratios = {figure.name: figure.ratio for figure in look[2].report.figures}
        ratios.update((name, entries[name].ratio) for name in names if name not in ratios)
        held = columns.provisioned.copy()
        for row in np.flatnonzero(np.isnan(held)).tolist():
            entry = entries.get(names[row])
            if entry is not None:
                held[row] = entry.counters.allocated + entry.counters.shared_allocated + entry.counters.external
        pools = SimpleNamespace(
            total=columns.total,
            free=columns.free,
            reserved_percentage=columns.reserved_percentage,
            ratio=np.fromiter(map(ratios.__getitem__, names), dtype=np.float64, count=len(names)),
            thin=columns.thin,
        )
        judgement = threshold_crossings.classify(
            names, pools, held, self._hosts.calculation, self._announcer.thresholds
        )
        return _Judged(look, ratios, judgement)

    def _announce(self, session: orm.Session, applied: Sequence[tuple[_Judged, Applied]]) -> None:
        if not applied:
            return
        known = notification_outbox.exceeded(session, [judged.look[1].id for judged, _ in applied])
        for judged, result in applied:
            judgement, stats = judged.judgement, judged.look[2].stats
            begin = [name for name in judgement.exceeded if name not in known]
            end = [
                name
                for name in known
                if name in stats and name not in judgement.exceeded and name not in judgement.in_hysteresis
            ]
            if begin or end:
                ids = {name: self._id(name, result) for name in (*begin, *end)}
                notification_outbox.mark(
                    session, exceeded=[ids[name] for name in begin], recovered=[ids[name] for name in end]
                )
                found = self._crossings(judged, result, ids, known)
                self._found += found
                self._announcer.put(session, found, _moment(judged.look[0]))

    def _id(self, name: str, applied: Applied) -> int:
        known = applied.ids.get(name)
        return self._hosts.entries[name].id if known is None else known

    def _crossings(
        self, judged: _Judged, applied: Applied, ids: dict[str, int], known: dict[str, notification_outbox.Exceeded]
    ) -> list[payloads.ThresholdCrossing]:
        _, backend, examined = judged.look
        entries = []
        for name, pool_id in ids.items():
            entry = self._hosts.entries.get(name)
            counters = applied.counters.get(pool_id, Counters() if entry is None else entry.counters)
            entries.append(
                PoolEntry(pool_id, 0, examined.stats[name], examined.raw[name], counters, judged.ratios[name])
            )
        pools = PoolTable()
        pools.put_columns(list(ids), pool_figures.columns(entries, [backend] * len(entries)))
        return [
            payloads.ThresholdCrossing(
                usage=usage,
                used_percent=float(used),
                limit=float(limit),
                ratio=float(ratio),
                reasons=judged.judgement.exceeded.get(usage.name, ()),
                since=known[usage.name].since if usage.name in known else None,
            )
            for usage, used, limit, ratio in zip(
                payloads.usages(pools, self._hosts.calculation),
                threshold_crossings.used_percent(pools),
                threshold_crossings.provisioning_limit(pools, self._hosts.calculation),
                pools.ratio,
                strict=True,
            )
        ]


def _log(found: Sequence[payloads.ThresholdCrossing]) -> None:
    for crossing in found:
        figures = crossing.used_percent, crossing.usage.total, crossing.usage.provisioned, crossing.limit
        if crossing.reasons:
            LOG.warning(
                "Pool %s holds too much (%s): %.2f %% of %.2f GiB in use, %.2f GiB of at most %.2f provisioned",
                crossing.usage.name,
                ", ".join(crossing.reasons),
                *figures,
            )
        else:
            LOG.info(
                "Pool %s has recovered: %.2f %% of %.2f GiB in use, %.2f GiB of at most %.2f provisioned",
                crossing.usage.name,
                *figures,
            )


def _moment(message: BackendReport) -> datetime.datetime:
    """Return when a report was made."""
    return datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=message.age)
