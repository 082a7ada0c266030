# SPDX-License-Identifier: Apache-2.0
"""The audit of Cinder's reports: fields against definitions, figures against rows, and silent backends."""

from collections.abc import Iterable
from typing import Any

from tonnage.capacity.pools.pool import pool_name
from tonnage.capacity.reports import audit_rules, validation
from tonnage.capacity.reports.audit_rules import Auditor, Breach, Volumes
from tonnage.extensions.cinder.decoding.cinder_messages import Report
from tonnage.extensions.cinder.watch.findings import Category, Finding, Key
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity

#: Breaches that are no fault of a driver of Cinder: its manager adds the allocated capacity, texts and null are usual.
_CINDERS_WAY = frozenset({Breach.NO_ALLOCATED, Breach.RATIO_RANGE, Breach.AUTO_UNDECLARED, Breach.RATIO_REQUIRED})

#: Seconds for which a volume must have been at rest before the last report but one.
_ROUNDING = 1.0


class ReportAudit:
    """Audits reports in their order, and finds silent backends after ``stale_after`` seconds."""

    def __init__(self, promised: PromisedCapacity, stale_after: float, down_time: float) -> None:
        self._promised, self._stale_after, self._down_time = promised, stale_after, down_time
        self._auditors: dict[str, Auditor] = {}
        self._least: dict[str, float] = {}
        self._pending: dict[str, tuple[Report, validation.Report, float]] = {}

    def note_report(self, report: Report, checked: validation.Report, now: float) -> None:
        """Note a report whose figures are used. It is audited with rows that are read after ``now``.

        Volumes that rows still show then were there when the driver looked.
        """
        self._pending[report.backend] = (report, checked, now)

    def audit(self, began: float, open_keys: Iterable[Key]) -> tuple[list[Finding], list[Key]]:
        """Audit the reports that came before the read of the rows began; return the findings, and the mended keys."""
        findings: list[Finding] = []
        ended: list[Key] = []
        for name, (report, checked, arrived) in list(self._pending.items()):
            if arrived < began:
                del self._pending[name]
                broken = self._look(report, checked)
                new, pools = {finding.key for finding in broken}, self._promised.backends[name].pools
                ended += [
                    key for key in open_keys if key[0] == Category.WRONG_REPORT and key[1] in pools and key not in new
                ]
                findings += broken
        return findings, ended

    def _look(self, report: Report, checked: validation.Report) -> list[Finding]:
        findings = [self._finding(report, error.pool, f"refused_{error.field}", str(error)) for error in checked.errors]
        pools = self._promised.backends[report.backend].pools
        raw: list[dict[str, Any]] = [dict(stats.raw) for stats in pools.values()]
        volumes = {str(pool["pool_name"]): self._volumes(report.backend, str(pool["pool_name"])) for pool in raw}
        auditor = self._auditors.setdefault(report.backend, Auditor(supports_auto=True))
        by_volumes = auditor.check_volumes(raw, volumes)
        for pool in raw:
            name = audit_rules.reported_name(pool)
            broken = audit_rules.check_report(pool, None) | by_volumes[name]
            findings += [
                self._finding(report, name, breach.value, text)
                for breach, text in broken.items()
                if breach not in _CINDERS_WAY
            ]
        return findings

    def silent(self, now: float) -> tuple[list[Finding], list[Key]]:
        """Return the backends that are up and silent, and the keys of findings about the other backends."""
        findings, ended = [], []
        for backend in self._promised.backends.values():
            service, silent = self._promised.services.get(backend.name), now - backend.heard_at
            is_up = service is not None and service.silent <= self._down_time
            if is_up and silent > self._stale_after:
                text = f"its service is up and has sent no report for {silent:.0f} s; its figures are that old"
                findings.append(
                    Finding(
                        category=Category.STALE_REPORT,
                        subject=backend.name,
                        code="silent",
                        text=text,
                        numbers={"seconds": round(silent)},
                    )
                )
            elif silent <= self._stale_after:
                ended.append((Category.STALE_REPORT.value, backend.name, "silent"))
        return findings, ended

    def _volumes(self, backend: str, pool: str) -> Volumes:
        """Return the sizes of the volumes that the last figures contain for certain."""
        name = pool_name(backend, pool)
        before = self._promised.backends[backend].before
        least = sum(
            row.size_gb
            for row in self._promised.rows_of(name)
            if row.finished and not row.migration_status.startswith("target:") and row.changed_at + _ROUNDING < before
        )
        moved = least - self._least.get(name, least)
        self._least[name] = least
        return Volumes(least_gb=float(least), moved_gb=float(moved))

    @staticmethod
    def _finding(report: Report, pool: str, code: str, text: str) -> Finding:
        return Finding(category=Category.WRONG_REPORT, subject=pool_name(report.backend, pool), code=code, text=text)
