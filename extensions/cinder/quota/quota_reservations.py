# SPDX-License-Identifier: Apache-2.0
"""Reservations: they are admitted under a lock of their resources, and end with the rows that they are for."""

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exc

from tonnage.capacity import errors
from tonnage.extensions.cinder.quota import quota_operations, quota_usage, reservation_ends, volume_amounts
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import Booking
from tonnage.extensions.cinder.quota.quota_usage import Resource, Rules, Use

#: Begins a transaction, which commits at the end of the context and is rolled back after an error.
Begin = Callable[[], AbstractContextManager[sa.Connection]]

#: Most reservations that one statement removes.
_CHUNK = 500

#: Most turns of making the rows to lock, should others remove them meanwhile.
_TURNS = 10

#: The least value that ``until_refresh`` is counted down to.
_LEAST_UNTIL_REFRESH = -1_000_000_000

_R, _U = tables.RESERVATIONS.c, tables.USAGES.c

_retried = oslo_db_api.wrap_db_retry(
    max_retries=30,
    retry_interval=0.05,
    inc_retry_interval=True,
    max_retry_interval=1,
    retry_on_deadlock=True,
    jitter=True,
)


class LimitExceeded(Exception):
    """A reservation would exceed limits: ``names`` are those of the resources, ``use`` has all of the reservation."""

    def __init__(self, names: Sequence[str], use: Mapping[str, Use]) -> None:
        super().__init__(f"the limit of {', '.join(names)} would be exceeded")
        self.names, self.use = names, use


class Amount(NamedTuple):
    """An amount of a resource to reserve; ``limit`` is -1 for none."""

    resource: Resource
    delta: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A reservation. ``age`` is in seconds; ``booking`` is None for one of Cinder's own driver."""

    project_id: str
    resource: str
    delta: int
    age: float
    booking: Booking | None
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The reservation under an identifier, to be renewed. ``expire`` is a time in UTC."""

    identifier: str
    project_id: str
    amounts: Sequence[Amount]
    booking: Booking
    expire: datetime.datetime


class ReservationBook:
    """The reservations of one Cinder. ``rules`` returns how Cinder counts at that moment."""

    def __init__(self, rules: Callable[[], Rules]) -> None:
        self._rules = rules

    @_retried  # type: ignore[untyped-decorator]
    def reserve(
        self,
        begin: Begin,
        project_id: str,
        amounts: Sequence[Amount],
        booking: Booking,
        expire: datetime.datetime,
        renewed: str | None = None,
    ) -> str | None:
        """Reserve the amounts above zero, and return the identifier of the reservation, None if there are none.

        Amounts below zero need no reservation: the rows tell when they are free. As with Cinder's own driver an amount
        of zero is refused too while the use is above the limit. ``expire`` is a time in UTC at which a reservation
        without a row ends at the latest. ``renewed`` is the identifier of an earlier reservation for the same, which
        this one replaces under the same identifier. Raises :class:`LimitExceeded`, and
        :class:`~tonnage.extensions.cinder.quota.volume_amounts.VolumeChanged` if the amounts are those of a volume as
        it was before.
        """
        raising = [amount for amount in amounts if amount.delta > 0 or (amount.delta == 0 and amount.limit >= 0)]
        if not raising:
            return None
        names = sorted(amount.resource.name for amount in raising)
        is_limited = any(amount.limit >= 0 for amount in raising)
        for _ in range(_TURNS):
            with begin() as connection:
                usages = _usages(connection, project_id, names, is_limited)
                missing = [name for name in names if name.casefold() not in usages]
                if not missing:
                    if renewed is not None:
                        _remove(connection, _R.uuid == renewed)
                    ended = self._admit(connection, project_id, amounts, raising, booking)
                    _mark(connection, usages, is_limited)
                    identifier = renewed or booking.identifier()
                    is_reserved = _insert(connection, project_id, raising, usages, identifier, expire)
                    if ended:
                        _remove(connection, self._has_ended(connection), _R.project_id == project_id)
                    return identifier if is_reserved else None
            _make_usages(begin, project_id, missing)
        raise errors.Unavailable(
            f"rows of the table quota_usages of project {project_id} vanish again and again; end the program "
            "that deletes them"
        )

    def renew(self, begin: Begin, reservation: Reservation) -> None:
        """Admit a reservation anew that is older than half of the lifetime, or has ended, as its row changes now.

        Half of the lifetime is left for the change. Raises the errors of :meth:`reserve`.
        """
        identifier, amounts, booking = reservation.identifier, reservation.amounts, reservation.booking
        if not self._is_young(begin, identifier):
            self.reserve(begin, reservation.project_id, amounts, booking, reservation.expire, identifier)

    @_retried  # type: ignore[untyped-decorator]
    def _is_young(self, begin: Begin, identifier: str) -> bool:
        with begin() as connection:
            young = tables.clock(connection.dialect.name, self._rules().lifetime / 2)
            conditions = (_R.uuid == identifier, _R.deleted == sa.false(), _R.created_at > young)
            return connection.scalar(sa.select(sa.func.count(_R.id)).where(*conditions)) != 0

    def _admit(
        self,
        connection: sa.Connection,
        project_id: str,
        amounts: Sequence[Amount],
        raising: Sequence[Amount],
        booking: Booking,
    ) -> int:
        """Raise the error of a refusal, or return the number of reservations of the project that have ended."""
        rules = self._rules()
        deltas = {amount.resource: amount.delta for amount in raising}
        volume_amounts.check(connection, booking, deltas, rules.snapshots_use_gigabytes)
        limited = [amount for amount in raising if amount.limit >= 0]
        if not limited:
            return 0
        use, ended = quota_usage.exact(connection, project_id, [amount.resource for amount in limited], rules)
        over = [
            amount.resource.name for amount in limited if use[amount.resource.name].total + amount.delta > amount.limit
        ]
        if over:
            unread = [amount.resource for amount in amounts if amount.resource.name not in use]
            further_use = quota_usage.exact(connection, project_id, unread, rules)[0] if unread else {}
            raise LimitExceeded(sorted(over), {**use, **further_use})
        return ended

    @_retried  # type: ignore[untyped-decorator]
    def commit(self, begin: Begin, identifiers: Collection[str]) -> list[str]:
        """End reservations whose rows have changed. Return those that count on, as their rows are still to change."""
        with begin() as connection:
            return self.end_changed(connection, identifiers)

    def end_changed(self, connection: sa.Connection, identifiers: Collection[str]) -> list[str]:
        """Do the same in a transaction of Cinder, which may have changed a row."""
        outlasting: dict[quota_operations.Operation, list[str]] = {}
        for identifier in identifiers:
            booking = quota_operations.of_identifier(identifier)
            if booking is not None and booking.operation in reservation_ends.OUTLASTING:
                outlasting.setdefault(booking.operation, []).append(identifier)
        for operation, bound in outlasting.items():
            _remove(connection, _R.uuid.in_(bound), ~reservation_ends.outlasts(operation))
        bound_ones = [identifier for bound in outlasting.values() for identifier in bound]
        if unbound := [identifier for identifier in identifiers if identifier not in bound_ones]:
            _remove(connection, _R.uuid.in_(unbound))
        if not bound_ones:
            return []
        left = sa.select(_R.uuid).where(_R.deleted == sa.false(), _R.uuid.in_(bound_ones)).distinct()
        return list(connection.scalars(left))

    @_retried  # type: ignore[untyped-decorator]
    def roll_back(self, begin: Begin, identifiers: Collection[str]) -> None:
        """End reservations whose rows do not change."""
        with begin() as connection:
            _remove(connection, _R.uuid.in_(list(identifiers)))

    @_retried  # type: ignore[untyped-decorator]
    def remove_ended(self, begin: Begin) -> int:
        """Remove the reservations of all projects that do not count any more; return their number."""
        with begin() as connection:
            return _remove(connection, self._has_ended(connection))

    def _has_ended(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
        return ~reservation_ends.counts(connection.dialect.name, self._rules().lifetime)

    def use(self, begin: Begin, type_names: Mapping[str, str], project_id: str) -> Mapping[str, Use]:
        """Return the use of a project by resource; ``type_names`` are those of volume types by id."""
        with begin() as connection:
            return quota_usage.by_project(connection, type_names, self._rules(), project_id).get(project_id, {})

    def end_with_row(self, connection: sa.Connection, identifier: str) -> bool:
        """End a reservation in the transaction that makes its row. Return whether it counted until now.

        A process may have been stopped meanwhile. Half of the lifetime is left for the end of the transaction.
        """
        young = tables.clock(connection.dialect.name, self._rules().lifetime / 2)
        return _remove(connection, _R.uuid == identifier, _R.created_at > young) > 0

    def reduce_by_row(self, connection: sa.Connection, identifier: str, amounts: Mapping[str, int]) -> bool:
        """Reduce a reservation for several rows, in the transaction that makes one of them, by the row's amounts."""
        young = tables.clock(connection.dialect.name, self._rules().lifetime / 2)
        reduced = sa.case(
            *((_R.resource == name, _R.delta - amount) for name, amount in amounts.items()), else_=_R.delta
        )
        changed = connection.execute(
            sa.update(tables.RESERVATIONS)
            .where(_R.uuid == identifier, _R.deleted == sa.false(), _R.created_at > young)
            .values(delta=reduced)
        )
        return changed.rowcount > 0


def held(connection: sa.Connection, rules: Rules, project_id: str | None = None) -> Sequence[Held]:
    """Return the reservations that are there, the oldest first, of all projects if ``project_id`` is None."""
    dialect = connection.dialect.name
    counts = sa.case((reservation_ends.counts(dialect, rules.lifetime), 1), else_=0).label("counts")
    statement = (
        sa.select(
            _R.uuid, _R.project_id, _R.resource, _R.delta, _R.created_at, tables.clock(dialect).label("now"), counts
        )
        .where(_R.deleted == sa.false(), _R.delta > 0)
        .order_by(_R.created_at, _R.id)
    )
    if project_id is not None:
        statement = statement.where(_R.project_id == project_id)
    return [
        Held(
            project_id=row.project_id,
            resource=row.resource,
            delta=row.delta,
            age=max((row.now - row.created_at).total_seconds(), 0.0),
            booking=quota_operations.of_identifier(row.uuid),
            counts=bool(row.counts),
        )
        for row in connection.execute(statement)
    ]


def _usages(
    connection: sa.Connection, project_id: str, names: Collection[str], lock: bool
) -> dict[str, sa.Row[tuple[Any, ...]]]:
    """Return the rows of resources by name, locked in the order of their names if ``lock``.

    The names differ in more than upper and lower case, as those of volume types do.
    """
    statement: sa.Select[Any] = (
        sa.select(_U.id, _U.resource, _U.reserved, _U.until_refresh)
        .where(_U.project_id == project_id, _U.resource.in_(names), _U.deleted == sa.false())
        .order_by(_U.resource)
    )
    rows = connection.execute(statement.with_for_update() if lock else statement)
    return {row.resource.casefold(): row for row in rows}


def _mark(connection: sa.Connection, usages: Mapping[str, sa.Row[tuple[Any, ...]]], lock: bool) -> None:
    """Let Cinder's own driver, should it return, count the use anew, which it does if ``until_refresh`` is 1 or less.

    A locked row is changed each time: nodes of a cluster of databases, where a lock holds on one node alone, notice
    that two transactions changed a row, and let one of them be tried again.
    """
    keys = [
        row.id for row in usages.values() if lock or row.reserved or row.until_refresh is None or row.until_refresh > 1
    ]
    if keys:
        counted_down = sa.case((_U.until_refresh.between(_LEAST_UNTIL_REFRESH, 1), _U.until_refresh - 1), else_=1)
        connection.execute(
            sa.update(tables.USAGES).where(_U.id.in_(keys)).values(until_refresh=counted_down, reserved=0)
        )


def _make_usages(begin: Begin, project_id: str, names: Collection[str]) -> None:
    """Make the rows that are locked, one in each transaction."""
    for name in names:
        try:
            with begin() as connection:
                connection.execute(
                    sa.insert(tables.USAGES).values(
                        project_id=project_id,
                        resource=name,
                        in_use=0,
                        reserved=0,
                        until_refresh=1,
                        race_preventer=True,
                        created_at=tables.clock(connection.dialect.name),
                        deleted=False,
                    )
                )
        except db_exc.DBDuplicateEntry:
            continue  # another request made it


def _insert(
    connection: sa.Connection,
    project_id: str,
    raising: Sequence[Amount],
    usages: Mapping[str, sa.Row[tuple[Any, ...]]],
    identifier: str,
    expire: datetime.datetime,
) -> bool:
    """Insert the reservation, and return whether there is one: not if all amounts are zero.

    Its time begins now: that of the statement that locked the rows may lie before a long wait for the lock.
    """
    rows = [
        {
            "uuid": identifier,
            "usage_id": usage.id,
            "project_id": project_id,
            "resource": amount.resource.name,
            "delta": amount.delta,
            "expire": expire,
            "deleted": False,
        }
        for amount in raising
        if amount.delta > 0
        for usage in (usages[amount.resource.name.casefold()],)
    ]
    if rows:
        now = tables.clock(connection.dialect.name)
        connection.execute(sa.insert(tables.RESERVATIONS).values(created_at=now), rows)
    return bool(rows)


def _remove(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> int:
    """Remove reservations and return their number.

    They are removed by their keys, so that no gap of an index is locked in which others insert theirs.
    """
    keys = list(connection.scalars(sa.select(_R.id).where(_R.deleted == sa.false(), *conditions)))
    return sum(
        connection.execute(sa.delete(tables.RESERVATIONS).where(_R.id.in_(keys[start : start + _CHUNK]))).rowcount
        for start in range(0, len(keys), _CHUNK)
    )
