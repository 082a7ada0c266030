# SPDX-License-Identifier: Apache-2.0
"""The end of a reservation with the row that it is for: SQLAlchemy tells when Cinder makes a row.

A thread of Cinder that reserves quota for a row makes the row next. Its reservation ends in the transaction that makes
the row, so at no moment do both count, nor neither. And a thread that commits the reservation of an operation on a row
changes the row next: the reservation counts until then, and is removed in the transaction that changes it.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.cinder.quota.quota_reservations import ReservationBook
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


class _Thread(threading.local):
    def __init__(self) -> None:
        self.expected: list[_Expected] = []
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
            sa.event.listen(model, "after_insert", self._listener(table))
        sa.event.listen(orm.Session, "do_orm_execute", self._after_update)

    def expect(self, identifier: str, table: str, project_id: str, deltas: Mapping[Resource, int]) -> None:
        """Expect the row of a reservation. One that this thread still expects has failed, and will not come."""
        self._thread.expected = [
            expected
            for expected in self._thread.expected
            if expected.table != table or expected.project_id != project_id
        ]
        self._thread.expected.append(_Expected(identifier, table, project_id, dict(deltas)))

    def end(self, identifiers: Collection[str]) -> list[str]:
        """Expect no row of these reservations any more. Return those that did not end with their row."""
        reservations = self._thread.expected
        ended = {expected.identifier for expected in reservations if expected.has_ended and expected.rows == 1}
        self._thread.expected = [expected for expected in reservations if expected.identifier not in identifiers]
        return [identifier for identifier in identifiers if identifier not in ended]

    def expect_change(self, identifiers: Collection[str]) -> None:
        """Expect changes of the rows of reservations that Cinder has committed."""
        self._thread.committed, self._thread.changes = list(identifiers), 0

    def _after_update(self, state: orm.ORMExecuteState) -> Any:
        """Remove committed reservations after a change of rows, if their rows show the end of the operation."""
        thread = self._thread
        if not thread.committed or not state.is_update:
            return None
        result = state.invoke_statement()
        thread.changes += 1
        committed = self._book.end_changed(state.session.connection(), thread.committed)
        thread.committed = committed if thread.changes < _CHANGES else []
        return result

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
