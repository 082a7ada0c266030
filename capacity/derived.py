# SPDX-License-Identifier: Apache-2.0
"""Columns that are worked out of other columns and kept: a change of a row costs the work for that row."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from typing import Generic
from typing import Protocol
from typing import Self
from typing import TypeAlias
from typing import TypeVar

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


class Derived(Generic[TableT]):
    """The derived columns of one table.

    What works a column out is given a table and answers for each of its rows, looking at nothing but that row.
    Whoever changes rows tells :meth:`changed`; rows that were added are changed rows, and those that were removed are
    forgotten by themselves. Reading is thread-safe, as long as nobody changes the table.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._changes: list[int] = []
        self._forgotten = 0
        self._part: tuple[int, npt.NDArray[np.intp], TableT] | None = None
        self._lock = threading.RLock()

    def changed(self, rows: Iterable[int], count: int) -> None:
        """Note that these rows are other than they were; the table has ``count`` rows."""
        self._part = None
        self._changes.extend(rows)
        if len(self._changes) > max(_LEAST_REMEMBERED, 2 * count) or not self._kept:
            self._forgotten += len(self._changes)
            self._changes.clear()

    def column(self, table: TableT, key: Hashable, work_out: Callable[[TableT], Column]) -> Column:
        """Return the column of that key for all rows, read-only. What ``work_out`` raises is raised."""
        count = len(table)
        with self._lock:
            kept = self._kept.get(key)
            # Where most rows are others, it is less work to look at the whole table than to take them out of it.
            oldest = max(self._forgotten, self._now - count // 2)
            if kept is None or kept.seen < oldest or count > len(kept.values):
                kept = self._keep(key, work_out(table))
            else:
                self._kept.move_to_end(key)
                if kept.seen != self._now:
                    self._bring_up_to_date(table, kept, work_out)
        values = kept.values[:count]
        values.flags.writeable = False
        return values

    @property
    def _now(self) -> int:
        return self._forgotten + len(self._changes)

    def _keep(self, key: Hashable, values: Column) -> _Kept:
        count = len(values)
        roomy = np.empty(count + count // 8 + 16, dtype=values.dtype)
        roomy[:count] = values
        kept = self._kept[key] = _Kept(roomy, self._now)
        self._kept.move_to_end(key)
        size = sum(each.values.itemsize for each in self._kept.values())
        while size > BYTES_PER_ROW and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            size -= oldest.values.itemsize
        return kept

    def _bring_up_to_date(self, table: TableT, kept: _Kept, work_out: Callable[[TableT], Column]) -> None:
        if self._part is None or self._part[0] != kept.seen:
            count = len(table)
            changes = {row for row in self._changes[kept.seen - self._forgotten :] if row < count}
            rows = np.fromiter(changes, dtype=np.intp, count=len(changes))
            self._part = (kept.seen, rows, table.take(rows))
        _, rows, part = self._part
        if rows.size:
            kept.values[rows] = work_out(part)
        kept.seen = self._now
