# SPDX-License-Identifier: Apache-2.0
"""The end of a reservation with the row that it is for: SQLAlchemy tells when Cinder makes a row.

A thread of Cinder that reserves quota for a row makes the row next. Its reservation ends in the transaction that makes
the row, so at no moment do both count, nor neither. A thread that commits the reservation of an operation on a row
changes the row next: the reservation counts until then, and is removed in the transaction that changes it. And where a
thread reserves before it begins to change a row, any time may pass between: a reservation that has become old is
compared with the limits once more when the row changes.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.cinder.quota.quota_reservations import Begin, ReservationBook
from tonnage.extensions.cinder.quota.quota_usage import Resource

#: The number that one row adds to, and the attributes of a row that sizes are taken from, by table.
_SIZES: Mapping[str, str | None] = {"volumes": "size", "snapshots": "volume_size", "backups": "size", "groups": None}

#: Most changes of rows after which a thread looks at the reservations that it has committed.
_CHANGES = 5


@dataclass(slots=True)
class _Expected:
    """A reservation for a row, or for several, that this thread makes next."""

    identifier: str
    table: str
    project_id: str
    deltas: Mapping[Resource, int]
    has_ended: bool = False

    @property
    def rows(self) -> int:
        """The number of rows that are reserved for."""
        return max((delta for resource, delta in self.deltas.items() if resource.part == self.table), default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a row that this thread makes next, after it has reserved for it.

    The change sets a column to ``value``, or makes the row. ``request_id`` is that of the client's request. ``renew``
    compares a reservation that is old with the limits once more, in a transaction of its own; it raises the error for a
    client whose reservation does not fit any more.
    """

    identifier: str
    row_id: str
    value: str
    request_id: str | None
    renew: Callable[[Begin], None]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.expected: list[_Expected] = []
        self.coming: list[Change] = []
        self.committed: list[str] = []
        self.changes = 0


class RowObserver:
    """Ends reservations when their rows are made. ``refuse`` returns the error for a row that comes too late."""

    def __init__(
        self, book: ReservationBook, snapshots_use_gigabytes: Callable[[], bool], refuse: Callable[[str], Exception]
    ) -> None:
        self._book, self._snapshots_use_gigabytes, self._refuse = book, snapshots_use_gigabytes, refuse
        self._thread = _Thread()

    def listen(self, models: Mapping[str, type]) -> None:
        """Listen to new rows of these classes, by table."""
        for table, model in models.items():
            sa.event.listen(model, "before_insert", self._before_insert)
            sa.event.listen(model, "after_insert", self._listener(table))
        sa.event.listen(orm.Session, "do_orm_execute", self._around_update)

    def expect(self, identifier: str, table: str, project_id: str, deltas: Mapping[Resource, int]) -> None:
        """Expect the row of a reservation. One that this thread still expects has failed, and will not come."""
        self._thread.expected = [
            expected
            for expected in self._thread.expected
            if expected.table != table or expected.project_id != project_id
        ]
        self._thread.expected.append(_Expected(identifier, table, project_id, dict(deltas)))

    def end(self, identifiers: Collection[str]) -> list[str]:
        """Expect no row and no change for these reservations any more. Return those that did not end with their row."""
        self._thread.coming = [change for change in self._thread.coming if change.identifier not in identifiers]
        reservations = self._thread.expected
        ended = {expected.identifier for expected in reservations if expected.has_ended and expected.rows == 1}
        self._thread.expected = [expected for expected in reservations if expected.identifier not in identifiers]
        return [identifier for identifier in identifiers if identifier not in ended]

    def expect_change(self, identifiers: Collection[str]) -> None:
        """Expect changes of the rows of reservations that Cinder has committed."""
        self._thread.committed, self._thread.changes = list(identifiers), 0

    def expect_begin(self, change: Change) -> None:
        """Expect the change with which an operation begins. Those of other requests of this thread will not come."""
        earlier = self._thread.coming
        self._thread.coming = [other for other in earlier if other.request_id == change.request_id]
        self._thread.coming.append(change)

    def _around_update(self, state: orm.ORMExecuteState) -> Any:
        """Renew reservations before the change of their rows, and remove committed ones if the rows show the end."""
        thread = self._thread
        if not state.is_update or not (thread.coming or thread.committed):
            return None
        self._renew(self._begun_by(state), state.session.get_bind(**state.bind_arguments).engine)
        result = state.invoke_statement()
        if thread.committed:
            thread.changes += 1
            committed = self._book.end_changed(state.session.connection(), thread.committed)
            thread.committed = committed if thread.changes < _CHANGES else []
        return result

    def _renew(self, changes: Collection[Change], engine: sa.Engine) -> None:
        for change in changes:
            change.renew(engine.begin)

    def _begun_by(self, state: orm.ORMExecuteState) -> list[Change]:
        """Return the expected changes that a statement makes."""
        if not self._thread.coming or not isinstance(state.statement, sa.Update):
            return []
        values = list(state.statement.compile().params.values())
        return [change for change in self._thread.coming if change.row_id in values and change.value in values]

    def _before_insert(self, _mapper: Any, connection: sa.Connection, row: Any) -> None:
        self._renew([change for change in self._thread.coming if change.row_id == row.id], connection.engine)

    def _listener(self, table: str) -> Callable[[Any, sa.Connection, Any], None]:
        def after_insert(_mapper: Any, connection: sa.Connection, row: Any) -> None:
            reservations = self._thread.expected
            if reservations and getattr(row, "use_quota", True) is not False:
                for expected in reservations:
                    if expected.table == table and expected.project_id == row.project_id:
                        self._end(expected, connection, row)

        return after_insert

    def _end(self, expected: _Expected, connection: sa.Connection, row: Any) -> None:
        if expected.rows == 1:
            counted = self._book.end_with_row(connection, expected.identifier)
        else:
            counted = self._book.reduce_by_row(connection, expected.identifier, self._amounts(expected, row))
        if not counted:
            raise self._refuse(expected.identifier)
        expected.has_ended = True

    def _amounts(self, expected: _Expected, row: Any) -> dict[str, int]:
        """Return the amounts that a row adds to the resources of its reservation."""
        size = _SIZES[expected.table]
        uses_gigabytes = expected.table != "snapshots" or self._snapshots_use_gigabytes()
        amounts = {}
        for resource in expected.deltas:
            if resource.volume_type_id not in (None, getattr(row, "volume_type_id", None)):
                continue
            if resource.part == expected.table:
                amounts[resource.name] = 1
            elif size is not None and uses_gigabytes:
                amounts[resource.name] = getattr(row, size) or 0
        return amounts
