# SPDX-License-Identifier: Apache-2.0
"""Columns that are worked out of other columns and kept: a change of a row costs the work for that row."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]

#: How many bytes of derived columns are kept per row; beyond that those that were not asked for the longest time go.
BYTES_PER_ROW = 512

#: So many changes are remembered in any case, and twice as many as there are rows.
_LEAST_REMEMBERED = 1024


class Table(Protocol):
    """What columns are derived of: something with rows, of which some can be taken out."""

    def __len__(self) -> int: ...
    def take(self, rows: npt.NDArray[np.intp]) -> Self: ...


TableT = TypeVar("TableT", bound=Table)


@dataclass(slots=True)
class _Kept:
    """One column, with room for rows to come; ``seen`` is how many changes are contained in it."""

    values: Column
    seen: int


class ChangedRows:
    """The rows of a table that have changed, one after the other.

    Who keeps what derives from rows remembers how many changes it has seen.
    """

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._forgotten = 0

    @property
    def now(self) -> int:
        """How many changes there have been."""
        return self._forgotten + len(self._rows)

    def note(self, rows: Iterable[int], count: int) -> None:
        """Note changes of these rows; the table has ``count`` rows."""
        self._rows.extend(rows)
        if len(self._rows) > max(_LEAST_REMEMBERED, 2 * count):
            self._forgotten += len(self._rows)
            self._rows.clear()

    def since(self, seen: int, count: int) -> set[int] | None:
        """Return the rows that have changed since so many changes had been seen; the table has ``count`` rows.

        None is returned where they are not remembered, or are so many that it is less work to look at all.
        """
        now = self._forgotten + len(self._rows)
        if seen == now:
            return set()
        if seen < self._forgotten or seen < now - count // 2:
            return None
        return {row for row in self._rows[seen - self._forgotten :] if row < count}


class Derived(Generic[TableT]):
    """The derived columns of one table.

    What works a column out is given a table and answers for each of its rows, looking at nothing but that row.
    Whoever changes rows notes it in ``changes``; rows that were added are changed rows, and those that were removed are
    forgotten by themselves. Reading is thread-safe, as long as nobody changes the table.
    """

    def __init__(self, changes: ChangedRows) -> None:
        self._changes = changes
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._part: tuple[int, int, npt.NDArray[np.intp], TableT] | None = None
        self._lock = threading.RLock()

    def column(self, table: TableT, key: Hashable, work_out: Callable[[TableT], Column]) -> Column:
        """Return the column of that key for all rows, read-only. What ``work_out`` raises is raised."""
        count = len(table)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or count > len(kept.values):
                kept = self._keep(key, work_out(table))
            else:
                self._kept.move_to_end(key)
                if kept.seen != self._changes.now and not self._bring_up_to_date(table, kept, work_out):
                    kept = self._keep(key, work_out(table))
        values = kept.values[:count]
        values.flags.writeable = False
        return values

    def _keep(self, key: Hashable, values: Column) -> _Kept:
        count = len(values)
        roomy = np.empty(count + count // 8 + 16, dtype=values.dtype)
        roomy[:count] = values
        kept = self._kept[key] = _Kept(roomy, self._changes.now)
        self._kept.move_to_end(key)
        size = sum(each.values.itemsize for each in self._kept.values())
        while size > BYTES_PER_ROW and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            size -= oldest.values.itemsize
        return kept

    def _bring_up_to_date(self, table: TableT, kept: _Kept, work_out: Callable[[TableT], Column]) -> bool:
        """Work out what has changed, and tell whether that could be done."""
        now = self._changes.now
        if self._part is None or self._part[:2] != (kept.seen, now):
            changed = self._changes.since(kept.seen, len(table))
            if changed is None:
                return False
            rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
            self._part = (kept.seen, now, rows, table.take(rows))
        _, _, rows, part = self._part
        if rows.size:
            kept.values[rows] = work_out(part)
        kept.seen = now
        return True
