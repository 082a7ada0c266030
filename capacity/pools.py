# SPDX-License-Identifier: Apache-2.0
"""Pools, one at a time and as a table of columns."""

import functools
import itertools
import operator
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from typing import Any
from typing import Generic
from typing import Self
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity import elementwise
from tonnage.capacity.capabilities import Values
from tonnage.capacity.capabilities import same
from tonnage.capacity.derived import ChangedRows
from tonnage.capacity.derived import Column
from tonnage.capacity.derived import Derived
from tonnage.capacity.names import backend_of
from tonnage.capacity.names import stable_hash
from tonnage.capacity.standing import Formula
from tonnage.capacity.standing import Kind
from tonnage.capacity.standing import Standing
from tonnage.capacity.standing import Standings
from tonnage.capacity.storages import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool as decisions see it. Capacities are GiB, ``nan`` unknown, ``inf`` infinite.

    The numbers are the pool's *figures*, which every claim and every report may change. All the rest, its *traits*,
    change seldom: name, flags, zone, capabilities.

    ``claimed`` and ``claimed_physical`` are what this pool's own claims have in flight. Pools of one ``storage_id``
    draw on the same storage: the ``shared`` figures are what the claims of the others add. A pool that reports
    ``storage_free`` is a part carved out of it, which shares the physical room alone. ``external`` is what volumes have
    that Tonnage did not place. ``up`` is false once its backend has been silent for too long. ``volumes`` is how many
    volumes there are; 0 unless a weigher wants to know.

    ``in_flight``, ``in_flight_physical``, ``others`` and ``storage_room`` are what counts against the figures, see
    :class:`tonnage.capacity.arithmetic.Figures`; the table works them out.
    """

    name: str
    total: float
    free: float
    provisioned: float = float("nan")
    allocated: float = 0.0
    claimed: float = 0.0
    claimed_physical: float = 0.0
    shared_allocated: float = 0.0
    shared_in_flight: float = 0.0
    shared_in_flight_physical: float = 0.0
    external: float = 0.0
    in_flight: float = 0.0
    in_flight_physical: float = 0.0
    others: float = 0.0
    storage_free: float = float("nan")
    storage_room: float = float("inf")
    volumes: float = 0.0
    reserved_percentage: float = 0.0
    ratio: float = 1.0
    thin: bool = False
    thick: bool = False
    up: bool = True
    enabled: bool = True
    storage_id: str | None = None
    availability_zone: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @property
    def backend(self) -> str:
        """Name of the backend, ``host@backend``."""
        return backend_of(self.name)


_FIGURES = tuple(f.name for f in fields(Pool) if f.type is float)
_FLAGS = tuple(f.name for f in fields(Pool) if f.type is bool)
_CODES = ("zone_code", "backend_code", "name_hash")
_NUMBERS = (*_FIGURES, *_FLAGS)
_AT = {name: place for names in (_FIGURES, _FLAGS, _CODES) for place, name in enumerate(names)}
_TEXTS = ("name", "availability_zone", "storage_id", "capabilities")
_DEFAULTS = {f.name: f.default for f in fields(Pool)} | {"capabilities": {}}
_figures_of = operator.attrgetter(*_FIGURES)
_flags_of = operator.attrgetter(*_FLAGS)
_texts_of = operator.attrgetter(*_TEXTS)

T = TypeVar("T")
ScalarT = TypeVar("ScalarT", bound=np.generic)
Rows = npt.NDArray[np.intp]


#: Up to so many rows are worked out one by one.
_FEW = 3


def _for_each(columns: Mapping[str, Any], key: str, count: int) -> Sequence[Any]:
    """Return the column of that key, or so many times the one value that it has."""
    column = columns.get(key, _DEFAULTS[key])
    return column if isinstance(column, (list, tuple)) else [column] * count


#: Figures and flags of one row: a tuple, as nothing is made faster, with names for what is in it.
_One: type[tuple[Any, ...]] = type(
    "_One", (tuple,), {name: property(operator.itemgetter(place)) for place, name in enumerate(_NUMBERS)}
)


class _Column(Generic[ScalarT]):
    """A column of the table by its name, read-only: the rows in use.

    The table keeps it as an attribute of that name until the rows in use are others.
    """

    def __init__(self, block: str) -> None:
        self._block = block

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: "PoolTable", owner: type) -> npt.NDArray[ScalarT]:
        column: npt.NDArray[ScalarT] = getattr(table, self._block)[_AT[self._name], : len(table.names)]
        column.flags.writeable = False
        table.__dict__[self._name] = column
        return column


class _Figure(_Column[np.float64]):
    def __init__(self) -> None:
        super().__init__("_figures")


class _Flag(_Column[np.bool_]):
    def __init__(self) -> None:
        super().__init__("_flags")


class _Code(_Column[np.uint64]):
    def __init__(self) -> None:
        super().__init__("_codes")


class PoolTable:
    """All pools as numpy columns: row *i* of every column belongs to ``names[i]``.

    Filters and weighers read the columns; only the scheduler's host manager writes, through the methods below. Rows
    keep their place until one is removed, which moves the last row into the gap. Changes are not thread-safe: the table
    belongs to the decision thread.
    """

    total = _Figure()
    free = _Figure()
    provisioned = _Figure()
    allocated = _Figure()
    claimed = _Figure()
    claimed_physical = _Figure()
    shared_allocated = _Figure()
    shared_in_flight = _Figure()
    shared_in_flight_physical = _Figure()
    external = _Figure()
    in_flight = _Figure()
    in_flight_physical = _Figure()
    others = _Figure()
    storage_free = _Figure()
    storage_room = _Figure()
    volumes = _Figure()
    reserved_percentage = _Figure()
    ratio = _Figure()
    thin = _Flag()
    thick = _Flag()
    up = _Flag()
    enabled = _Flag()
    #: Number of the availability zone in this table; :meth:`in_zone` compares it.
    zone_code = _Code()
    #: Number of the backend in this table; :meth:`on_backends` compares it.
    backend_code = _Code()
    #: :func:`stable_hash` of the name: an order that neither rows nor processes decide.
    name_hash = _Code()

    def __init__(self, pools: Iterable[Pool] = ()) -> None:
        self.names: list[str] = []
        self.zones: list[str] = []
        self.capabilities: list[Mapping[str, Any]] = []
        self._storage_ids: list[str | None] = []
        self._index: dict[str, int] = {}
        self._by_storage: dict[str, Storage] = {}
        self._zone_codes: dict[str, int] = {}
        self._backend_codes: dict[str, int] = {}
        self._figures = np.empty((len(_FIGURES), 16))
        self._flags = np.empty((len(_FLAGS), 16), dtype=np.bool_)
        self._codes = np.empty((len(_CODES), 16), dtype=np.uint64)
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
    def _standings(self) -> Standings:
        return Standings(self._changes, self._trait_changes)

    @functools.cached_property
    def _values(self) -> dict[tuple[str, ...], Values]:
        return {}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[Pool]:
        return (self.row(i) for i in range(len(self)))

    def index(self, name: str) -> int | None:
        """Return the row of a pool, None if there is none of that name."""
        return self._index.get(name)

    def in_zone(self, zone: str) -> npt.NDArray[np.bool_]:
        """Tell which pools are in that availability zone."""
        code = self._zone_codes.get(zone)
        if code is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.equal(self.zone_code, np.uint64(code))

    def on_backends(self, backends: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Tell which pools are on one of these backends."""
        codes = [self._backend_codes[name] for name in backends if name in self._backend_codes]
        return np.isin(self.backend_code, np.array(codes, dtype=np.uint64))

    def capability(self, *path: str) -> tuple[npt.NDArray[np.intp], Sequence[object]]:
        """Return what the pools report as one capability, the keys of nested ones one after the other.

        It comes as a column of numbers and the value that each number stands for, :data:`MISSING` where there is none.
        Every distinct value is there once, so that whoever judges values judges none twice.
        """
        values = self._values.get(path)
        if values is None or len(values.values) > 2 * len(self) + 1024:
            values = self._values[path] = Values(path)
        return self._by_traits.column(self, values, lambda pools: values.codes(pools.capabilities)), values.values

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

    def standing(self, kind: Kind) -> Standing:
        """Return how pools stand for a kind of request. What a formula raises is raised."""
        return self._standings.of(self, kind)

    def evaluate(self, formula: Formula) -> npt.NDArray[np.float64]:
        """Return what a formula comes to for each row.

        It is given the table or, where that is faster as there are few rows, one row at a time.
        """
        if len(self) > _FEW:
            return np.asarray(formula(self), dtype=np.float64)
        return np.array([formula(self.one(row)) for row in range(len(self))], dtype=np.float64)

    def one(self, row: int) -> Any:
        """Return figures and flags of one row, by their names."""
        return _One(self._figures[:, row].tolist() + self._flags[:, row].tolist())

    def row(self, index: int) -> Pool:
        """Return one row as a :class:`Pool`."""
        figures: dict[str, Any] = dict(zip(_FIGURES, self._figures[:, index].tolist(), strict=True))
        figures.update(zip(_FLAGS, self._flags[:, index].tolist(), strict=True))
        return Pool(
            name=self.names[index],
            storage_id=self._storage_ids[index],
            availability_zone=self.zones[index],
            capabilities=self.capabilities[index],
            **figures,
        )

    def get(self, name: str) -> Pool | None:
        """Return the pool of that full name, or None."""
        index = self._index.get(name)
        return None if index is None else self.row(index)

    def put(self, pool: Pool) -> None:
        """Add a pool, or replace the row of that name."""
        self.put_all([pool])

    def put_all(self, pools: Iterable[Pool]) -> None:
        """Add pools, or replace the rows of their names."""
        pools = list(pools)
        if pools:
            texts = zip(*map(_texts_of, pools), strict=True)
            figures = np.array([_figures_of(pool) for pool in pools], dtype=np.float64).T
            flags = np.array([_flags_of(pool) for pool in pools], dtype=np.bool_).T
            self._put(*texts, figures=figures, flags=flags)

    def put_columns(self, names: Sequence[str], columns: Mapping[str, Any]) -> None:
        """Do the same for pools of these names, where none are made: that takes half of the time.

        A column, by the name of :class:`Pool`'s field, has a value for each name, or is one value for all. What has no
        column is as in a new pool.
        """
        texts = (_for_each(columns, key, len(names)) for key in _TEXTS[1:])
        figures = np.empty((len(_FIGURES), len(names)))
        flags = np.empty((len(_FLAGS), len(names)), dtype=np.bool_)
        for block, known in ((figures, _FIGURES), (flags, _FLAGS)):
            for place, key in enumerate(known):
                block[place] = columns.get(key, _DEFAULTS[key])
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
        pool[_AT["allocated"]] += size_gb
        pool[_AT["claimed"]] += size_gb
        pool[_AT["claimed_physical"]] += physical_gb
        _sum_up(pool)
        self._changed([index])
        rows = self._rows_sharing(index)
        if rows is None:
            return
        others = self._figures[:, rows]
        whole = np.isnan(others[_AT["storage_free"]])
        others[_AT["shared_allocated"], whole] += size_gb
        others[_AT["shared_in_flight"], whole] += size_gb
        others[_AT["shared_in_flight_physical"]] += physical_gb
        _sum_up(others)
        self._figures[:, rows] = others
        self._changed(rows.tolist())

    def set_volumes(self, numbers: Mapping[str, int]) -> None:
        """Take over how many volumes these pools have; names that are not here are left out."""
        known = {self._index[name]: number for name, number in numbers.items() if name in self._index}
        self._figures[_AT["volumes"], list(known)] = list(known.values())
        self._changed(known)

    def remove(self, name: str) -> None:
        """Forget a pool. No effect if there is none of that name."""
        index = self._index.pop(name, None)
        if index is None:
            return
        self._leave_storage(index)
        last = len(self.names) - 1
        if index != last:
            self._figures[:, index] = self._figures[:, last]
            self._flags[:, index] = self._flags[:, last]
            self._codes[:, index] = self._codes[:, last]
            self._index[self.names[last]] = index
            moved = self._storage_ids[last]
            if moved is not None:
                self._by_storage[moved].moved()
        columns: tuple[list[Any], ...] = (self.names, self.zones, self.capabilities, self._storage_ids)
        for column in columns:
            column[index] = column[last]
            del column[last]
        self._count_again()
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
        _sum_up(figures)
        moved = self._codes[_AT["zone_code"], where] != zone_codes
        if moved.any():
            _replace(self.zones, where, zones)
        figures_differ = (self._figures[:, where].view(np.uint64) != figures.view(np.uint64)).any(axis=0)
        traits_differ = (self._flags[:, where] != flags).any(axis=0) | moved
        self._figures[:, where] = figures
        self._flags[:, where] = flags
        self._codes[_AT["zone_code"], where] = zone_codes
        traits_changed = [*others, *_rows(where, traits_differ)]
        self._changed(itertools.chain(_rows(where, figures_differ), traits_changed), traits_changed)

    def _places(self, names: Sequence[str]) -> tuple[Rows | slice, list[int]]:
        """Return what selects the rows of these pools, and which of them were added for that."""
        first = self._index.get(names[0])
        if first is not None and self.names[first : first + len(names)] == list(names):
            return slice(first, first + len(names)), []
        added = [self._append(name) for name in names if name not in self._index]
        rows = np.fromiter(map(self._index.__getitem__, names), dtype=np.intp, count=len(names))
        return _selection(rows), added

    def _move_storages(self, where: Rows | slice, storage_ids: Sequence[str | None]) -> list[int]:
        """Take over the storages of these rows, and return the rows that were on others."""
        if _selected(self._storage_ids, where) == list(storage_ids):
            return []
        moved = []
        for place, new in zip(_selected(range(len(self)), where), storage_ids, strict=True):
            if self._storage_ids[place] != new:
                self._leave_storage(place)
                self._join_storage(place, new)
                moved.append(place)
        return moved

    def _replace_capabilities(self, where: Rows | slice, capabilities: Sequence[Mapping[str, Any]]) -> list[int]:
        """Take over the capabilities of these rows, and return the rows that had others."""
        before = _selected(self.capabilities, where)
        if all(map(operator.is_, before, capabilities)):
            return []
        _replace(self.capabilities, where, capabilities)
        # Pools of a kind share their capabilities, and each pair of these is compared once.
        ids = zip(map(id, before), map(id, capabilities), strict=True)
        pairs = dict(zip(ids, zip(before, capabilities, strict=True), strict=True))
        differ = {pair for pair, (old, new) in pairs.items() if old is not new and not same(old, new)}
        if not differ:
            return []
        rows = _selected(range(len(self)), where)
        found = zip(rows, map(id, before), map(id, capabilities), strict=True)
        return [row for row, old, new in found if (old, new) in differ]

    def _codes_of_zones(self, zones: Sequence[str]) -> npt.NDArray[np.uint64]:
        codes = self._zone_codes
        if zones.count(zones[0]) == len(zones):
            return np.full(len(zones), codes.setdefault(zones[0], len(codes)), dtype=np.uint64)
        for zone in dict.fromkeys(zones):
            codes.setdefault(zone, len(codes))
        return np.fromiter(map(codes.__getitem__, zones), dtype=np.uint64, count=len(zones))

    def _append(self, name: str) -> int:
        index = len(self.names)
        if index == self._figures.shape[1]:
            self._figures = np.concatenate([self._figures, np.empty_like(self._figures)], axis=1)
            self._flags = np.concatenate([self._flags, np.empty_like(self._flags)], axis=1)
            self._codes = np.concatenate([self._codes, np.empty_like(self._codes)], axis=1)
        self.names.append(name)
        self.zones.append("")
        self.capabilities.append({})
        self._storage_ids.append(None)
        self._index[name] = index
        self._codes[_AT["zone_code"], index] = self._zone_codes.setdefault("", len(self._zone_codes))
        self._codes[_AT["name_hash"], index] = stable_hash(name)
        backend = backend_of(name)
        self._codes[_AT["backend_code"], index] = self._backend_codes.setdefault(backend, len(self._backend_codes))
        return index

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

    def _count_again(self) -> None:
        """Forget the columns if they are of other rows than those now in use."""
        total = self.__dict__.get("total")
        if total is None or len(total) != len(self.names):
            for name in _AT:
                self.__dict__.pop(name, None)

    def _changed(self, rows: Iterable[int], traits_of: Sequence[int] = ()) -> None:
        """Note that figures or traits of these rows have changed, traits of some of them."""
        self._changes.note(rows, len(self))
        if traits_of:
            self._trait_changes.note(traits_of, len(self))


def _selection(rows: Rows) -> Rows | slice:
    """Return what selects these rows: a slice, which is faster, where each comes next after the one before."""
    first, count = int(rows[0]), len(rows)
    return slice(first, first + count) if np.array_equal(rows, np.arange(first, first + count)) else rows


def _selected(column: Sequence[T], where: Rows | slice) -> list[T]:
    """Return the values of these rows."""
    return list(column[where]) if isinstance(where, slice) else [column[row] for row in where.tolist()]


def _rows(where: Rows | slice, wanted: npt.NDArray[np.bool_]) -> list[int]:
    """Return those of the selected rows that are wanted."""
    places = np.flatnonzero(wanted)
    rows: list[int] = (where[places] if isinstance(where, np.ndarray) else places + where.start).tolist()
    return rows


def _replace(column: list[T], where: Rows | slice, values: Sequence[T]) -> None:
    """Put values in these rows."""
    if isinstance(where, slice):
        column[where] = values
    else:
        for row, value in zip(where.tolist(), values, strict=True):
            column[row] = value


def _sum_up(figures: npt.NDArray[np.float64]) -> None:
    """Work out what counts against the figures of a pool, or of each in a block; see :class:`Pool`."""
    own, shared = figures[_AT["claimed_physical"]], figures[_AT["shared_in_flight_physical"]]
    storage_free = figures[_AT["storage_free"]]
    figures[_AT["in_flight"]] = figures[_AT["claimed"]] + figures[_AT["shared_in_flight"]]
    figures[_AT["others"]] = figures[_AT["shared_allocated"]] + figures[_AT["external"]]
    # Where no free capacity of the storage is reported it is nan, which equals nothing.
    whole = storage_free != storage_free
    figures[_AT["in_flight_physical"]] = own + shared * whole
    figures[_AT["storage_room"]] = elementwise.where(whole, np.inf, storage_free - own - shared)
