# SPDX-License-Identifier: Apache-2.0
"""Looking at a report: what is wrong with it, what is new in it, and what of it has to be written."""

import logging
from collections.abc import Collection
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tonnage.capacity import report
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.pools import pool_name
from tonnage.capacity.stats import PoolStats
from tonnage.ledger import reports
from tonnage.ledger.counters import Counters
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler import figures
from tonnage.scheduler.memory import Backend
from tonnage.scheduler.memory import PoolEntry

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Examined:
    """A report, looked at: what has to be written, and what each pool will look like."""

    stats: Mapping[str, PoolStats]
    raw: Mapping[str, Mapping[str, Any]]
    vanished: Collection[str]
    report: reports.Report


class Examiner:
    """Compares reports with what is remembered: ``table`` and ``entries``, which it does not change.

    ``rules`` is the generation of the rules that ``default_ratio`` and ``calculation`` are.
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

    def examine(self, backend: Backend, message: BackendReport) -> Examined:
        """Validate a report and find what is new in it. Nothing is changed but the record of what was warned about."""
        fresh: list[Mapping[str, Any]] = []
        stats: dict[str, PoolStats] = {}
        raw: dict[str, Mapping[str, Any]] = {}
        named: dict[str, Mapping[str, Any]] = {}
        for pool in message.pools:
            name = pool_name(backend.name, str(pool.get("pool_name")))
            entry = self._entries.get(name)
            if isinstance(pool.get("pool_name"), str) and named.setdefault(name, pool) is not pool:
                self._warn_once(backend, name, "pool_name", f"pool {name} is reported twice; the first one counts")
            elif entry is not None and entry.raw == pool:
                stats[name], raw[name] = entry.stats, entry.raw
            else:
                fresh.append(pool)
        checked = report.validate(fresh)
        for remark in checked.remarks:
            # A driver that reports allocated does so for every pool.
            self._warn_once(backend, "" if remark.code == "allocated_reported" else remark.pool, remark.code, remark)
        for error in checked.errors:
            self._warn_once(backend, error.pool, error.field, error)
        for valid in checked.pools:
            name = pool_name(backend.name, valid.name)
            stats[name], raw[name] = valid, named[name]
        for name in [name for name in stats if self._is_unordered(name, stats[name], message)]:
            self._warn_once(
                backend,
                name,
                "storage_id",
                f"pool {name} shares storage {stats[name].storage_id} with another backend, and its report carries no "
                "stamp of it; its figures are left out until one does",
            )
            del stats[name], raw[name]
        bad = {pool_name(backend.name, str(pool.get("pool_name"))) for pool in message.pools} - set(stats)
        gone = backend.pools - set(stats) - bad
        return Examined(
            stats=stats,
            raw=raw,
            vanished=gone,
            report=reports.Report(
                backend_id=backend.id,
                epoch=message.epoch,
                seq=message.seq,
                base=backend.seq,
                covers=message.covers,
                rules=self._rules,
                figures=[
                    self._figures(name, stats[name], raw[name], backend)
                    for name in stats
                    if self._is_new(name, stats[name], raw[name])
                ],
                unheard=[self._entries[name].id for name in bad if name in self._entries],
                vanished=[self._entries[name].id for name in gone],
                stamps=message.stamps,
                storages={one.storage_id for one in stats.values() if one.storage_id is not None},
            ),
        )

    def _is_unordered(self, name: str, stats: PoolStats, message: BackendReport) -> bool:
        """Tell whether nobody can say what of other backends a pool's figures contain."""
        if stats.storage_id is None or stats.storage_id in message.stamps:
            return False
        return any(backend != message.backend for backend in self._table.backends_on(stats.storage_id))

    @staticmethod
    def _warn_once(backend: Backend, pool: str, what: str, message: object) -> None:
        """Log what is wrong with a pool once; with other figures the next time it is no news."""
        if (pool, what) not in backend.warned:
            backend.warned.add((pool, what))
            LOG.warning("Backend %s: %s", backend.name, message)

    def _is_new(self, name: str, stats: PoolStats, raw: Mapping[str, Any]) -> bool:
        entry = self._entries.get(name)
        if entry is None or entry.raw is not raw:
            return True
        # The same figures give another ratio where allocated stands in for provisioned.
        return figures.ratio(stats, entry.counters, self._default_ratio) != entry.ratio

    def _figures(self, name: str, stats: PoolStats, raw: Mapping[str, Any], backend: Backend) -> reports.PoolFigures:
        entry = self._entries.get(name)
        counters = Counters() if entry is None else entry.counters
        pool = figures.row(name, stats, counters, figures.ratio(stats, counters, self._default_ratio), backend)
        return figures.for_ledger(pool, stats, raw, entry, self._calculation)
