# SPDX-License-Identifier: Apache-2.0
"""The counters of usage: rows that a booking changes instead of counting all volumes of a project.

A counter is never less than the truth: all that is booked where there is a limit is added in the transaction that books
it, and what ends is not taken off. So what a counter lets through fits. What it does not is counted from the volumes
(:mod:`tonnage.ledger.catalog.volume_usage`) before anybody is turned away.

Rows are locked in the order of their keys, before anything else that a booking locks.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql, postgresql, sqlite

from tonnage.ledger import models
from tonnage.ledger.catalog import volume_usage
from tonnage.ledger.db import chunks
from tonnage.quotas.limits import Limits, Resource, Scope
from tonnage.quotas.quota_budget import QuotaTaken, Used

_TABLE = models.table(models.QuotaUsage)
_ROW = _TABLE.c
_KEY = (_ROW.project_id, _ROW.user_id, _ROW.volume_type_id)


def read(session: orm.Session, scopes: Collection[Scope], seconds: float) -> dict[Scope, Used]:
    """Return the counters that can be believed: of those that are there, what was counted not longer ago than that."""
    found: dict[Scope, Used] = {}
    statement = sa.select(*_KEY, _ROW.volumes, _ROW.gigabytes, _ROW.counted_at, models.utcnow())
    for some in chunks.cut(_projects(scopes)):
        for row in session.execute(statement.where(_ROW.project_id.in_(some))):
            age = models.age(row[6], row[5])
            if age is not None and age < seconds:
                found[Scope(row[0], row[1], row[2])] = Used(int(row[3]), int(row[4]))
    return {scope: used for scope, used in found.items() if scope in scopes}


def make(session: orm.Session, scopes: Iterable[Scope]) -> None:
    """Make counters that are not there, in a transaction of their own; they have to be counted."""
    rows = [{**_named(scope), "volumes": 0, "gigabytes": 0} for scope in sorted(scopes)]
    session.connection().execute(_make(session), rows)


def lock(session: orm.Session, scopes: Collection[Scope]) -> None:
    """Lock counters, with the others of their projects.

    Raises :class:`~tonnage.quotas.quota_budget.QuotaTaken` if some are not there.
    """
    statement = sa.select(*_KEY).order_by(*volume_usage.in_order(session)).with_for_update()
    there = {
        Scope(row[0], row[1], row[2])
        for some in chunks.cut(_projects(scopes))
        for row in session.execute(statement.where(_ROW.project_id.in_(some)))
    }
    if missing := set(scopes) - there:
        raise QuotaTaken(f"there are no counters of {sorted(missing)} yet", missing)


def recount(session: orm.Session, scopes: Collection[Scope], placed_only: bool) -> dict[Scope, Used]:
    """Set locked counters to what the volumes say, and return them."""
    found = count(session, scopes, placed_only)
    rows = [
        {**_key(scope), "of_volumes": used.volumes, "of_gigabytes": used.gigabytes}
        for scope, used in sorted(found.items())
    ]
    session.connection().execute(_SET, rows)
    return found


def add(session: orm.Session, taken: Mapping[Scope, Used], limits: Limits, beyond: Mapping[Scope, int]) -> bool:
    """Add what is booked to counters that can be believed and have room for it; tell whether all of them have.

    ``beyond`` are GiB that are used beside what counters count.
    """
    rows = [
        {
            **_key(scope),
            "of_volumes": used.volumes,
            "of_gigabytes": used.gigabytes,
            "most_volumes": limits.at(scope, Resource.VOLUMES),
            "most_gigabytes": _left(limits.at(scope, Resource.GIGABYTES), beyond.get(scope, 0)),
        }
        for scope, used in sorted(taken.items())
    ]
    return not rows or session.connection().execute(_ADD, rows).rowcount == len(rows)


def count(session: orm.Session, scopes: Collection[Scope], placed_only: bool) -> dict[Scope, Used]:
    """Return what the volumes say of each of these."""
    found = dict.fromkeys(scopes, Used())
    for project_id in _projects(scopes):
        counted = sums(project_id, volume_usage.count(session, project_id, placed_only=placed_only))
        found.update((scope, used) for scope, used in counted.items() if scope in found)
    return found


def sums(project_id: str, shares: Iterable[volume_usage.Share]) -> dict[Scope, Used]:
    """Return a project's usage for everything in which there is any."""
    found: dict[Scope, Used] = {}
    for share in shares:
        kinds = {share.volume_type_id, ""} if share.new else {share.volume_type_id}
        for scope in (Scope(project_id, user, kind) for user in {share.user_id, ""} for kind in kinds):
            found[scope] = found.get(scope, Used()).plus(Used(share.volumes, share.gigabytes))
    return found


def _left(limit: int, beyond: int) -> int:
    """Return what of a limit is left for what counters count; no limit stays none."""
    return limit if limit < 0 else max(0, limit - beyond)


def _projects(scopes: Iterable[Scope]) -> list[str]:
    return sorted({scope.project_id for scope in scopes})


def _make(session: orm.Session) -> Any:
    """Return the statement that inserts rows which nobody else has inserted meanwhile."""
    dialect = session.get_bind().dialect.name
    if dialect == "sqlite":
        return sqlite.insert(_TABLE).on_conflict_do_nothing()
    if dialect == "postgresql":
        return postgresql.insert(_TABLE).on_conflict_do_nothing()
    # INSERT IGNORE would only share the lock on a row that is there, and two who share one wait for each other next.
    return mysql.insert(_TABLE).on_duplicate_key_update(counted_at=_ROW.counted_at)


def _named(scope: Scope) -> dict[str, str]:
    return {column.name: value for column, value in zip(_KEY, scope, strict=True)}


def _key(scope: Scope) -> dict[str, Any]:
    return {f"of_{name}": value for name, value in _named(scope).items()}


def _given(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.BigInteger())


def _room(column: sa.ColumnElement[int], more: str, most: str) -> sa.ColumnElement[bool]:
    return sa.or_(_given(more) == 0, _given(most) < 0, column + _given(more) <= _given(most))


_IS = tuple(column == sa.bindparam(f"of_{column.name}") for column in _KEY)
_SET = (
    sa.update(_TABLE)
    .where(*_IS)
    .values(volumes=_given("of_volumes"), gigabytes=_given("of_gigabytes"), counted_at=models.utcnow())
)
_ADD = (
    sa.update(_TABLE)
    .where(
        *_IS,
        _ROW.counted_at.is_not(None),
        _room(_ROW.volumes, "of_volumes", "most_volumes"),
        _room(_ROW.gigabytes, "of_gigabytes", "most_gigabytes"),
    )
    .values(volumes=_ROW.volumes + _given("of_volumes"), gigabytes=_ROW.gigabytes + _given("of_gigabytes"))
)
