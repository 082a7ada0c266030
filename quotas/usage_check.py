# SPDX-License-Identifier: Apache-2.0
"""The counters of usage held against the volumes, and setting them right.

A counter may be ahead of the volumes, as nothing is taken off when something ends: it is counted anew before it turns
anybody away. One that is behind lets through what it should not.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.quotas import options, usage_counters
from tonnage.quotas.limits import COUNTED, Scope
from tonnage.quotas.quota_budget import Used

#: By how many projects at a time counters are set right.
_AT_A_TIME = 100


class Cause(enum.StrEnum):
    """Why figures differ, or what is odd."""

    #: A counter that is believed is below what the volumes say.
    BEHIND = "behind"
    #: One is above that: something has ended since.
    AHEAD = "ahead"
    #: A limit or a counter is of a volume type that is no more.
    TYPE_GONE = "type_gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that differs. ``counter`` is what is kept, ``found`` what the volumes say."""

    cause: Cause
    scope: Scope
    resource: str
    counter: int
    found: int

    @property
    def drift(self) -> bool:
        """Tell whether this is something wrong."""
        return self.cause is Cause.BEHIND


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found, and how many projects have counters."""

    projects: int
    findings: Sequence[Finding]

    @property
    def drift(self) -> list[Finding]:
        """What is wrong."""
        return [finding for finding in self.findings if finding.drift]


def check(database: Database, project_id: str | None = None, *, placed_only: bool = False) -> Checked:
    """Check the counters of all projects, or of one. All is of one moment, so schedulers may go on.

    ``placed_only`` is what schedulers count by, see :class:`~tonnage.quotas.options.Settings`.
    """
    with database.reading(snapshot=True) as session:
        kept = _kept(session, project_id)
        found = usage_counters.count(session, kept, placed_only)
        findings = [
            Finding(
                cause=Cause.BEHIND if used.of(resource) < found[scope].of(resource) else Cause.AHEAD,
                scope=scope,
                resource=resource.value,
                counter=used.of(resource),
                found=found[scope].of(resource),
            )
            for scope, used in kept.items()
            for resource in COUNTED
            if used.of(resource) != found[scope].of(resource)
        ]
        findings += _of_types_that_are_gone(session, project_id)
    order = list(Cause)
    findings.sort(key=lambda one: (order.index(one.cause), one.scope, one.resource))
    return Checked(projects=len({scope.project_id for scope in kept}), findings=findings)


def sync(database: Database, project_id: str | None = None, *, placed_only: bool = False) -> Checked:
    """Set the counters to what the volumes say, and forget what is of volume types that are gone.

    Returns what was found before; nothing of it is left.
    """
    found = check(database, project_id, placed_only=placed_only)
    projects = sorted({finding.scope.project_id for finding in found.findings if finding.cause is not Cause.TYPE_GONE})
    for start in range(0, len(projects), _AT_A_TIME):
        database.run(_recount, projects[start : start + _AT_A_TIME], placed_only)
    if any(finding.cause is Cause.TYPE_GONE for finding in found.findings):
        database.run(_forget, project_id)
    return found


def _kept(session: orm.Session, project_id: str | None) -> dict[Scope, Used]:
    """Return the counters that might be believed, by schedulers that believe any."""
    usage = models.QuotaUsage
    statement = sa.select(usage, models.utcnow()).where(usage.counted_at.is_not(None))
    if project_id is not None:
        statement = statement.where(usage.project_id == project_id)
    return {
        Scope(row.project_id, row.user_id, row.volume_type_id): Used(int(row.volumes), int(row.gigabytes))
        for row, now in session.execute(statement)
        if (models.age(now, row.counted_at) or 0.0) < options.COUNTERS_LAST
    }


def _recount(session: orm.Session, project_ids: Sequence[str], placed_only: bool) -> None:
    usage = models.QuotaUsage
    keys = sa.select(usage.project_id, usage.user_id, usage.volume_type_id).where(usage.project_id.in_(project_ids))
    scopes = {Scope(row[0], row[1], row[2]) for row in session.execute(keys)}
    if scopes:
        usage_counters.lock(session, scopes)
        usage_counters.recount(session, scopes, placed_only)


def _of_types_that_are_gone(session: orm.Session, project_id: str | None) -> list[Finding]:
    limit = models.QuotaLimit
    statement = sa.select(limit).where(_gone(limit.volume_type_id))
    if project_id is not None:
        statement = statement.where(limit.holder == "project", limit.name == project_id)
    return [
        Finding(
            cause=Cause.TYPE_GONE,
            scope=Scope(row.name, row.user_id, row.volume_type_id),
            resource=row.resource,
            counter=row.hard_limit,
            found=0,
        )
        for row in session.scalars(statement)
    ]


def _forget(session: orm.Session, project_id: str | None) -> None:
    limit = models.QuotaLimit
    statement = sa.delete(limit).where(_gone(limit.volume_type_id))
    if project_id is not None:
        statement = statement.where(limit.holder == "project", limit.name == project_id)
    session.execute(statement.execution_options(synchronize_session=False))


def _gone(type_id: orm.InstrumentedAttribute[str]) -> sa.ColumnElement[bool]:
    kind = models.VolumeType
    return sa.and_(type_id != "", ~sa.exists().where(kind.id == type_id))
