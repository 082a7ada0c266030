# SPDX-License-Identifier: Apache-2.0
"""Drift of Cinder's counters of quotas, found in two reads of its database that agree."""

import logging
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exc

from tonnage.capacity import errors
from tonnage.extensions.cinder.quota import quota_drift
from tonnage.extensions.cinder.quota.quota_drift import ResourceUse
from tonnage.extensions.cinder.quota.quota_usage import Rules
from tonnage.extensions.cinder.watch.findings import Category, Finding, Key
from tonnage.ledger.db import database, db_errors

LOG = logging.getLogger(__name__)

#: The most characters of the name of a resource that identify a finding.
_CODE = 64


class QuotaCounters:
    """Reads the use of quotas at most every ``interval`` seconds; with 0 never."""

    def __init__(self, cinder: database.Database, rules: Rules, interval: float) -> None:
        self._cinder, self._rules, self._interval = cinder, rules, interval
        self._read_at = float("-inf")
        self._problem = ""

    def read(self, now: float) -> Sequence[ResourceUse] | None:
        """Return the use of quotas, or None if it is not yet time, a monotonic one, or if it cannot be read."""
        if not self._interval or now - self._read_at < self._interval:
            return None
        self._read_at = now
        try:
            with self._cinder.reading(snapshot=True) as session:
                uses = quota_drift.read(session.connection(), self._rules)
        except (db_exc.DBError, sa.exc.SQLAlchemyError, errors.Unavailable) as error:
            problem = db_errors.first_line(error)
            if problem != self._problem:
                LOG.warning("The use of quotas in Cinder's database cannot be read, so their drift is not: %s", problem)
            self._problem = problem
            return None
        self._problem = ""
        return uses


class CounterDrift:
    """Compares counters with rows. What two reads show is drift, and no operation under way."""

    def __init__(self) -> None:
        self._suspects: dict[Key, int] = {}

    def compare(self, uses: Sequence[ResourceUse], open_keys: Iterable[Key]) -> tuple[list[Finding], list[Key]]:
        """Return the findings, and those of the keys of open findings that have ended."""
        suspects: dict[Key, int] = {}
        findings: list[Finding] = []
        for use in uses:
            is_quiet = not use.use.reserved and not use.open_reservations
            for kind, drift, numbers, is_certain in (
                ("in use", use.drift, (use.counter_in_use, use.use.in_use), is_quiet),
                ("reserved", use.reserved_drift, (use.counter_reserved, use.open_reservations), True),
            ):
                finding = _finding(use, kind, drift, numbers)
                if drift:
                    suspects[finding.key] = drift
                    if is_certain and self._suspects.get(finding.key) == drift:
                        findings.append(finding)
        self._suspects = suspects
        return findings, [key for key in open_keys if key[0] == Category.QUOTA_DRIFT and key not in suspects]


def _finding(use: ResourceUse, kind: str, drift: int, numbers: tuple[int | None, int]) -> Finding:
    counter, actual = numbers[0] or 0, numbers[1]
    source = "the rows have" if kind == "in use" else "its reservations are"
    way = "too high" if drift > 0 else "too low"
    return Finding(
        category=Category.QUOTA_DRIFT,
        subject=use.project_id,
        code=f"{kind} {use.resource}"[:_CODE],
        text=f"Cinder's counter of {use.resource} {kind} is {counter} and {source} {actual}: it is {abs(drift)} {way}",
        numbers={"counter": float(counter), "actual": float(actual), "drift": float(drift)},
    )
