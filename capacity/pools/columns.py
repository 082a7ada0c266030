# SPDX-License-Identifier: Apache-2.0
"""Pools as columns of numbers and lists: what a table of pools has, and how it is read."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity import elementwise
from tonnage.capacity.names import backend_of, stable_hash
from tonnage.capacity.pools.pool import Pool

#: The fields of a pool, by how the table has them: in a block of floats, one of booleans, and as lists. ``AT`` is the
#: place of each in its block.
FIGURES = tuple(f.name for f in fields(Pool) if f.type is float)
FLAGS = tuple(f.name for f in fields(Pool) if f.type is bool)
_CODES = ("zone_code", "backend_code", "name_hash")
_NUMBERS = (*FIGURES, *FLAGS)
AT = {name: place for names in (FIGURES, FLAGS, _CODES) for place, name in enumerate(names)}
TEXTS = ("name", "availability_zone", "storage_id", "capabilities")
DEFAULTS = {f.name: f.default for f in fields(Pool)} | {"capabilities": {}}
figures_of = operator.attrgetter(*FIGURES)
flags_of = operator.attrgetter(*FLAGS)
texts_of = operator.attrgetter(*TEXTS)

#: A function of figures and flags, of one pool or of a table, like those of :mod:`tonnage.capacity.arithmetic`.
Formula: TypeAlias = Callable[[Any], elementwise.Floats]

T = TypeVar("T")
ScalarT = TypeVar("ScalarT", bound=np.generic)
Rows = npt.NDArray[np.intp]

#: Up to so many rows are worked out one by one.
_FEW = 3

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

    def __get__(self, table: "Columns", owner: type) -> npt.NDArray[ScalarT]:
        column: npt.NDArray[ScalarT] = getattr(table, self._block)[AT[self._name], : len(table.names)]
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


class Columns:
    """All pools as numpy columns: row *i* of every column belongs to ``names[i]``."""

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
    expired = _Flag()
    #: Number of the availability zone in this table; :meth:`in_zone` compares it.
    zone_code = _Code()
    #: Number of the backend in this table; :meth:`on_backends` compares it.
    backend_code = _Code()
    #: :func:`stable_hash` of the name: an order that neither rows nor processes decide.
    name_hash = _Code()

    def __init__(self) -> None:
        self.names: list[str] = []
        self.zones: list[str] = []
        self.capabilities: list[Mapping[str, Any]] = []
        self._storage_ids: list[str | None] = []
        self._index: dict[str, int] = {}
        self._zone_codes: dict[str, int] = {}
        self._backend_codes: dict[str, int] = {}
        self._figures = np.empty((len(FIGURES), 16))
        self._flags = np.empty((len(FLAGS), 16), dtype=np.bool_)
        self._codes = np.empty((len(_CODES), 16), dtype=np.uint64)

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
        figures: dict[str, Any] = dict(zip(FIGURES, self._figures[:, index].tolist(), strict=True))
        figures.update(zip(FLAGS, self._flags[:, index].tolist(), strict=True))
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

    def differing(self, other: "Columns") -> npt.NDArray[np.bool_]:
        """Tell of each row whether it has other figures or flags than that row of another table, which is as long."""
        rows = slice(len(self))
        # As bits, by which nan equals itself.
        mine, others = (table._figures[:, rows].view(np.uint64) for table in (self, other))
        differ: npt.NDArray[np.bool_] = (mine != others).any(axis=0)
        differ |= (self._flags[:, rows] != other._flags[:, rows]).any(axis=0)
        return differ

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
        self._codes[AT["zone_code"], index] = self._zone_codes.setdefault("", len(self._zone_codes))
        self._codes[AT["name_hash"], index] = stable_hash(name)
        backend = backend_of(name)
        self._codes[AT["backend_code"], index] = self._backend_codes.setdefault(backend, len(self._backend_codes))
        return index

    def _drop(self, index: int) -> None:
        """Take a row out, whose place the last one takes."""
        last = len(self.names) - 1
        del self._index[self.names[index]]
        if index != last:
            for block in (self._figures, self._flags, self._codes):
                block[:, index] = block[:, last]
            self._index[self.names[last]] = index
        columns: tuple[list[Any], ...] = (self.names, self.zones, self.capabilities, self._storage_ids)
        for column in columns:
            column[index] = column[last]
            del column[last]
        self._count_again()

    def _count_again(self) -> None:
        """Forget the columns if they are of other rows than those now in use."""
        total = self.__dict__.get("total")
        if total is None or len(total) != len(self.names):
            for name in AT:
                self.__dict__.pop(name, None)


def for_each(columns: Mapping[str, Any], key: str, count: int) -> Sequence[Any]:
    """Return the column of that key, or so many times the one value that it has."""
    column = columns.get(key, DEFAULTS[key])
    return column if isinstance(column, (list, tuple)) else [column] * count


def selection(rows: Rows) -> Rows | slice:
    """Return what selects these rows: a slice, which is faster, where each comes next after the one before."""
    first, count = int(rows[0]), len(rows)
    return slice(first, first + count) if np.array_equal(rows, np.arange(first, first + count)) else rows


def selected(column: Sequence[T], where: Rows | slice) -> list[T]:
    """Return the values of these rows."""
    return list(column[where]) if isinstance(where, slice) else [column[row] for row in where.tolist()]


def chosen(where: Rows | slice, wanted: npt.NDArray[np.bool_]) -> list[int]:
    """Return those of the selected rows that are wanted."""
    places = np.flatnonzero(wanted)
    rows: list[int] = (where[places] if isinstance(where, np.ndarray) else places + where.start).tolist()
    return rows


def replace(column: list[T], where: Rows | slice, values: Sequence[T]) -> None:
    """Put values in these rows."""
    if isinstance(where, slice):
        column[where] = values
    else:
        for row, value in zip(where.tolist(), values, strict=True):
            column[row] = value


def sum_up(figures: npt.NDArray[np.float64]) -> None:
    """Work out what counts against the figures of a pool, or of each in a block; see :class:`Pool`."""
    own, shared = figures[AT["claimed_physical"]], figures[AT["shared_in_flight_physical"]]
    storage_free = figures[AT["storage_free"]]
    figures[AT["in_flight"]] = figures[AT["claimed"]] + figures[AT["shared_in_flight"]]
    figures[AT["others"]] = figures[AT["shared_allocated"]] + figures[AT["external"]]
    # Where no free capacity of the storage is reported it is nan, which equals nothing.
    whole = storage_free != storage_free
    figures[AT["in_flight_physical"]] = own + shared * whole
    figures[AT["storage_room"]] = elementwise.where(whole, np.inf, storage_free - own - shared)
