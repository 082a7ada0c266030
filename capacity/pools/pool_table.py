# SPDX-License-Identifier: Apache-2.0
"""The table of all pools: what changes in it, and what follows from that."""

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity.expressions.capability_values import Values, reader, same
from tonnage.capacity.pools import columns as parts
from tonnage.capacity.pools.columns import AT, Columns, Rows
from tonnage.capacity.pools.derived_columns import ChangedRows, Column, Derived
from tonnage.capacity.pools.pool import Pool
from tonnage.capacity.pools.shared_storage import Storage

__all__ = ["Pool", "PoolTable"]

Key = TypeVar("Key", bound=Hashable)


class PoolTable(Columns):
    """All pools as numpy columns: row *i* of every column belongs to ``names[i]``.

    Filters and weighers read the columns; only the scheduler's host manager writes, through the methods below. Rows
    keep their place until one is removed, which moves the last row into the gap. Changes are not thread-safe: the table
    belongs to the decision thread.
    """

    def __init__(self, pools: Iterable[Pool] = ()) -> None:
        super().__init__()
        self._by_storage: dict[str, Storage] = {}
        self.put_all(pools)

    # What is kept of each table; made when first used, as parts of tables hardly live long enough.

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

    def capability(self, *path: str) -> tuple[npt.NDArray[np.intp], Sequence[object]]:
        """Return what the pools report as one capability, the keys of nested ones one after the other.

        It comes as a column of numbers and the value that each number stands for, :data:`MISSING` where there is none.
        Every distinct value is there once, so that whoever judges values judges none twice.
        """
        codes, values = self._distinct(path, lambda: Values(reader(path)))
        return codes, values.values

    def distinct(self, read: Callable[[Mapping[str, Any]], Key]) -> tuple[npt.NDArray[np.intp], Values[Key]]:
        """Do the same for what a function makes of the capabilities of a pool, which has to have a hash.

        The values can be searched, which is faster than to judge each where there are many.
        """
        return self._distinct(read, lambda: Values(read, key=_itself))

    def _distinct(self, key: Hashable, make: Callable[[], Values[Any]]) -> tuple[npt.NDArray[np.intp], Values[Any]]:
        values = self._values.get(key)
        if values is None or len(values.values) > 2 * len(self) + 1024:
            values = self._values[key] = make()
        return self._by_traits.column(self, values, lambda pools: values.codes(pools.capabilities)), values

    def derived(self, key: Hashable, work_out: "Callable[[PoolTable], Column]") -> Column:
        """Return a column that is worked out of others, with an element for each row.

        It is read-only, and stands until it is asked for again after a change. It is kept under its key, which has to
        say all that the answer depends on beside the pools. When pools have changed, ``work_out`` is given a table of
        these alone; so its answer for a pool may depend on no other pool.
        """
        return self._by_figures.column(self, key, work_out)

    def derived_from_traits(self, key: Hashable, work_out: "Callable[[PoolTable], Column]") -> Column:
        """As :meth:`derived`, for an answer that depends on no figure, so that claims leave it as it is."""
        return self._by_traits.column(self, key, work_out)

    def put(self, pool: Pool) -> None:
        """Add a pool, or replace the row of that name."""
        self.put_all([pool])

    def put_all(self, pools: Iterable[Pool]) -> None:
        """Add pools, or replace the rows of their names."""
        pools = list(pools)
        if pools:
            texts = zip(*map(parts.texts_of, pools), strict=True)
            figures = np.array([parts.figures_of(pool) for pool in pools], dtype=np.float64).T
            flags = np.array([parts.flags_of(pool) for pool in pools], dtype=np.bool_).T
            self._put(*texts, figures=figures, flags=flags)

    def put_columns(self, names: Sequence[str], columns: Mapping[str, Any]) -> None:
        """Do the same for pools of these names, where none are made: that takes half of the time.

        A column, by the name of :class:`Pool`'s field, has a value for each name, or is one value for all. What has no
        column is as in a new pool.
        """
        texts = (parts.for_each(columns, key, len(names)) for key in parts.TEXTS[1:])
        figures = np.empty((len(parts.FIGURES), len(names)))
        flags = np.empty((len(parts.FLAGS), len(names)), dtype=np.bool_)
        for block, known in ((figures, parts.FIGURES), (flags, parts.FLAGS)):
            for place, key in enumerate(known):
                block[place] = columns.get(key, parts.DEFAULTS[key])
        self._put(names, *texts, figures=figures, flags=flags)

    def sharing(self, index: int) -> list[str]:
        """Return the names of the pools on the storage of this one, with its own; alone where it shares none."""
        storage_id = self._storage_ids[index]
        if storage_id is None:
            return [self.names[index]]
        storage = self._by_storage[storage_id]
        if storage.sorted_names is None:
            storage.sorted_names = sorted(storage.names)
        return storage.sorted_names.copy()

    def backends_on(self, storage_id: str) -> Collection[str]:
        """Return the backends that have pools on a storage."""
        storage = self._by_storage.get(storage_id)
        return () if storage is None else storage.backends.keys()

    def claim(self, index: int, size_gb: float, physical_gb: float) -> None:
        """Count a claim: allocated and in-flight grow. Negative sizes take a claim back that did not come about."""
        pool = self._figures[:, index]
        pool[AT["allocated"]] += size_gb
        pool[AT["claimed"]] += size_gb
        pool[AT["claimed_physical"]] += physical_gb
        parts.sum_up(pool)
        self._changed([index])
        rows = self._rows_sharing(index)
        if rows is None:
            return
        others = self._figures[:, rows]
        whole = np.isnan(others[AT["storage_free"]])
        others[AT["shared_allocated"], whole] += size_gb
        others[AT["shared_in_flight"], whole] += size_gb
        others[AT["shared_in_flight_physical"]] += physical_gb
        parts.sum_up(others)
        self._figures[:, rows] = others
        self._changed(rows.tolist())

    def set_volumes(self, numbers: Mapping[str, int]) -> None:
        """Take over how many volumes these pools have; names that are not here are left out."""
        known = {self._index[name]: number for name, number in numbers.items() if name in self._index}
        self._figures[AT["volumes"], list(known)] = list(known.values())
        self._changed(known)

    def remove(self, name: str) -> None:
        """Forget a pool. No effect if there is none of that name."""
        index = self._index.get(name)
        if index is None:
            return
        self._leave_storage(index)
        moved = self._storage_ids[-1]
        self._drop(index)
        if moved is not None:
            self._by_storage[moved].moved()
        self._changed([index], [index])

    def snapshot(self) -> Self:
        """Return a copy that later changes do not touch, at the price of copying the columns."""
        copy = self.__class__.__new__(self.__class__)
        copy.names, copy.zones = self.names.copy(), self.zones.copy()
        copy.capabilities, copy._storage_ids = self.capabilities.copy(), self._storage_ids.copy()
        copy._index = self._index.copy()
        copy._by_storage = {storage: Storage(each.names) for storage, each in self._by_storage.items()}
        copy._zone_codes, copy._backend_codes = self._zone_codes.copy(), self._backend_codes.copy()
        copy._figures, copy._flags, copy._codes = self._figures.copy(), self._flags.copy(), self._codes.copy()
        return copy

    def take(self, rows: Rows) -> Self:
        """Return a table of some of the rows, as they are now, to be read; each may be taken once."""
        part = self.__class__.__new__(self.__class__)
        places = rows.tolist()
        part.names = [self.names[row] for row in places]
        part.zones = [self.zones[row] for row in places]
        part.capabilities = [self.capabilities[row] for row in places]
        part._storage_ids = [self._storage_ids[row] for row in places]
        part._index = {name: place for place, name in enumerate(part.names)}
        # These have more in them than the part, which nobody can tell by reading it.
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
        where, added = self._places(names)
        others = added + self._move_storages(where, storage_ids)
        others += self._replace_capabilities(where, capabilities)
        zone_codes = self._codes_of_zones(zones)
        self._count_again()
        parts.sum_up(figures)
        moved = self._codes[AT["zone_code"], where] != zone_codes
        if moved.any():
            parts.replace(self.zones, where, zones)
        figures_differ = (self._figures[:, where].view(np.uint64) != figures.view(np.uint64)).any(axis=0)
        traits_differ = (self._flags[:, where] != flags).any(axis=0) | moved
        self._figures[:, where] = figures
        self._flags[:, where] = flags
        self._codes[AT["zone_code"], where] = zone_codes
        traits_changed = [*others, *parts.chosen(where, traits_differ)]
        self._changed(itertools.chain(parts.chosen(where, figures_differ), traits_changed), traits_changed)

    def _places(self, names: Sequence[str]) -> tuple[Rows | slice, list[int]]:
        """Return what selects the rows of these pools, and which of them were added for that."""
        first = self._index.get(names[0])
        if first is not None and self.names[first : first + len(names)] == list(names):
            return slice(first, first + len(names)), []
        added = [self._append(name) for name in names if name not in self._index]
        rows = np.fromiter(map(self._index.__getitem__, names), dtype=np.intp, count=len(names))
        return parts.selection(rows), added

    def _move_storages(self, where: Rows | slice, storage_ids: Sequence[str | None]) -> list[int]:
        """Take over the storages of these rows, and return the rows that were on others."""
        if parts.selected(self._storage_ids, where) == list(storage_ids):
            return []
        moved = []
        for place, new in zip(parts.selected(range(len(self)), where), storage_ids, strict=True):
            if self._storage_ids[place] != new:
                self._leave_storage(place)
                self._join_storage(place, new)
                moved.append(place)
        return moved

    def _replace_capabilities(self, where: Rows | slice, capabilities: Sequence[Mapping[str, Any]]) -> list[int]:
        """Take over the capabilities of these rows, and return the rows that had others."""
        before = parts.selected(self.capabilities, where)
        if all(map(operator.is_, before, capabilities)):
            return []
        parts.replace(self.capabilities, where, capabilities)
        # Pools of a kind share their capabilities, and each pair of these is compared once.
        ids = zip(map(id, before), map(id, capabilities), strict=True)
        pairs = dict(zip(ids, zip(before, capabilities, strict=True), strict=True))
        differ = {pair for pair, (old, new) in pairs.items() if old is not new and not same(old, new)}
        if not differ:
            return []
        rows = parts.selected(range(len(self)), where)
        found = zip(rows, map(id, before), map(id, capabilities), strict=True)
        return [row for row, old, new in found if (old, new) in differ]

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
            self._by_storage.setdefault(storage_id, Storage()).add(self.names[index])

    def _leave_storage(self, index: int) -> None:
        storage_id = self._storage_ids[index]
        if storage_id is None:
            return
        storage = self._by_storage[storage_id]
        storage.discard(self.names[index])
        self._storage_ids[index] = None
        if not storage.names:
            del self._by_storage[storage_id]

    def _rows_sharing(self, index: int) -> Rows | None:
        """Return the rows of the other pools on the storage of this one; None where there are none."""
        storage_id = self._storage_ids[index]
        if storage_id is None:
            return None
        storage = self._by_storage[storage_id]
        if len(storage.names) == 1:
            return None
        if storage.rows is None:
            storage.rows = np.fromiter((self._index[name] for name in storage.names), dtype=np.intp)
        others: Rows = storage.rows[storage.rows != index]
        return others

    def _changed(self, rows: Iterable[int], traits_of: Sequence[int] = ()) -> None:
        """Note that figures or traits of these rows have changed, traits of some of them."""
        self._changes.note(rows, len(self))
        if traits_of:
            self._trait_changes.note(traits_of, len(self))


def _itself(value: Hashable) -> Hashable:
    return value
