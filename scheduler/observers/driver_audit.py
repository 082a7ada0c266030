# SPDX-License-Identifier: Apache-2.0
"""The audit of drivers: a comparison of reports and listings with the definitions of the reported figures.

Most faults show in the report itself. Only a listing of the same moment can tell whether the provisioned capacity is
the sum of the volumes. So a listing contains the figures that the driver reported meanwhile, for the pools in which
nothing changed in between. Some drivers cannot exclude a change, so such a finding counts once the next listing shows
it too.
"""

import enum
import itertools
import logging
import math
import operator
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tonnage.capacity.pools.pool import pool_name
from tonnage.capacity.reports import audit_rules
from tonnage.capacity.reports.audit_rules import Auditor, Breach, Volumes
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import audit_findings, listings
from tonnage.ledger.inventory.audit_findings import Evidence, Key
from tonnage.rpc.messages import AuditSnapshot, Listing

LOG = logging.getLogger(__name__)

#: Seconds after which the last report of a backend is forgotten, and after which everything about a backend is.
_LAST_REPORT, _FORGOTTEN = 600.0, 86_400.0

#: Most pools with the same finding that the log names; a driver usually breaks a definition in all its pools.
_NAMED = 10


class Compared(enum.Enum):
    """The result of the comparison of a listing with the figures in it, and with the ledger."""

    #: All findings are final.
    DONE = enum.auto()
    #: A finding is new, and needs another listing.
    NEEDS_SECOND_LISTING = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedReport:
    """The pools of an applied report; one that has not changed is the same object as in the report before it."""

    backend: str
    pools: Sequence[Mapping[str, Any]]
    supports_auto_ratio: bool | None = None


@dataclass(slots=True)
class _Memory:
    """The last report of a backend with its findings, and the figures and GiB in the last listing of each pool.

    ``broken`` maps positions among the pools of the report to the breaches there. ``reported`` and ``used`` are the
    monotonic times of that report and of the last report or listing.
    """

    reported: float = -math.inf
    used: float = -math.inf
    report: AuditedReport | None = None
    broken: dict[int, Mapping[Breach, str]] = field(default_factory=dict)
    auditor: Auditor = field(default_factory=lambda: Auditor(supports_auto=True))
    listed: dict[str, float] = field(default_factory=dict)


class DriverAudit:
    """Belongs to one thread; only ``findings`` may be read by others, as it is replaced as a whole."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._memories: dict[str, _Memory] = {}
        self._recorded: dict[str, dict[Key, Evidence]] = {}
        self._mark: tuple[object, ...] = ()
        #: The findings of pools by full name: the figures that show them, by the definition that they break.
        self.findings: Mapping[str, Mapping[str, str]] = {}

    def refresh(self) -> None:
        """Take over the findings of other schedulers, and forget backends that have gone."""
        self._forget_silent()
        with self._database.reading() as session:
            mark = audit_findings.version(session)
            if mark == self._mark:
                return  # a driver may break something for each of thousands of pools
            rows = audit_findings.load(session)
        self._mark = mark
        recorded: dict[str, dict[Key, Evidence]] = {}
        for row in rows:
            recorded.setdefault(row.backend, {})[row.key] = row.evidence
        self._recorded = recorded
        self._publish()

    def inspect(self, backend_id: int, report: AuditedReport) -> None:
        """Record the findings that a report alone shows. Only the pools that have changed are checked."""
        findings: dict[Key, Evidence] = {}
        for position, broken in self._broken(report).items():
            name = audit_findings.stored_name(audit_rules.reported_name(report.pools[position]))
            for breach, text in broken.items():
                findings.setdefault((name, breach.value), Evidence(text))
        recorded = self._recorded.get(report.backend, {})
        reported: set[str] = set()
        if recorded:
            reported.update(audit_findings.stored_name(audit_rules.reported_name(pool)) for pool in report.pools)
        elif not findings:
            return
        self._settle(
            report.backend,
            backend_id,
            findings,
            {key for key in recorded if key[0] not in reported or key[1] not in audit_rules.VOLUME_BREACHES},
        )

    def _broken(self, report: AuditedReport) -> Mapping[int, Mapping[Breach, str]]:
        """Return the breaches in the pools of a report, by position."""
        memory = self._memories.setdefault(report.backend, _Memory())
        memory.reported = memory.used = self._clock()
        last, broken = memory.report, {}
        if last is None or last.supports_auto_ratio != report.supports_auto_ratio:
            last = AuditedReport(backend=report.backend, pools=())
        for position, (pool, earlier) in enumerate(itertools.zip_longest(report.pools, last.pools)):
            if pool is None:
                break  # the last report had more pools
            if pool is earlier:
                breaches = memory.broken.get(position)
            else:
                breaches = audit_rules.check_report(pool, report.supports_auto_ratio)
            if breaches:
                broken[position] = breaches
        memory.report, memory.broken = report, broken
        return broken

    def doubtful(self, backends: Mapping[int, str]) -> dict[str, bool]:
        """Return the names of the backends that need a listing, each with whether it is needed soon.

        These have findings that another listing may confirm, or show to be repaired.
        """
        with self._database.reading() as session:
            doubtful = {backends[backend_id] for backend_id in audit_findings.doubtful(session, backends)}
        needed_soon = {}
        for name in backends.values():
            volume_findings = [
                finding
                for key, finding in self._recorded.get(name, {}).items()
                if key[1] in audit_rules.VOLUME_BREACHES
            ]
            unsure = any(finding.once is not None for finding in volume_findings)
            if volume_findings or name in doubtful:
                needed_soon[name] = unsure or name not in doubtful
        return needed_soon

    def compare(self, backend_id: int, listing: Listing) -> Compared:
        """Compare the figures in a listing with its volumes; the ledger has compared the volumes with its claims."""
        settled, busy = _by_settledness(listing.audit_snapshots)
        memory = self._memories.setdefault(listing.backend, _Memory())
        memory.used = self._clock()
        broken = {
            **memory.auditor.check_volumes(_figures(settled), _volumes(settled, memory.listed)),
            **Auditor(supports_auto=True).check_volumes(_figures(busy), _volumes(busy, {})),
        }
        memory.listed = {**memory.listed, **{name: snapshot.least_gb for name, snapshot in settled.items()}}
        recorded = self._recorded.get(listing.backend, {})
        findings = {
            (name, breach.value): _finding(breach, text, recorded.get((name, breach.value)), listing.tick)
            for name, texts in broken.items()
            for breach, text in texts.items()
        }
        judged = {key for key in recorded if key[1] in audit_rules.VOLUME_BREACHES and key[0] in settled}
        self._settle(listing.backend, backend_id, findings, judged)
        with self._database.reading() as session:
            is_clear = not listings.has_unclear(session, backend_id)
        return (
            Compared.DONE
            if is_clear and all(finding.once is None for finding in findings.values())
            else Compared.NEEDS_SECOND_LISTING
        )

    def _forget_silent(self) -> None:
        """Forget reports that go to another scheduler now, and the memories of backends that have gone."""
        now = self._clock()
        for name, memory in list(self._memories.items()):
            if now - memory.used > _FORGOTTEN:
                del self._memories[name]
            elif now - memory.reported > _LAST_REPORT:
                memory.report, memory.broken = None, {}

    def _settle(self, backend: str, backend_id: int, findings: Mapping[Key, Evidence], judged: Collection[Key]) -> None:
        """Record findings in the ledger, and log those that are new."""
        recorded = self._recorded.get(backend, {})
        same = all(key in recorded and recorded[key].once == finding.once for key, finding in findings.items())
        if same and findings.keys() >= set(judged):
            return
        # Another scheduler may find the same at the same moment.
        settled = self._database.run_past_duplicates(audit_findings.store, backend_id, findings, judged.__contains__)
        remaining = {key: finding for key, finding in recorded.items() if key in findings or key not in judged}
        self._recorded[backend] = {**remaining, **findings}
        self._publish()
        _log_new(backend, {key: findings[key].text for key in settled.new})
        for pool, breach in settled.mended:
            LOG.info("Pool %s: its report breaks %s no more", pool_name(backend, pool), breach)

    def _publish(self) -> None:
        findings: dict[str, dict[str, str]] = {}
        for backend, backend_findings in self._recorded.items():
            for (pool, breach), finding in sorted(backend_findings.items(), key=operator.itemgetter(0)):
                if finding.once is None:
                    findings.setdefault(pool_name(backend, pool), {})[breach] = finding.text
        self.findings = findings


def _finding(breach: Breach, text: str, before: Evidence | None, tick: int) -> Evidence:
    """Return the finding of a breach in the listing of that tick: it is final if another listing had it too."""
    if breach is Breach.STANDS_STILL:  # it takes several listings to show
        return Evidence(text)
    if before is None:
        return Evidence(text, tick)
    return before if before.once in (None, tick) else Evidence(text)


def _log_new(backend: str, new: Mapping[Key, str]) -> None:
    by_breach: dict[str, list[Key]] = {}
    for key in sorted(new):
        by_breach.setdefault(key[1], []).append(key)
    for breach, keys in by_breach.items():
        for key in keys[:_NAMED]:
            LOG.warning("Pool %s: its report breaks %s: %s", pool_name(backend, key[0]), breach, new[key])
        if len(keys) > _NAMED:
            LOG.warning(
                "Backend %s: %d pool(s) more break %s; see 'tonnage-manage driver audit'",
                backend,
                len(keys) - _NAMED,
                breach,
            )


def _by_settledness(
    audit_snapshots: Sequence[AuditSnapshot],
) -> tuple[dict[str, AuditSnapshot], dict[str, AuditSnapshot]]:
    """Return the audit snapshots of settled pools and of busy ones, in which something changed meanwhile, by pool name.

    Pools of one storage may share its figures, and are busy together.
    """
    storages = {snapshot.figures.get("storage_id") for snapshot in audit_snapshots if snapshot.all_gb is None} - {None}
    groups: tuple[dict[str, AuditSnapshot], dict[str, AuditSnapshot]] = {}, {}
    for snapshot in audit_snapshots:
        is_busy = snapshot.all_gb is None or snapshot.figures.get("storage_id") in storages
        groups[is_busy][audit_findings.stored_name(audit_rules.reported_name(snapshot.figures))] = snapshot
    return groups


def _figures(audit_snapshots: Mapping[str, AuditSnapshot]) -> list[Mapping[str, Any]]:
    return [{**snapshot.figures, "pool_name": name} for name, snapshot in audit_snapshots.items()]


def _volumes(audit_snapshots: Mapping[str, AuditSnapshot], before: Mapping[str, float]) -> dict[str, Volumes]:
    """Return the sums of the volumes of pools; ``before`` has the sums of the listing before, in GiB."""
    return {
        name: Volumes(
            least_gb=snapshot.least_gb,
            all_gb=snapshot.all_gb,
            moved_gb=round(snapshot.least_gb - before.get(name, snapshot.least_gb), 6),
        )
        for name, snapshot in audit_snapshots.items()
    }
