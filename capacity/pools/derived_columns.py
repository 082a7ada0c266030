# SPDX-License-Identifier: Apache-2.0
"""Cached columns that are derived from other columns: a change of a row costs the computation for that row."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]

#: The largest size of all cached columns, in bytes per row. Beyond it the least recently used ones are dropped.
BYTES_PER_ROW = 512

#: The number of changes that are recorded: twice the number of rows, and at least this one.
MIN_RECORDED = 1024

#: A column is computed row by row for at most this many changed rows, which is faster.
_FEW = 3


class Table(Protocol):
    """A table that can return a part of its rows."""

    def __len__(self) -> int: ...
    def take(self, rows: npt.NDArray[np.intp]) -> Self: ...


TableT = TypeVar("TableT", bound=Table)


@dataclass(slots=True)
class _CachedColumn:
    """A cached column, with space for more rows. ``change_count`` is the number of changes that it contains."""

    values: Column
    change_count: int


class ChangedRows:
    """The log of the changed rows of a table, in the order of the changes.

    A reader remembers how many changes it has seen.
    """

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._dropped = 0
        #: The number of changes so far.
        self.count = 0

    def record(self, rows: Iterable[int], table_size: int) -> None:
        """Record changes of these rows of a table with ``table_size`` rows."""
        self._rows.extend(rows)
        self.count = self._dropped + len(self._rows)
        if len(self._rows) > max(MIN_RECORDED, 2 * table_size):
            self._dropped += len(self._rows)
            self._rows.clear()

    def since(self, change_count: int, table_size: int) -> set[int] | None:
        """Return the rows that have changed after the first ``change_count`` changes.

        Return None if these changes are no longer recorded, or if they are so many that it is less work to compute all
        ``table_size`` rows.
        """
        if change_count == self.count:
            return set()
        if change_count < self._dropped or change_count < self.count - table_size // 2:
            return None
        return {row for row in self._rows[change_count - self._dropped :] if row < table_size}


class Derived(Generic[TableT]):
    """The cache of the derived columns of one table.

    A function that computes a column receives a table, and its result for a row depends on that row only. Each change
    of rows must be recorded in ``changes``. Added rows count as changed; removed rows need no record. Reading is
    thread-safe while the table does not change.
    """

    def __init__(self, changes: ChangedRows) -> None:
        self._changes = changes
        self._cached: OrderedDict[Hashable, _CachedColumn] = OrderedDict()
        self._part: tuple[int, int, npt.NDArray[np.intp], TableT] | None = None
        self._lock = threading.RLock()

    def column(
        self,
        table: TableT,
        key: Hashable,
        compute: Callable[[TableT], Column],
        of_row: Callable[[int], Any] | None = None,
    ) -> Column:
        """Return the column with that key for all rows, read-only.

        ``compute`` returns the column of a table. ``of_row`` returns the value of one row of ``table``: it is called
        instead for a few changed rows, which is faster. An exception of either is passed on.
        """
        count = len(table)
        with self._lock:
            cached = self._cached.get(key)
            if cached is None or count > len(cached.values):
                cached = self._store(key, compute(table))
            else:
                self._cached.move_to_end(key)
                if cached.change_count != self._changes.count and not self._update(table, cached, compute, of_row):
                    cached = self._store(key, compute(table))
        values = cached.values[:count]
        values.flags.writeable = False
        return values

    def _store(self, key: Hashable, values: Column) -> _CachedColumn:
        count = len(values)
        padded = np.empty(count + count // 8 + 16, dtype=values.dtype)
        padded[:count] = values
        cached = self._cached[key] = _CachedColumn(padded, self._changes.count)
        self._cached.move_to_end(key)
        size = sum(column.values.itemsize for column in self._cached.values())
        while size > BYTES_PER_ROW and len(self._cached) > 1:
            _, oldest = self._cached.popitem(last=False)
            size -= oldest.values.itemsize
        return cached

    def _update(
        self,
        table: TableT,
        cached: _CachedColumn,
        compute: Callable[[TableT], Column],
        of_row: Callable[[int], Any] | None,
    ) -> bool:
        """Compute the changed rows of a cached column; return False if all rows have to be computed."""
        now = self._changes.count
        changed = self._changes.since(cached.change_count, len(table))
        if changed is None:
            return False
        if of_row is not None and len(changed) <= _FEW:
            for row in changed:
                cached.values[row] = of_row(row)
        elif changed:
            rows, part = self._rows_taken(table, cached.change_count, now, changed)
            cached.values[rows] = compute(part)
        cached.change_count = now
        return True

    def _rows_taken(
        self, table: TableT, change_count: int, now: int, changed: set[int]
    ) -> tuple[npt.NDArray[np.intp], TableT]:
        """Return the rows that changed between two counts of changes, and a table of these rows."""
        if self._part is None or self._part[:2] != (change_count, now):
            rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
            self._part = (change_count, now, rows, table.take(rows))
        return self._part[2:]
