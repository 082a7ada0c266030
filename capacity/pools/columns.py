# SPDX-License-Identifier: Apache-2.0
"""The columns of a table of pools, and the methods that read them."""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.capacity import elementwise
from tonnage.capacity.pools.pool import Pool, backend_of, stable_hash

#: The fields of a pool by their storage in the table: a block of floats, a block of booleans, and lists. ``POSITION``
#: maps each field to its row in its block.
FIGURES = tuple(f.name for f in fields(Pool) if f.type is float)
FLAGS = tuple(f.name for f in fields(Pool) if f.type is bool)
_CODES = ("zone_code", "backend_code", "name_hash")
_NUMBERS = (*FIGURES, *FLAGS)
POSITION = {name: position for names in (FIGURES, FLAGS, _CODES) for position, name in enumerate(names)}
TEXTS = ("name", "availability_zone", "storage_id", "capabilities")
_NO_CAPABILITIES: Mapping[str, Any] = MappingProxyType({})
DEFAULTS = {f.name: f.default for f in fields(Pool)} | {"capabilities": {}}
figures_of = operator.attrgetter(*FIGURES)
flags_of = operator.attrgetter(*FLAGS)
texts_of = operator.attrgetter(*TEXTS)

#: A function of figures and flags, of one pool or of a table, like those of :mod:`tonnage.capacity.arithmetic`.
Formula: TypeAlias = Callable[[Any], elementwise.Floats]

T = TypeVar("T")
ScalarT = TypeVar("ScalarT", bound=np.generic)
Rows = npt.NDArray[np.intp]

#: Figures and flags of one row: a tuple with named values, the type that is fastest to create.
_RowValues: type[tuple[Any, ...]] = type(
    "_RowValues", (tuple,), {name: property(operator.itemgetter(position)) for position, name in enumerate(_NUMBERS)}
)


class _Column(Generic[ScalarT]):
    """A read-only column of the table, with the rows in use.

    The table caches it as an attribute of the same name until the number of rows changes.
    """

    def __init__(self, block: str) -> None:
        self._block = block

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: "Columns", owner: type) -> npt.NDArray[ScalarT]:
        column: npt.NDArray[ScalarT] = getattr(table, self._block)[POSITION[self._name], : len(table._names)]
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
    """Pools as numpy columns: row *i* of every column belongs to the pool ``names[i]``."""

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
    responsive = _Flag()
    expired = _Flag()
    #: Number of the availability zone within this table, see :meth:`in_zone`.
    zone_code = _Code()
    #: Number of the backend within this table, see :meth:`on_backends`.
    backend_code = _Code()
    #: :func:`stable_hash` of the name: an order that depends on neither rows nor processes.
    name_hash = _Code()

    def __init__(self) -> None:
        self._names: list[str] = []
        self._zones: list[str] = []
        self._capabilities: list[Mapping[str, Any]] = []
        self._storage_ids: list[str | None] = []
        self._index: dict[str, int] = {}
        self._zone_codes: dict[str, int] = {}
        self._backend_codes: dict[str, int] = {}
        self._figures = np.empty((len(FIGURES), 16))
        self._flags = np.empty((len(FLAGS), 16), dtype=np.bool_)
        self._codes = np.empty((len(_CODES), 16), dtype=np.uint64)

    # Tuples, because a plug-in could change a list. Each is cached until a change.

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The full names of the pools."""
        return tuple(self._names)

    @functools.cached_property
    def zones(self) -> tuple[str, ...]:
        """The availability zones of the pools."""
        return tuple(self._zones)

    @functools.cached_property
    def capabilities(self) -> tuple[Mapping[str, Any], ...]:
        """The reported fields of the pools that are not figures."""
        return tuple(self._capabilities)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[Pool]:
        return (self.row(i) for i in range(len(self)))

    def index(self, name: str) -> int | None:
        """Return the row of the pool with that name, or None."""
        return self._index.get(name)

    def in_zone(self, zone: str) -> npt.NDArray[np.bool_]:
        """Return a mask of the pools in that availability zone."""
        code = self._zone_codes.get(zone)
        if code is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.equal(self.zone_code, np.uint64(code))

    def on_backends(self, backends: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Return a mask of the pools on any of these backends."""
        codes = [self._backend_codes[name] for name in backends if name in self._backend_codes]
        return np.isin(self.backend_code, np.array(codes, dtype=np.uint64))

    def row_values(self, row: int) -> Any:
        """Return the figures and flags of one row, as attributes."""
        return _RowValues(self._figures[:, row].tolist() + self._flags[:, row].tolist())

    def row(self, index: int) -> Pool:
        """Return one row as a :class:`Pool`."""
        figures: dict[str, Any] = dict(zip(FIGURES, self._figures[:, index].tolist(), strict=True))
        figures.update(zip(FLAGS, self._flags[:, index].tolist(), strict=True))
        return Pool(
            name=self._names[index],
            storage_id=self._storage_ids[index],
            availability_zone=self._zones[index],
            capabilities=self._capabilities[index],
            **figures,
        )

    def get(self, name: str) -> Pool | None:
        """Return the pool with that full name, or None."""
        index = self._index.get(name)
        return None if index is None else self.row(index)

    def differing(self, other: "Columns") -> npt.NDArray[np.bool_]:
        """Return a mask of the rows whose figures or flags differ from those of a table of the same length."""
        rows = slice(len(self))
        # Compared as bits, so that nan equals itself.
        own_bits, other_bits = (table._figures[:, rows].view(np.uint64) for table in (self, other))
        differ: npt.NDArray[np.bool_] = (own_bits != other_bits).any(axis=0)
        differ |= (self._flags[:, rows] != other._flags[:, rows]).any(axis=0)
        return differ

    def _append(self, names: Sequence[str]) -> range:
        """Add rows for new pools, each name once, and return their indexes."""
        first = len(self._names)
        added = range(first, first + len(names))
        while added.stop > self._figures.shape[1]:
            self._figures = np.concatenate([self._figures, np.empty_like(self._figures)], axis=1)
            self._flags = np.concatenate([self._flags, np.empty_like(self._flags)], axis=1)
            self._codes = np.concatenate([self._codes, np.empty_like(self._codes)], axis=1)
        self._names += names
        self._zones += [""] * len(names)
        self._capabilities += [_NO_CAPABILITIES] * len(names)
        self._storage_ids += [None] * len(names)
        self._index.update(zip(names, added, strict=True))
        rows = slice(added.start, added.stop)
        codes = self._backend_codes
        backends = [codes.setdefault(backend_of(name), len(codes)) for name in names]
        self._codes[POSITION["zone_code"], rows] = self._zone_codes.setdefault("", len(self._zone_codes))
        self._codes[POSITION["name_hash"], rows] = np.fromiter(map(stable_hash, names), dtype=np.uint64)
        self._codes[POSITION["backend_code"], rows] = backends
        return added

    def _drop(self, index: int) -> None:
        """Remove a row. The last row moves to its place."""
        last = len(self._names) - 1
        del self._index[self._names[index]]
        if index != last:
            for block in (self._figures, self._flags, self._codes):
                block[:, index] = block[:, last]
            self._index[self._names[last]] = index
        columns: tuple[list[Any], ...] = (self._names, self._zones, self._capabilities, self._storage_ids)
        for column in columns:
            column[index] = column[last]
            del column[last]
        self._drop_stale_columns()

    def _drop_stale_columns(self) -> None:
        """Drop the cached columns if the number of rows has changed."""
        total = self.__dict__.get("total")
        if total is None or len(total) != len(self._names):
            self._drop_cached(*POSITION, "names", "zones", "capabilities")

    def _drop_cached(self, *columns: str) -> None:
        """Drop cached columns, which are made again when they are read."""
        for column in columns:
            self.__dict__.pop(column, None)


def column_values(columns: Mapping[str, Any], key: str, count: int) -> Sequence[Any]:
    """Return the column of that key with ``count`` values; a single value is repeated."""
    column = columns.get(key, DEFAULTS[key])
    return column if isinstance(column, (list, tuple)) else [column] * count


def row_index(rows: Rows) -> Rows | slice:
    """Return an index of these rows: a slice, which is faster, if they are consecutive."""
    first, count = int(rows[0]), len(rows)
    return slice(first, first + count) if np.array_equal(rows, np.arange(first, first + count)) else rows


def take_values(column: Sequence[T], where: Rows | slice) -> list[T]:
    """Return a column's values in these rows."""
    return list(column[where]) if isinstance(where, slice) else [column[row] for row in where.tolist()]


def matching_rows(where: Rows | slice, mask: npt.NDArray[np.bool_]) -> list[int]:
    """Return the indexed rows for which the mask is true."""
    positions = np.flatnonzero(mask)
    rows: list[int] = (where[positions] if isinstance(where, np.ndarray) else positions + where.start).tolist()
    return rows


def set_values(column: list[T], where: Rows | slice, values: Sequence[T]) -> None:
    """Set a column's values in these rows."""
    if isinstance(where, slice):
        column[where] = values
    else:
        for row, value in zip(where.tolist(), values, strict=True):
            column[row] = value


def update_totals(figures: npt.NDArray[np.float64]) -> None:
    """Compute the figures of a pool, or of a block of pools, that follow from its others; see :class:`Pool`."""
    own, shared = figures[POSITION["claimed_physical"]], figures[POSITION["shared_in_flight_physical"]]
    storage_free = figures[POSITION["storage_free"]]
    figures[POSITION["in_flight"]] = figures[POSITION["claimed"]] + figures[POSITION["shared_in_flight"]]
    figures[POSITION["others"]] = figures[POSITION["shared_allocated"]] + figures[POSITION["external"]]
    # A pool without a reported free capacity of its storage has nan there, which is not equal to itself.
    is_whole_storage = storage_free != storage_free
    figures[POSITION["in_flight_physical"]] = own + shared * is_whole_storage
    figures[POSITION["storage_room"]] = elementwise.where(is_whole_storage, np.inf, storage_free - own - shared)
