# SPDX-License-Identifier: Apache-2.0
"""The record of the shadow, in the ledger's database: Cinder's decisions with the verdicts, and the findings."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.cinder.ledger import tables
from tonnage.extensions.cinder.watch.findings import Category, Finding, Key
from tonnage.extensions.cinder.watch.verdicts import Decided, Verdict
from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.ledger.models import utcnow

_DECISIONS = models.table(tables.CinderDecision)
_FINDINGS = models.table(tables.CinderFinding)

#: The category of the rows of periods in which a shadow ran: from ``found_at`` to ``seen_at``.
_PERIOD = "period"

#: Most ids of volumes that a finding keeps.
_MOST_VOLUMES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The number of decisions with a verdict, and their durations in seconds."""

    verdict: str
    decisions: int
    cinder_mean: float | None
    cinder_most: float | None
    tonnage_mean: float
    tonnage_most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """The number of requests with one verb that were not judged for one reason."""

    verb: str
    reason: str
    requests: int


class ShadowRecord:
    """Writes and reads the record. Raises :class:`~tonnage.capacity.errors.Unavailable` while the database is away."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[Key, int] = {}
        self._period: int | None = None

    def load_open(self) -> list[Finding]:
        """Load the open findings, and return them."""
        with self._database.reading() as session:
            columns = _FINDINGS.c
            query = sa.select(_FINDINGS).where(columns.ended_at.is_(None), columns.category != _PERIOD)
            rows = session.execute(query).all()
        self._open = {(row.category, row.subject, row.code): row.id for row in rows}
        return [
            Finding(
                category=Category(row.category),
                subject=row.subject,
                code=row.code,
                text=row.text,
                numbers=row.numbers,
                volumes=tuple(row.volumes),
            )
            for row in rows
        ]

    def write(self, decided: Sequence[Decided], findings: Sequence[Finding], ended: Collection[Key]) -> None:
        """Add decisions and findings, and then end findings, in one transaction."""
        finished = set(ended) & (self._open.keys() | {finding.key for finding in findings})
        if decided or findings or finished:
            self._open = self._database.run(self._write, decided, findings, finished)

    def extend_period(self) -> None:
        """Record that the shadow has watched until now. Its first period begins with the first call."""
        self._period = self._database.run(_extend_period, self._period)

    def periods(self, since: datetime.datetime | None = None) -> list[Mapping[str, Any]]:
        """Return the periods in which a shadow ran since a time in UTC, the newest first."""
        return self._rows(_PERIOD, since)

    def _write(
        self, session: orm.Session, decided: Sequence[Decided], findings: Sequence[Finding], finished: Collection[Key]
    ) -> dict[Key, int]:
        now = session.execute(sa.select(utcnow())).scalar_one()
        if decided:
            session.execute(sa.insert(_DECISIONS), [_decision(decision, now) for decision in decided])
        ids_by_key = dict(self._open)
        for finding in findings:
            values = {
                "text": finding.text,
                "numbers": dict(finding.numbers),
                "volumes": list(finding.volumes[:_MOST_VOLUMES]),
                "seen_at": now,
            }
            if finding.key in ids_by_key:
                session.execute(sa.update(_FINDINGS).where(_FINDINGS.c.id == ids_by_key[finding.key]).values(values))
                continue
            category, subject, code = finding.key
            done = session.execute(
                sa.insert(_FINDINGS).values(**values, category=category, subject=subject, code=code, found_at=now)
            )
            ids_by_key[finding.key] = done.inserted_primary_key[0]  # type: ignore[attr-defined]
        if finished:
            ids = [ids_by_key.pop(key) for key in finished]
            session.execute(sa.update(_FINDINGS).where(_FINDINGS.c.id.in_(ids)).values(ended_at=now))
        return ids_by_key

    def prune(self, days: int) -> None:
        """Remove decisions and ended findings that are older than so many days."""
        self._database.run(_prune, days)

    def is_empty(self) -> bool:
        """Return whether nothing was ever written. A shadow writes a finding when it begins."""
        with self._database.reading() as session:
            return not any(session.scalar(sa.select(sa.exists(table.c.id))) for table in (_DECISIONS, _FINDINGS))

    def totals(self, since: datetime.datetime | None = None) -> list[Total]:
        """Return the decisions by verdict, since a time in UTC."""
        columns = _DECISIONS.c
        query = (
            sa.select(
                columns.verdict,
                sa.func.count(),
                sa.func.avg(columns.cinder_seconds),
                sa.func.max(columns.cinder_seconds),
                sa.func.avg(columns.tonnage_seconds),
                sa.func.max(columns.tonnage_seconds),
            )
            .where(_since(columns.decided_at, since))
            .group_by(columns.verdict)
            .order_by(columns.verdict)
        )
        with self._database.reading() as session:
            return [
                Total(
                    verdict=row[0],
                    decisions=row[1],
                    cinder_mean=row[2],
                    cinder_most=row[3],
                    tonnage_mean=row[4],
                    tonnage_most=row[5],
                )
                for row in session.execute(query)
            ]

    def decisions(
        self, verdicts: Collection[str], since: datetime.datetime | None = None, most: int | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the decisions with these verdicts, the newest first."""
        query = (
            sa.select(_DECISIONS)
            .where(_DECISIONS.c.verdict.in_(verdicts), _since(_DECISIONS.c.decided_at, since))
            .order_by(_DECISIONS.c.id.desc())
            .limit(most)
        )
        with self._database.reading() as session:
            return [dict(row._mapping) for row in session.execute(query)]

    def unjudged(self, since: datetime.datetime | None = None) -> list[Unjudged]:
        """Return the requests that were not judged, by verb and reason, the most frequent first."""
        columns = _DECISIONS.c
        query = (
            sa.select(columns.verb, columns.reason, sa.func.count())
            .where(columns.verdict == Verdict.NOT_JUDGED.value, _since(columns.decided_at, since))
            .group_by(columns.verb, columns.reason)
            .order_by(sa.func.count().desc(), columns.verb)
        )
        with self._database.reading() as session:
            return [Unjudged(verb=row[0], reason=row[1], requests=row[2]) for row in session.execute(query)]

    def findings(self, category: Category, since: datetime.datetime | None = None) -> list[Mapping[str, Any]]:
        """Return the findings of a category that were seen since a time in UTC, the newest first."""
        return self._rows(category.value, since)

    def _rows(self, category: str, since: datetime.datetime | None) -> list[Mapping[str, Any]]:
        query = (
            sa.select(_FINDINGS)
            .where(_FINDINGS.c.category == category, _since(_FINDINGS.c.seen_at, since))
            .order_by(_FINDINGS.c.id.desc())
        )
        with self._database.reading() as session:
            return [dict(row._mapping) for row in session.execute(query)]


def _since(column: Any, since: datetime.datetime | None) -> sa.ColumnElement[bool]:
    return sa.true() if since is None else column >= since


def _decision(decided: Decided, now: datetime.datetime) -> dict[str, Any]:
    return {
        "decided_at": now,
        "verb": decided.verb,
        "request_id": decided.request_id[:64],
        "volume_id": decided.volume_id,
        "size_gb": decided.size_gb,
        "pool": decided.pool,
        "verdict": decided.verdict.value,
        "tonnage_pool": decided.tonnage_pool,
        "reason": decided.reason,
        "cinder_seconds": decided.cinder_seconds,
        "tonnage_seconds": decided.tonnage_seconds,
    }


def _extend_period(session: orm.Session, period: int | None) -> int:
    """Move the end of a period to now, and return its id. If it is None, begin one and end all earlier ones."""
    now = session.execute(sa.select(utcnow())).scalar_one()
    columns = _FINDINGS.c
    if period is not None:
        # The shadow may have been frozen while another one began its period.
        alive = sa.update(_FINDINGS).where(columns.id == period).values(seen_at=now, ended_at=None)
        if session.execute(alive).rowcount:  # type: ignore[attr-defined]
            return period
    earlier = sa.update(_FINDINGS).where(columns.category == _PERIOD, columns.ended_at.is_(None))
    session.execute(earlier.values(ended_at=columns.seen_at))
    values = {"category": _PERIOD, "subject": "watch", "code": "run", "text": "", "numbers": {}, "volumes": []}
    begun = session.execute(sa.insert(_FINDINGS).values(**values, found_at=now, seen_at=now))
    return int(begun.inserted_primary_key[0])  # type: ignore[attr-defined]


def _prune(session: orm.Session, days: int) -> None:
    now = session.execute(sa.select(utcnow())).scalar_one()
    oldest = now - datetime.timedelta(days=days)
    session.execute(sa.delete(_DECISIONS).where(_DECISIONS.c.decided_at < oldest))
    session.execute(sa.delete(_FINDINGS).where(_FINDINGS.c.ended_at < oldest))
