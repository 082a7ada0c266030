# SPDX-License-Identifier: Apache-2.0
"""The comparison of a report with the cache: faults of the report, new figures, and the rows to be written."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pool_stats import PoolStats
from tonnage.capacity.pools.pool import pool_name
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.reports import validation
from tonnage.ledger.inventory import reports
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.rpc.messages import REPORT_STEP, BackendReport
from tonnage.scheduler.cache import pool_figures
from tonnage.scheduler.cache.backend_state import BackendEntry, PoolEntry

LOG = logging.getLogger(__name__)

#: Most remarks about a report that have a line each in the log.
_FIRST = 3

#: An age in seconds at which no figures may be used any more.
_AGES = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPart(BackendReport):
    """A report whose first ``pools_read`` pools were read with its earlier parts. It has a number of its own."""

    pools_read: int

    @classmethod
    def after(cls, message: BackendReport, pools_read: int) -> Self:
        """Return the part that follows on the one in which ``pools_read`` pools had been read, without outcomes."""
        values = {field.name: getattr(message, field.name) for field in fields(BackendReport)}
        return cls(**values | {"seq": message.seq + 1, "ended": [], "in_hand": []}, pools_read=pools_read)


@dataclass(frozen=True, slots=True)
class ReportDiff:
    """The result of a comparison.

    ``stats`` and ``raw`` are the usable figures of the report by pool, validated and as reported. ``vanished`` are the
    cached pools that are no longer reported, ``report`` is what the ledger has to apply. ``unstamped`` are the storages
    that other backends share and for which the report carries no stamp. ``pools`` are all pools as reported, usable or
    not; one that has not changed is the same object as in the last report. ``remainder`` is the next part of the
    report, None if this one is the last.
    """

    backend: BackendEntry
    message: BackendReport
    stats: Mapping[str, PoolStats]
    raw: Mapping[str, Mapping[str, Any]]
    vanished: Collection[str]
    report: reports.Report
    unstamped: Collection[str] = ()
    pools: Sequence[Mapping[str, Any]] = ()
    remainder: ReportPart | None = None


class ReportDiffer:
    """Compares reports with the cache: its ``table`` and its ``entries``.

    ``rules`` is the generation of ``default_ratio`` and ``calculation`` in the ledger.
    """

    def __init__(
        self,
        table: PoolTable,
        entries: Mapping[str, PoolEntry],
        default_ratio: float | str,
        calculation: Calculation,
        rules: int,
    ) -> None:
        self._table = table
        self._entries = entries
        self._default_ratio = default_ratio
        self._calculation = calculation
        self._rules = rules

    def diff(self, backend: BackendEntry, message: BackendReport, limit: int) -> ReportDiff:
        """Validate a report and find its changes. Only the record of the messages about the backend changes.

        At most ``limit`` pools with new figures are read; the others are left for the next part of the report.
        """
        fresh: list[Mapping[str, Any]] = []
        stats: dict[str, PoolStats] = {}
        raw: dict[str, Mapping[str, Any]] = {}
        named: dict[str, Mapping[str, Any]] = {}
        remarks: list[tuple[str, str, object]] = []
        reported, postponed = set(), set()
        remainder: ReportPart | None = None
        pools_read = message.pools_read if isinstance(message, ReportPart) else 0
        pools: list[Mapping[str, Any]] = list(message.pools)
        for number, pool in enumerate(message.pools):
            short = pool.get("pool_name")
            name = pool_name(backend.name, str(short))
            reported.add(name)
            entry = self._entries.get(name)
            if isinstance(short, str) and named.setdefault(name, pool) is not pool:
                remarks.append((name, "pool_name", f"pool {name} is reported twice; the first one counts"))
            elif entry is not None and (entry.raw is pool or entry.raw == pool):
                stats[name], raw[name] = entry.stats, entry.raw
                pools[number] = entry.raw
            elif number < pools_read:
                continue  # an earlier part found that it is unusable
            elif len(fresh) < limit:
                fresh.append(pool)
            else:
                postponed.add(name)
                remainder = remainder or ReportPart.after(message, number)
        checked = validation.validate(fresh)
        # A driver that reports allocated does so for every pool.
        remarks += [
            ("" if remark.code == "allocated_reported" else remark.pool, remark.code, remark)
            for remark in checked.remarks
        ]
        remarks += [(error.pool, error.field, error) for error in checked.errors]
        _warn(backend, remarks)
        valid = [pool_name(backend.name, pool_stats.name) for pool_stats in checked.pools]
        stats.update(zip(valid, checked.pools, strict=True))
        raw.update(zip(valid, map(named.__getitem__, valid), strict=True))
        storages = {pool_stats.storage_id for pool_stats in stats.values() if pool_stats.storage_id is not None}
        unstamped = {storage_id for storage_id in storages if self._is_unstamped(storage_id, message)}
        pools_without_stamp = (
            [name for name, pool_stats in stats.items() if pool_stats.storage_id in unstamped] if unstamped else []
        )
        self._log_unstamped(backend, {name: str(stats[name].storage_id) for name in pools_without_stamp}, message)
        for name in pools_without_stamp:
            del stats[name], raw[name]
        bad = reported - stats.keys() - postponed
        gone = backend.pools - stats.keys() - bad - postponed
        return ReportDiff(
            backend=backend,
            message=message,
            stats=stats,
            raw=raw,
            vanished=gone,
            report=reports.Report(
                backend_id=backend.id,
                epoch=message.epoch,
                seq=message.seq,
                base=backend.report_seq,
                covers=message.covers,
                rules=self._rules,
                figures=pool_figures.for_ledger(self._changes(stats, raw), self._calculation),
                unusable=[self._entries[name].id for name in bad if name in self._entries],
                postponed=[self._entries[name].id for name in postponed if name in self._entries],
                vanished=[self._entries[name].id for name in gone],
                stamps=message.stamps,
                storages=storages - unstamped,
                age=_age(message),
            ),
            unstamped=unstamped,
            pools=pools,
            remainder=remainder,
        )

    def _is_unstamped(self, storage_id: str, message: BackendReport) -> bool:
        """Return whether a storage is shared and the report carries no stamp of it."""
        if storage_id in message.stamps:
            return False
        return any(backend != message.backend for backend in self._table.backends_on(storage_id))

    def _log_unstamped(self, backend: BackendEntry, storages: Mapping[str, str], message: BackendReport) -> None:
        """Log the pools for whose storages the report has no stamp.

        The first report of a backend may come before its agent knows that it shares a storage, so the log of
        administrators has only pools of a further report.
        """
        is_part = isinstance(message, ReportPart)
        seq = message.seq - message.seq % REPORT_STEP if is_part else message.seq
        first_reports = {name: min(backend.unstamped.get(name, seq), seq) for name in storages}
        backend.unstamped = {**(backend.unstamped if is_part else {}), **first_reports}
        lasting = [name for name, first in first_reports.items() if first < seq]
        for name in first_reports.keys() - lasting:
            LOG.debug("Backend %s: the report has no stamp of the storage of pool %s", backend.name, name)
        text = (
            "pool {} shares the storage {} with another backend, and its reports do not say which volumes of that "
            "backend they contain (they have no stamp); its figures are left out until a report does: restart its "
            "agent if this lasts"
        )
        _warn(backend, [(name, "storage_id", text.format(name, storages[name])) for name in lasting])

    def _changes(self, stats: Mapping[str, PoolStats], raw: Mapping[str, Mapping[str, Any]]) -> pool_figures.Changes:
        """Return the pools whose figures or ratio have changed."""
        changed = []
        for name, pool_stats in stats.items():
            entry = self._entries.get(name)
            ratio = pool_figures.ratio(pool_stats, Counters() if entry is None else entry.counters, self._default_ratio)
            # The same figures give another ratio where allocated stands in for provisioned.
            if entry is None or entry.raw is not raw[name] or entry.ratio != ratio:
                changed.append((name, pool_stats, raw[name], entry, ratio))
        names, new, reported, entries, ratios = zip(*changed, strict=True) if changed else ((),) * 5
        return pool_figures.Changes(names=names, stats=new, raw=reported, entries=entries, ratios=ratios)


def _warn(backend: BackendEntry, remarks: Sequence[tuple[str, str, object]]) -> None:
    """Log remarks on fields of pools, in one line if there are many.

    A remark is logged once, even if the field has another wrong value in the next report.
    """
    new = []
    for pool, field, remark in remarks:
        if (pool, field) not in backend.warned:
            backend.warned.add((pool, field))
            new.append(str(remark))
    if len(new) > _FIRST:
        text = "Backend %s: %d new remarks about its report, of which the first are: %s"
        LOG.warning(text, backend.name, len(new), "; ".join(new[:_FIRST]))
        return
    for remark in new:
        LOG.warning("Backend %s: %s", backend.name, remark)


def _age(message: BackendReport) -> float:
    """Return the age in seconds of figures when they were sent; an impossible age makes them unusable."""
    return max(0.0, message.age) if message.age < _AGES else _AGES
