# SPDX-License-Identifier: Apache-2.0
"""Alerts about pools that hold too much, found while reports are applied.

The module belongs to the decision thread; other threads send the alerts.
"""

import datetime
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from sqlalchemy import orm

from tonnage.capacity.pool_stats import StatsColumns
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.announcements import notification_outbox, payloads, threshold_crossings
from tonnage.extensions.announcements.announcer import Announcer, AnnouncerConfig
from tonnage.extensions.announcements.usage_sender import UsageReport
from tonnage.ledger.inventory.reports import Applied
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler.agents.report_observer import AppliedReport, ReportObserver
from tonnage.scheduler.cache import pool_figures
from tonnage.scheduler.cache.backend_state import PoolEntry
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cache.report_diff import ReportDiff

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ClassifiedReport:
    """A report with the effective over-subscription ratios of its pools, by name, and the states of the pools."""

    diff: ReportDiff
    ratios: dict[str, float]
    states: threshold_crossings.PoolStates


class CapacityAlerts(ReportObserver):
    """Finds the pools that begin or cease to hold too much while reports are applied.

    Their alerts are written in the transaction that applies the report, so there is no crossing without an alert.
    """

    def __init__(self, hosts: HostManager, announcer: Announcer) -> None:
        self._hosts = hosts
        self._announcer = announcer
        #: The reports of the transaction that is about to run.
        self._classified: list[_ClassifiedReport] = []
        #: The crossings that the last transaction has found.
        self._new_crossings: list[payloads.ThresholdCrossing] = []

    def received(self, diffs: Sequence[ReportDiff]) -> None:
        """Classify the pools of the reports, before the transaction locks them."""
        self._classified = [self._classify(diff) for diff in diffs] if self._announcer.enabled else []

    def written(self, session: orm.Session, reports: Sequence[AppliedReport]) -> None:
        """Write the alerts of the reports that were applied."""
        self._new_crossings = []  # in case a transaction was rolled back and runs again
        results = {id(report.diff): report.result for report in reports}
        self._announce(
            session,
            [(report, results[id(report.diff)]) for report in self._classified if id(report.diff) in results],
        )

    def applied(self, diffs: Sequence[ReportDiff]) -> None:
        """Announce reports that were applied here and are in the cache."""
        if self._new_crossings:
            _log(self._new_crossings)
            self._new_crossings = []
            self._announcer.wake()
        if not self._announcer.sends_usage:
            return
        table = self._hosts.table
        for diff in diffs:
            rows = [row for row in map(table.index, diff.stats) if row is not None]
            if rows and diff.backend.reported_at is not None:
                pools = table.take(np.array(rows, dtype=np.intp))
                self._announcer.send_usage(
                    UsageReport(diff.backend.name, pools, self._hosts.calculation, diff.backend.reported_at)
                )

    def change(self, config: AnnouncerConfig) -> None:
        """Use another configuration from the next report on."""
        self._announcer.reconfigure(config)

    def _classify(self, diff: ReportDiff) -> _ClassifiedReport:
        stats = diff.stats
        names = list(stats)
        columns = StatsColumns.of(list(stats.values()))
        entries = self._hosts.entries
        ratios = {figure.name: figure.ratio for figure in diff.report.figures}
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
        states = threshold_crossings.classify(names, pools, held, self._hosts.calculation, self._announcer.thresholds)
        return _ClassifiedReport(diff, ratios, states)

    def _announce(self, session: orm.Session, applied: Sequence[tuple[_ClassifiedReport, Applied]]) -> None:
        if not applied:
            return
        exceeded_before = notification_outbox.exceeded(session, [report.diff.backend.id for report, _ in applied])
        for report, result in applied:
            states, stats = report.states, report.diff.stats
            begin = [name for name in states.exceeded if name not in exceeded_before]
            end = [
                name
                for name in exceeded_before
                if name in stats and name not in states.exceeded and name not in states.in_hysteresis
            ]
            if begin or end:
                ids = {name: self._id(name, result) for name in (*begin, *end)}
                notification_outbox.set_exceeded(
                    session, exceeded=[ids[name] for name in begin], recovered=[ids[name] for name in end]
                )
                crossings = self._crossings(report, result, ids, exceeded_before)
                self._new_crossings += crossings
                self._announcer.put(session, crossings, _reported_at(report.diff.message))

    def _id(self, name: str, applied: Applied) -> int:
        pool_id = applied.ids.get(name)
        return self._hosts.entries[name].id if pool_id is None else pool_id

    def _crossings(
        self,
        classified: _ClassifiedReport,
        applied: Applied,
        ids: dict[str, int],
        exceeded_before: dict[str, notification_outbox.Exceeded],
    ) -> list[payloads.ThresholdCrossing]:
        diff = classified.diff
        entries = []
        for name, pool_id in ids.items():
            entry = self._hosts.entries.get(name)
            counters = applied.counters.get(pool_id, Counters() if entry is None else entry.counters)
            entries.append(PoolEntry(pool_id, 0, diff.stats[name], diff.raw[name], counters, classified.ratios[name]))
        pools = PoolTable()
        pools.put_columns(list(ids), pool_figures.columns(entries, [diff.backend] * len(entries)))
        return [
            payloads.ThresholdCrossing(
                usage=usage,
                used_percent=float(used),
                limit=float(limit),
                ratio=float(ratio),
                reasons=classified.states.exceeded.get(usage.name, ()),
                since=exceeded_before[usage.name].since if usage.name in exceeded_before else None,
            )
            for usage, used, limit, ratio in zip(
                payloads.usages(pools, self._hosts.calculation),
                threshold_crossings.used_percent(pools),
                threshold_crossings.provisioning_limit(pools, self._hosts.calculation),
                pools.ratio,
                strict=True,
            )
        ]


def _log(crossings: Sequence[payloads.ThresholdCrossing]) -> None:
    for crossing in crossings:
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


def _reported_at(message: BackendReport) -> datetime.datetime:
    """Return when a report was made."""
    return datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=message.age)
