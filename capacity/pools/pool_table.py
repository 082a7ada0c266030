# SPDX-License-Identifier: Apache-2.0
"""The table of all pools, and its changes."""

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity.pools import columns as layout
from tonnage.capacity.pools.capability_values import Values, reader, same
from tonnage.capacity.pools.columns import POSITION, Columns, Rows
from tonnage.capacity.pools.derived_columns import ChangedRows, Column, Derived
from tonnage.capacity.pools.pool import Pool
from tonnage.capacity.pools.shared_storage import Storage

__all__ = ["Pool", "PoolTable"]

Key = TypeVar("Key", bound=Hashable)


class PoolTable(Columns):
    """All pools as numpy columns: row *i* of every column belongs to ``names[i]``.

    Filters and weighers read the columns; only the scheduler's host manager writes, through the methods below. A row
    keeps its place until another row is removed, which moves the last row into the gap. Changes are not thread-safe:
    the table belongs to the decision thread.
    """

    def __init__(self, pools: Iterable[Pool] = ()) -> None:
        super().__init__()
        self._by_storage: dict[str, Storage] = {}
        self.put_all(pools)

    # Caches of each table, created on first use, as most parts of tables are dropped before.

    @functools.cached_property
    def _changes(self) -> ChangedRows:
        return ChangedRows()

    @functools.cached_property
    def _trait_changes(self) -> ChangedRows:
        return ChangedRows()

    @functools.cached_property
    def _by_figures(self) -> "Derived[PoolTable]":
        return Derived(self._changes)

    @functools.cached_property
    def _by_traits(self) -> "Derived[PoolTable]":
        return Derived(self._trait_changes)

    @functools.cached_property
    def _values(self) -> dict[Hashable, Values[Any]]:
        return {}

    @functools.cached_property
    def attached(self) -> dict[type, Any]:
        """Objects that are kept for this table, and not for copies of it, by their types."""
        return {}

    @property
    def change_count(self) -> int:
        """The number of changes of rows so far, for :meth:`changed_since`."""
        return self._changes.count

    def changed_since(self, change_count: int) -> set[int] | None:
        """Return the rows in use that have changed after so many changes; None if a look at all rows is less work.

        A row that was removed counts as changed: the last row has taken its place.
        """
        return self._changes.since(change_count, len(self))

    def capability(self, *path: str) -> tuple[npt.NDArray[np.intp], Sequence[object]]:
        """Return one capability of all pools; ``path`` has a key for each level of nesting.

        The result is a column of codes and the list of the distinct values, which the codes index. The value is
        :data:`MISSING` for pools without the capability. So each distinct value needs to be evaluated only once.
        """
        codes, values = self.capability_values(*path)
        return codes, values.values

    def capability_values(self, *path: str) -> tuple[npt.NDArray[np.intp], Values[Any]]:
        """Return one capability of all pools as :meth:`capability` does, with an object that keeps results by value."""
        return self._distinct(path, lambda: Values(reader(path)))

    def distinct(self, read: Callable[[Mapping[str, Any]], Key]) -> tuple[npt.NDArray[np.intp], Values[Key]]:
        """Return the results of a function of the capabilities of all pools, as a column of codes and the values.

        The results must be hashable. The returned values can be searched, which is faster than to evaluate each.
        """
        return self._distinct(read, lambda: Values(read, key=_identity))

    def _distinct(self, key: Hashable, make: Callable[[], Values[Any]]) -> tuple[npt.NDArray[np.intp], Values[Any]]:
        values = self._values.get(key)
        if values is None or len(values.values) > 2 * len(self) + 1024:
            values = self._values[key] = make()
        return self._by_traits.column(self, values, lambda pools: values.codes(pools.capabilities)), values

    def derived(self, key: Hashable, compute: "Callable[[PoolTable], Column]") -> Column:
        """Return a column that is derived from others, with an element for each row.

        The column is read-only, and valid until the next call after a change. It is cached under ``key``, which must
        contain everything that the result depends on except the pools. After a change of pools, ``compute`` is called
        with a table of only these; so its result for a pool must not depend on other pools.
        """
        return self._by_figures.column(self, key, compute)

    def evaluated(self, formula: layout.Formula) -> Column:
        """Return the values of a formula of figures and flags for each row, as a column like those of :meth:`derived`.

        ``formula`` is the cache key. It is called with the whole table or, for a few changed pools, with one at a time.
        """
        return self._by_figures.column(
            self,
            formula,
            lambda pools: np.asarray(formula(pools), dtype=np.float64),
            lambda row: formula(self.row_values(row)),
        )

    def derived_from_traits(self, key: Hashable, compute: "Callable[[PoolTable], Column]") -> Column:
        """Return a derived column as :meth:`derived` does, but one without figures, which claims do not affect."""
        return self._by_traits.column(self, key, compute)

    def put(self, pool: Pool) -> None:
        """Add a pool, or replace the one with that name."""
        self.put_all([pool])

    def put_all(self, pools: Iterable[Pool]) -> None:
        """Add pools, or replace those with their names."""
        pools = list(pools)
        if pools:
            texts = zip(*map(layout.texts_of, pools), strict=True)
            figures = np.array([layout.figures_of(pool) for pool in pools], dtype=np.float64).T
            flags = np.array([layout.flags_of(pool) for pool in pools], dtype=np.bool_).T
            self._put(*texts, figures=figures, flags=flags)

    def put_columns(self, names: Sequence[str], columns: Mapping[str, Any]) -> None:
        """Add or replace the pools with these names, in half of the time of :meth:`put_all`.

        ``columns`` maps a field of :class:`Pool` to a list of values, one for each name, or to one value for all. Other
        fields have their defaults.
        """
        texts = (layout.column_values(columns, key, len(names)) for key in layout.TEXTS[1:])
        figures = np.empty((len(layout.FIGURES), len(names)))
        flags = np.empty((len(layout.FLAGS), len(names)), dtype=np.bool_)
        for block, fields in ((figures, layout.FIGURES), (flags, layout.FLAGS)):
            for position, key in enumerate(fields):
                block[position] = columns.get(key, layout.DEFAULTS[key])
        self._put(names, *texts, figures=figures, flags=flags)

    def sharing(self, index: int) -> list[str]:
        """Return the names of the pools on the storage of this one, including its own name."""
        storage_id = self._storage_ids[index]
        if storage_id is None:
            return [self._names[index]]
        storage = self._by_storage[storage_id]
        if storage.sorted_names is None:
            storage.sorted_names = sorted(storage.names)
        return storage.sorted_names.copy()

    def backends_on(self, storage_id: str) -> Collection[str]:
        """Return the backends with pools on a storage."""
        storage = self._by_storage.get(storage_id)
        return () if storage is None else storage.backends.keys()

    def claim(self, index: int, size_gb: float, physical_gb: float) -> None:
        """Count a claim: allocated and in-flight capacity grow. Negative sizes revert a claim."""
        pool = self._figures[:, index]
        pool[POSITION["allocated"]] += size_gb
        pool[POSITION["claimed"]] += size_gb
        pool[POSITION["claimed_physical"]] += physical_gb
        layout.update_totals(pool)
        self._changed([index])
        storage_id = self._storage_ids[index]
        if storage_id is not None and len(self._by_storage[storage_id].names) > 1:
            self._claim_of_other(self._by_storage[storage_id], index, size_gb, physical_gb)

    def _claim_of_other(self, storage: Storage, index: int, size_gb: float, physical_gb: float) -> None:
        """Count a claim of the pool of row ``index`` for the other pools on its storage."""
        if storage.rows is None:
            storage.rows = np.fromiter((self._index[name] for name in storage.names), dtype=np.intp)
        rows = storage.rows[storage.rows != index]
        block = self._figures[:, rows]
        is_whole_storage = np.isnan(block[POSITION["storage_free"]])
        block[POSITION["shared_allocated"], is_whole_storage] += size_gb
        block[POSITION["shared_in_flight"], is_whole_storage] += size_gb
        block[POSITION["shared_in_flight_physical"]] += physical_gb
        layout.update_totals(block)
        self._figures[:, rows] = block
        self._changed(rows.tolist())

    def set_figures(self, names: Collection[str], figures: Mapping[str, Sequence[float]]) -> None:
        """Set some figures of pools in the table; their other figures and their traits stay.

        ``figures`` maps a field of :class:`Pool` to a list of values, one for each name.
        """
        rows = np.array([self._index[name] for name in names], dtype=np.intp)
        before = self._figures[:, rows]
        block = before.copy()
        for key, values in figures.items():
            block[POSITION[key]] = values
        layout.update_totals(block)
        self._figures[:, rows] = block
        # Compared as bits, so that nan equals itself.
        self._changed(rows[(before.view(np.uint64) != block.view(np.uint64)).any(axis=0)].tolist())

    def set_volumes(self, numbers: Mapping[str, int]) -> None:
        """Set the number of volumes of these pools; unknown names are ignored."""
        numbers_by_name = {name: number for name, number in numbers.items() if name in self._index}
        self.set_figures(numbers_by_name, {"volumes": list(numbers_by_name.values())})

    def remove(self, name: str) -> None:
        """Remove a pool, if there is one with that name."""
        index = self._index.get(name)
        if index is None:
            return
        self._leave_storage(index)
        moved = self._storage_ids[-1]
        self._drop(index)
        if moved is not None:
            self._by_storage[moved].drop_caches()
        self._changed([index], [index])

    def snapshot(self) -> Self:
        """Return an independent copy. All columns are copied."""
        copy = self.__class__.__new__(self.__class__)
        copy._names, copy._zones = self._names.copy(), self._zones.copy()
        copy._capabilities, copy._storage_ids = self._capabilities.copy(), self._storage_ids.copy()
        copy._index = self._index.copy()
        copy._by_storage = {storage_id: Storage(storage.names) for storage_id, storage in self._by_storage.items()}
        copy._zone_codes, copy._backend_codes = self._zone_codes.copy(), self._backend_codes.copy()
        copy._figures, copy._flags, copy._codes = self._figures.copy(), self._flags.copy(), self._codes.copy()
        return copy

    def take(self, rows: Rows) -> Self:
        """Return a read-only table with a copy of some rows, each at most once."""
        part = self.__class__.__new__(self.__class__)
        indexes = rows.tolist()
        part._names = [self._names[row] for row in indexes]
        part._zones = [self._zones[row] for row in indexes]
        part._capabilities = [self._capabilities[row] for row in indexes]
        part._storage_ids = [self._storage_ids[row] for row in indexes]
        part._index = {name: index for index, name in enumerate(part._names)}
        # These contain more than the rows of the part, without an effect on its methods that read.
        part._by_storage = self._by_storage
        part._zone_codes, part._backend_codes = self._zone_codes, self._backend_codes
        part._figures, part._flags, part._codes = self._figures[:, rows], self._flags[:, rows], self._codes[:, rows]
        return part

    def _put(
        self,
        names: Sequence[str],
        zones: Sequence[str],
        storage_ids: Sequence[str | None],
        capabilities: Sequence[Mapping[str, Any]],
        *,
        figures: npt.NDArray[np.float64],
        flags: npt.NDArray[np.bool_],
    ) -> None:
        if not names:
            return
        where, added = self._rows_of(names)
        changed_rows = added + self._move_storages(where, storage_ids)
        changed_rows += self._replace_capabilities(where, capabilities)
        zone_codes = self._codes_of_zones(zones)
        if added:
            self._drop_stale_columns()
        layout.update_totals(figures)
        moved = self._codes[POSITION["zone_code"], where] != zone_codes
        if moved.any():
            layout.set_values(self._zones, where, zones)
            self._drop_cached("zones")
        figures_differ = (self._figures[:, where].view(np.uint64) != figures.view(np.uint64)).any(axis=0)
        traits_differ = (self._flags[:, where] != flags).any(axis=0) | moved
        self._figures[:, where] = figures
        self._flags[:, where] = flags
        self._codes[POSITION["zone_code"], where] = zone_codes
        traits_changed = [*changed_rows, *layout.matching_rows(where, traits_differ)]
        self._changed(itertools.chain(layout.matching_rows(where, figures_differ), traits_changed), traits_changed)

    def _rows_of(self, names: Sequence[str]) -> tuple[Rows | slice, list[int]]:
        """Return an index of the rows of these pools, and the rows that had to be added."""
        first = self._index.get(names[0])
        if first is not None and self._names[first : first + len(names)] == list(names):
            return slice(first, first + len(names)), []
        added = list(self._append([name for name in dict.fromkeys(names) if name not in self._index]))
        rows = np.fromiter(map(self._index.__getitem__, names), dtype=np.intp, count=len(names))
        return layout.row_index(rows), added

    def _move_storages(self, where: Rows | slice, storage_ids: Sequence[str | None]) -> list[int]:
        """Set the storages of these rows, and return the rows whose storage changed."""
        if layout.take_values(self._storage_ids, where) == list(storage_ids):
            return []
        moved = []
        for row, new in zip(layout.take_values(range(len(self)), where), storage_ids, strict=True):
            if self._storage_ids[row] != new:
                self._leave_storage(row)
                self._join_storage(row, new)
                moved.append(row)
        return moved

    def _replace_capabilities(self, where: Rows | slice, capabilities: Sequence[Mapping[str, Any]]) -> list[int]:
        """Set the capabilities of these rows, and return the rows whose capabilities changed."""
        before = layout.take_values(self._capabilities, where)
        if all(map(operator.is_, before, capabilities)):
            return []
        layout.set_values(self._capabilities, where, capabilities)
        self._drop_cached("capabilities")
        # Pools of the same kind share one mapping, so each pair of mappings is compared only once.
        ids = zip(map(id, before), map(id, capabilities), strict=True)
        pairs = dict(zip(ids, zip(before, capabilities, strict=True), strict=True))
        differ = {pair for pair, (old, new) in pairs.items() if old is not new and not same(old, new)}
        if not differ:
            return []
        rows = layout.take_values(range(len(self)), where)
        triples = zip(rows, map(id, before), map(id, capabilities), strict=True)
        return [row for row, old, new in triples if (old, new) in differ]

    def _codes_of_zones(self, zones: Sequence[str]) -> npt.NDArray[np.uint64]:
        codes = self._zone_codes
        if zones.count(zones[0]) == len(zones):
            return np.full(len(zones), codes.setdefault(zones[0], len(codes)), dtype=np.uint64)
        for zone in dict.fromkeys(zones):
            codes.setdefault(zone, len(codes))
        return np.fromiter(map(codes.__getitem__, zones), dtype=np.uint64, count=len(zones))

    def _join_storage(self, index: int, storage_id: str | None) -> None:
        self._storage_ids[index] = storage_id
        if storage_id is not None:
            self._by_storage.setdefault(storage_id, Storage()).add(self._names[index])

    def _leave_storage(self, index: int) -> None:
        storage_id = self._storage_ids[index]
        if storage_id is None:
            return
        storage = self._by_storage[storage_id]
        storage.discard(self._names[index])
        self._storage_ids[index] = None
        if not storage.names:
            del self._by_storage[storage_id]

    def _changed(self, rows: Iterable[int], traits_of: Sequence[int] = ()) -> None:
        """Record changes of the figures or traits of ``rows``; ``traits_of`` are the rows with changed traits."""
        self._changes.record(rows, len(self))
        if traits_of:
            self._trait_changes.record(traits_of, len(self))


def _identity(value: Hashable) -> Hashable:
    return value
