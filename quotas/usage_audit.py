# SPDX-License-Identifier: Apache-2.0
"""A check of the usage counters against the volumes, and their correction.

A counter may be ahead of the volumes, as nothing is subtracted when a volume ends: it is recounted before it causes a
refusal. A counter that is behind permits usage over the limit.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.quotas import options, reservations
from tonnage.quotas.limits import COUNTED, Scope
from tonnage.quotas.quota_check import Usage

#: Number of projects whose counters one transaction corrects.
_PROJECTS_PER_TRANSACTION = 100


class Cause(enum.StrEnum):
    """The cause of a finding."""

    #: A trusted counter is below the usage by the volumes.
    BEHIND = "behind"
    #: A trusted counter is above that usage: a volume or an operation has ended since.
    AHEAD = "ahead"
    #: A limit or a counter belongs to a deleted volume type.
    TYPE_GONE = "type_gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference. ``counter`` is the stored value, ``usage`` the usage by the volumes."""

    cause: Cause
    scope: Scope
    resource: str
    counter: int
    usage: int

    @property
    def drift(self) -> bool:
        """Whether the finding is an error."""
        return self.cause is Cause.BEHIND


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The findings of a check, and the number of projects with counters."""

    projects: int
    findings: Sequence[Finding]

    @property
    def drift(self) -> list[Finding]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding.drift]


def check(database: Database, project_id: str | None = None, *, placed_only: bool = False) -> Checked:
    """Check the counters of all projects, or of one. The check reads one snapshot, so schedulers may go on.

    ``placed_only`` is the schedulers' setting, see :class:`~tonnage.quotas.options.Settings`.
    """
    with database.reading(snapshot=True) as session:
        counters = _trusted_counters(session, project_id)
        usage = reservations.count(session, counters, placed_only)
        findings = [
            Finding(
                cause=Cause.BEHIND if counter.of(resource) < usage[scope].of(resource) else Cause.AHEAD,
                scope=scope,
                resource=resource.value,
                counter=counter.of(resource),
                usage=usage[scope].of(resource),
            )
            for scope, counter in counters.items()
            for resource in COUNTED
            if counter.of(resource) != usage[scope].of(resource)
        ]
        findings += _orphaned_limits(session, project_id)
    order = list(Cause)
    findings.sort(key=lambda finding: (order.index(finding.cause), finding.scope, finding.resource))
    return Checked(projects=len({scope.project_id for scope in counters}), findings=findings)


def sync(database: Database, project_id: str | None = None, *, placed_only: bool = False) -> Checked:
    """Set the counters to the usage by the volumes, and delete limits of deleted volume types.

    Return the findings from before the correction; all of them are corrected.
    """
    checked = check(database, project_id, placed_only=placed_only)
    projects = sorted(
        {finding.scope.project_id for finding in checked.findings if finding.cause is not Cause.TYPE_GONE}
    )
    for start in range(0, len(projects), _PROJECTS_PER_TRANSACTION):
        database.run(_recount, projects[start : start + _PROJECTS_PER_TRANSACTION], placed_only)
    if any(finding.cause is Cause.TYPE_GONE for finding in checked.findings):
        database.run(_delete_orphaned_limits, project_id)
    return checked


def _trusted_counters(session: orm.Session, project_id: str | None) -> dict[Scope, Usage]:
    """Return the counters that schedulers may still trust."""
    usage = models.QuotaUsage
    statement = sa.select(usage, models.utcnow()).where(usage.counted_at.is_not(None))
    if project_id is not None:
        statement = statement.where(usage.project_id == project_id)
    return {
        Scope(row.project_id, row.user_id, row.volume_type_id): Usage(int(row.volumes), int(row.gigabytes))
        for row, now in session.execute(statement)
        if (models.age(now, row.counted_at) or 0.0) < options.COUNTERS_LAST
    }


def _recount(session: orm.Session, project_ids: Sequence[str], placed_only: bool) -> None:
    usage = models.QuotaUsage
    keys = sa.select(usage.project_id, usage.user_id, usage.volume_type_id).where(usage.project_id.in_(project_ids))
    scopes = {Scope(row[0], row[1], row[2]) for row in session.execute(keys)}
    if scopes:
        reservations.lock(session, scopes)
        reservations.recount(session, scopes, placed_only)


def _orphaned_limits(session: orm.Session, project_id: str | None) -> list[Finding]:
    limit = models.QuotaLimit
    statement = sa.select(limit).where(_is_deleted_type(limit.volume_type_id))
    if project_id is not None:
        statement = statement.where(limit.holder == "project", limit.name == project_id)
    return [
        Finding(
            cause=Cause.TYPE_GONE,
            scope=Scope(row.name, row.user_id, row.volume_type_id),
            resource=row.resource,
            counter=row.hard_limit,
            usage=0,
        )
        for row in session.scalars(statement)
    ]


def _delete_orphaned_limits(session: orm.Session, project_id: str | None) -> None:
    limit = models.QuotaLimit
    statement = sa.delete(limit).where(_is_deleted_type(limit.volume_type_id))
    if project_id is not None:
        statement = statement.where(limit.holder == "project", limit.name == project_id)
    session.execute(statement.execution_options(synchronize_session=False))


def _is_deleted_type(type_id: orm.InstrumentedAttribute[str]) -> sa.ColumnElement[bool]:
    volume_type = models.VolumeType
    return sa.and_(type_id != "", ~sa.exists().where(volume_type.id == type_id))
