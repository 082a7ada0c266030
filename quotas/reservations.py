# SPDX-License-Identifier: Apache-2.0
"""Reservations of quota for a batch of requests, made and used in the transaction that books the batch.

A reservation has no row of its own. It exists as the booked volume or the pending claim, so it is used with the claim
or not at all, and ends with it.

Usage counters are rows that a booking updates, so that it need not count all volumes of a project. A counter is never
below the real usage: each booking in a limited scope is added in the transaction that books it, and nothing is
subtracted when a volume ends. So a demand that fits by the counter really fits. A demand that does not fit is checked
against the volumes (:mod:`tonnage.ledger.locks.volume_usage`) before it is refused.

Counters are locked in the order of their keys, before all other rows that a booking locks.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql, postgresql, sqlite

from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.locks import volume_usage
from tonnage.quotas import limits, quota_check
from tonnage.quotas.external_usage import NO_EXTERNAL_USAGE
from tonnage.quotas.limits import Limits, Resource, Scope
from tonnage.quotas.options import Settings
from tonnage.quotas.quota_check import Demand, QuotaBudget, QuotaChanged, ReservedQuota, Usage

_TABLE = models.table(models.QuotaUsage)
_ROW = _TABLE.c
_KEY = (_ROW.project_id, _ROW.user_id, _ROW.volume_type_id)
_KEY_NAMES = tuple(column.name for column in _KEY)
_NONE: Mapping[Scope, int] = MappingProxyType({})


def read(
    session: orm.Session, scopes: Collection[Scope], seconds: float, external: Mapping[Scope, int] = _NONE
) -> dict[Scope, Usage]:
    """Return the usage by trusted counters: rows of these scopes that were recounted less than ``seconds`` ago.

    ``external`` maps scopes to the GiB of external usage, which is added.
    """
    usage: dict[Scope, Usage] = {}
    statement = sa.select(*_KEY, _ROW.volumes, _ROW.gigabytes, _ROW.counted_at, models.utcnow())
    for chunk in dialects.in_chunks({scope.project_id for scope in scopes}):
        for row in session.execute(statement.where(_ROW.project_id.in_(chunk))):
            scope = Scope(row[0], row[1], row[2])
            if scope in scopes and row[5] is not None and max(0.0, (row[6] - row[5]).total_seconds()) < seconds:
                usage[scope] = Usage(int(row[3]), int(row[4]) + external.get(scope, 0))
    return usage


def insert_missing(session: orm.Session, scopes: Iterable[Scope]) -> None:
    """Insert missing counter rows, in a transaction of their own; they are untrusted until they are recounted."""
    rows = [{**dict(zip(_KEY_NAMES, scope, strict=True)), "volumes": 0, "gigabytes": 0} for scope in sorted(scopes)]
    session.connection().execute(_make(session), rows)


def lock(session: orm.Session, scopes: Collection[Scope]) -> None:
    """Lock the counters of these scopes, with all other counters of their projects.

    Raises :class:`~tonnage.quotas.quota_check.QuotaChanged` if some rows are missing.
    """
    statement = sa.select(*_KEY).order_by(*volume_usage.counter_order(session)).with_for_update()
    existing = {
        Scope(row[0], row[1], row[2])
        for chunk in dialects.in_chunks(_projects(scopes))
        for row in session.execute(statement.where(_ROW.project_id.in_(chunk)))
    }
    if missing := set(scopes) - existing:
        raise QuotaChanged(f"there are no counters of {sorted(missing)} yet", missing)


def recount(session: orm.Session, scopes: Collection[Scope], placed_only: bool) -> dict[Scope, Usage]:
    """Set locked counters to the usage by the volumes, and return it."""
    usage = count(session, scopes, placed_only)
    rows = [
        {**_key(scope), "of_volumes": used.volumes, "of_gigabytes": used.gigabytes}
        for scope, used in sorted(usage.items())
    ]
    session.connection().execute(_SET, rows)
    return usage


def count(session: orm.Session, scopes: Collection[Scope], placed_only: bool) -> dict[Scope, Usage]:
    """Return the usage of each scope by the volumes."""
    usage = dict.fromkeys(scopes, Usage())
    for project_id in _projects(scopes):
        counted = sums(project_id, volume_usage.count(session, project_id, placed_only=placed_only))
        usage.update((scope, used) for scope, used in counted.items() if scope in usage)
    return usage


def sums(project_id: str, shares: Iterable[volume_usage.Share]) -> dict[Scope, Usage]:
    """Return the usage of a project by scope, from its shares."""
    usage: dict[Scope, Usage] = {}
    for share in shares:
        type_ids = {share.volume_type_id, ""} if share.new else {share.volume_type_id}
        for scope in (Scope(project_id, user, type_id) for user in {share.user_id, ""} for type_id in type_ids):
            usage[scope] = usage.get(scope, Usage()).plus(Usage(share.volumes, share.gigabytes))
    return usage


def _projects(scopes: Iterable[Scope]) -> list[str]:
    return sorted({scope.project_id for scope in scopes})


def _make(session: orm.Session) -> Any:
    """Return the statement that inserts rows unless they exist."""
    dialect = session.get_bind().dialect.name
    if dialect == "sqlite":
        return sqlite.insert(_TABLE).on_conflict_do_nothing()
    if dialect == "postgresql":
        return postgresql.insert(_TABLE).on_conflict_do_nothing()
    # INSERT IGNORE would take only a shared lock on an existing row, and two transactions that share a lock deadlock
    # when both update the row.
    return mysql.insert(_TABLE).on_duplicate_key_update(counted_at=_ROW.counted_at)


def _key(scope: Scope) -> dict[str, Any]:
    return {f"of_{name}": value for name, value in zip(_KEY_NAMES, scope, strict=True)}


def _parameter(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.BigInteger())


def _room(used: sa.ColumnElement[int], increase: str, limit: str) -> sa.ColumnElement[bool]:
    return sa.or_(_parameter(increase) == 0, _parameter(limit) < 0, used + _parameter(increase) <= _parameter(limit))


_IS = tuple(column == sa.bindparam(f"of_{column.name}") for column in _KEY)
_SET = (
    sa.update(_TABLE)
    .where(*_IS)
    .values(volumes=_parameter("of_volumes"), gigabytes=_parameter("of_gigabytes"), counted_at=models.utcnow())
)
_ADD = (
    sa.update(_TABLE)
    .where(
        *_IS,
        _ROW.counted_at.is_not(None),
        _room(_ROW.volumes, "of_volumes", "most_volumes"),
        _room(_ROW.gigabytes + _parameter("external"), "of_gigabytes", "most_gigabytes"),
    )
    .values(volumes=_ROW.volumes + _parameter("of_volumes"), gigabytes=_ROW.gigabytes + _parameter("of_gigabytes"))
)


def reserve(
    session: orm.Session, settings: Settings, demands: Sequence[Demand], *, lock_counters: bool = False
) -> ReservedQuota:
    """Read the limits for the requests' demands, and the usage that counts against them.

    Nothing is locked if there are no limits, or if all demands fit by the counters and ``lock_counters`` is False.
    Otherwise the counters are locked, and exceeded counters are recounted: a refusal must rest on the volumes
    themselves. A caller that locks other rows before :func:`consume` must set ``lock_counters``.

    Raises :class:`~tonnage.quotas.quota_check.QuotaChanged` for a scope without a counter row.
    """
    if not demands:
        return ReservedQuota(Limits(settings.defaults))
    quota_limits = limits.read(session, settings.defaults, {demand.project_id for demand in demands})
    demanded = quota_check.limited_demands(quota_limits, demands)
    if not demanded:
        return ReservedQuota(quota_limits)
    external = _external_usage(settings, demanded) if settings.external_usage is not NO_EXTERNAL_USAGE else {}
    if not lock_counters:
        used = read(session, demanded, settings.counter_lifetime, external)
        if quota_check.scopes_with_room(quota_limits, used, demanded) == demanded.keys():
            return ReservedQuota(quota_limits, used, external)
    lock(session, demanded)
    used = read(session, demanded, settings.counter_lifetime, external)
    stale = demanded.keys() - quota_check.scopes_with_room(quota_limits, used, demanded)
    if stale:
        used.update(_with_external(recount(session, stale, settings.placed_only), external))
    return ReservedQuota(quota_limits, used, external)


def preview(session: orm.Session, settings: Settings, demands: Sequence[Demand]) -> ReservedQuota:
    """Return the result of :func:`reserve`, counted from the volumes and without locks, to answer a query."""
    quota_limits = limits.read(session, settings.defaults, {demand.project_id for demand in demands})
    demanded = quota_check.limited_demands(quota_limits, demands)
    external = _external_usage(settings, demanded) if settings.external_usage is not NO_EXTERNAL_USAGE else {}
    return ReservedQuota(
        quota_limits, _with_external(count(session, demanded, settings.placed_only), external), external
    )


def consume(session: orm.Session, budget: QuotaBudget) -> None:
    """Add the reserved quota to the counters. Call it before all other locks, except those of :func:`reserve`.

    Raises :class:`~tonnage.quotas.quota_check.QuotaChanged` if the quota has been used by other transactions.
    """
    quota_limits, external = budget.reserved.limits, budget.reserved.external
    rows = [
        {
            **_key(scope),
            "of_volumes": used.volumes,
            "of_gigabytes": used.gigabytes,
            "external": external.get(scope, 0),
            "most_volumes": quota_limits.at(scope, Resource.VOLUMES),
            "most_gigabytes": quota_limits.at(scope, Resource.GIGABYTES),
        }
        for scope, used in sorted(budget.taken.items())
    ]
    if rows and session.connection().execute(_ADD, rows).rowcount != len(rows):
        # One of the counters is untrusted, or has no room.
        raise QuotaChanged("others were faster")


def require_same_limits(
    session: orm.Session, settings: Settings, reserved: ReservedQuota | None, demands: Sequence[Demand]
) -> None:
    """Check that the limits have not changed since a decision read them. ``reserved`` is None if nothing was limited.

    Call it after the bookings, if there are any, have locked their backends: :func:`tonnage.quotas.limits.put` waits
    for these locks, so a limit that is set later counts the bookings.

    Raises :class:`~tonnage.quotas.quota_check.QuotaChanged`.
    """
    if reserved is None:
        changed = limits.has_volume_limits(session, settings.defaults)
    else:
        projects = {demand.project_id for demand in demands}
        changed = bool(projects) and limits.read(session, settings.defaults, projects) != reserved.limits
    if changed:
        raise QuotaChanged("limits were set meanwhile")


def _external_usage(settings: Settings, scopes: Iterable[Scope]) -> dict[Scope, int]:
    """Return the external usage by scope, read once for a transaction: it may change at any moment."""
    return {scope: settings.external_usage.used_gb(scope) for scope in scopes}


def _with_external(counted: Mapping[Scope, Usage], external: Mapping[Scope, int]) -> dict[Scope, Usage]:
    return {scope: used.plus(Usage(0, external.get(scope, 0))) for scope, used in counted.items()}
