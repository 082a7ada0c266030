# SPDX-License-Identifier: Apache-2.0
"""Pools, one at a time and as a table of columns."""

import hashlib
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

#: What ``max_over_subscription_ratio`` says where the ratio is to be worked out from the figures.
AUTO = "auto"

#: The largest over-subscription ratio, so that no limit leaves the range of floats.
MAX_RATIO = 1e6


def parse_ratio(value: object) -> float | str:
    """Return a configured over-subscription ratio: a number of 1 to a million, or ``auto``; else raise ValueError."""
    text = str(value).strip().lower()
    if text == AUTO:
        return AUTO
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 1 <= ratio <= MAX_RATIO:
        raise ValueError(f"{value!r} is neither a number of at least 1 (and at most {MAX_RATIO:.0f}) nor '{AUTO}'")
    return ratio


def pool_name(backend: str, pool: str) -> str:
    """Return the full name of a pool, ``host@backend#pool``."""
    return f"{backend}#{pool}"


def stable_hash(text: str) -> int:
    """Return 64 bits that depend on the text alone: the same in every process, unlike ``hash()``."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def backend_of(name: str) -> str:
    """Return the backend of a full pool name."""
    return name.rpartition("#")[0]


def short_name(name: str) -> str:
    """Return the pool's name within its backend, of a full pool name."""
    return name.rpartition("#")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool as decisions see it. Capacities are GiB, ``nan`` unknown, ``inf`` infinite.

    ``claimed`` and ``claimed_physical`` are what this pool's own claims have in flight. Pools of one ``storage_id``
    draw on the same storage: the ``shared`` figures are what the claims of the others add. A pool that reports
    ``storage_free`` is a part carved out of it, which shares the physical room alone. ``external`` is what volumes have
    that Tonnage did not place. ``up`` is false once its backend has been silent for too long.

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


_FLOATS = tuple(f.name for f in fields(Pool) if f.type is float)
_BOOLS = tuple(f.name for f in fields(Pool) if f.type is bool)
_CODES = ("zone_code", "backend_code", "name_hash")
_ZONE, _BACKEND, _HASH = range(len(_CODES))


class PoolTable:
    """All pools as numpy columns: row *i* of every column belongs to ``names[i]``.

    Filters and weighers read the columns; only the scheduler's host manager writes. Rows keep their place until one is
    removed, which moves the last row into the gap. Not thread-safe: it belongs to the decision thread.
    """

    total: npt.NDArray[np.float64]
    free: npt.NDArray[np.float64]
    provisioned: npt.NDArray[np.float64]
    allocated: npt.NDArray[np.float64]
    claimed: npt.NDArray[np.float64]
    claimed_physical: npt.NDArray[np.float64]
    shared_allocated: npt.NDArray[np.float64]
    shared_in_flight: npt.NDArray[np.float64]
    shared_in_flight_physical: npt.NDArray[np.float64]
    external: npt.NDArray[np.float64]
    in_flight: npt.NDArray[np.float64]
    in_flight_physical: npt.NDArray[np.float64]
    others: npt.NDArray[np.float64]
    storage_free: npt.NDArray[np.float64]
    storage_room: npt.NDArray[np.float64]
    reserved_percentage: npt.NDArray[np.float64]
    ratio: npt.NDArray[np.float64]
    thin: npt.NDArray[np.bool_]
    thick: npt.NDArray[np.bool_]
    up: npt.NDArray[np.bool_]
    enabled: npt.NDArray[np.bool_]
    #: Number of the availability zone in this table; :meth:`in_zone` compares it.
    zone_code: npt.NDArray[np.uint64]
    #: Number of the backend in this table; :meth:`on_backends` compares it.
    backend_code: npt.NDArray[np.uint64]
    #: :func:`stable_hash` of the name: an order that neither rows nor processes decide.
    name_hash: npt.NDArray[np.uint64]

    def __init__(self, pools: Iterable[Pool] = ()) -> None:
        self.names: list[str] = []
        self.zones: list[str] = []
        self.capabilities: list[Mapping[str, Any]] = []
        self._storage_ids: list[str | None] = []
        self._index: dict[str, int] = {}
        self._by_storage: dict[str, set[str]] = {}
        self._zone_codes: dict[str, int] = {}
        self._backend_codes: dict[str, int] = {}
        self._floats = np.empty((len(_FLOATS), 16))
        self._bools = np.empty((len(_BOOLS), 16), dtype=np.bool_)
        self._codes = np.empty((len(_CODES), 16), dtype=np.uint64)
        self._bind()
        self.put_all(pools)

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

    def row(self, index: int) -> Pool:
        """Return one row as a :class:`Pool`."""
        figures: dict[str, Any] = dict(zip(_FLOATS, self._floats[:, index].tolist(), strict=True))
        figures.update(zip(_BOOLS, self._bools[:, index].tolist(), strict=True))
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
        rows = []
        count = len(self.names)
        for pool in list(pools):
            index = self._index.get(pool.name)
            if index is None:
                index = self._append(pool.name)
            elif self._storage_ids[index] != pool.storage_id:
                self._leave_storage(index)
            self._floats[:, index] = [getattr(pool, name) for name in _FLOATS]
            self._bools[:, index] = [getattr(pool, name) for name in _BOOLS]
            self._codes[_ZONE, index] = self._zone_codes.setdefault(pool.availability_zone, len(self._zone_codes))
            self.zones[index] = pool.availability_zone
            self.capabilities[index] = pool.capabilities
            self._storage_ids[index] = pool.storage_id
            if pool.storage_id is not None:
                self._by_storage.setdefault(pool.storage_id, set()).add(pool.name)
            rows.append(index)
        if len(self.names) != count:
            self._bind()
        if rows:
            self._sum_up(np.array(rows, dtype=np.intp))

    def sharing(self, index: int) -> list[str]:
        """Return the names of the pools on the storage of this one, with its own; alone where it shares none."""
        storage = self._storage_ids[index]
        return [self.names[index]] if storage is None else sorted(self._by_storage[storage])

    def on_storage(self, storage_id: str) -> frozenset[str]:
        """Return the names of the pools that draw on a storage."""
        return frozenset(self._by_storage.get(storage_id, ()))

    def claim(self, index: int, size_gb: float, physical_gb: float) -> None:
        """Count a claim: allocated and in-flight grow. Negative sizes take a claim back that did not come about."""
        self.allocated[index] += size_gb
        self.claimed[index] += size_gb
        self.claimed_physical[index] += physical_gb
        self._sum_up(index)
        storage = self._storage_ids[index]
        if storage is None or len(self._by_storage[storage]) == 1:
            return
        rows = np.fromiter((self._index[name] for name in self._by_storage[storage]), dtype=np.intp)
        rows = rows[rows != index]
        whole = rows[np.isnan(self.storage_free[rows])]
        self.shared_allocated[whole] += size_gb
        self.shared_in_flight[whole] += size_gb
        self.shared_in_flight_physical[rows] += physical_gb
        self._sum_up(rows)

    def remove(self, name: str) -> None:
        """Forget a pool. No effect if there is none of that name."""
        index = self._index.pop(name, None)
        if index is None:
            return
        self._leave_storage(index)
        last = len(self.names) - 1
        if index != last:
            self._floats[:, index] = self._floats[:, last]
            self._bools[:, index] = self._bools[:, last]
            self._codes[:, index] = self._codes[:, last]
            self._index[self.names[last]] = index
        columns: tuple[list[Any], ...] = (self.names, self.zones, self.capabilities, self._storage_ids)
        for column in columns:
            column[index] = column[last]
            del column[last]
        self._bind()

    def snapshot(self) -> "PoolTable":
        """Return a copy that later changes do not touch, at the price of copying the columns."""
        copy = PoolTable.__new__(PoolTable)
        copy.names, copy.zones = self.names.copy(), self.zones.copy()
        copy.capabilities, copy._storage_ids = self.capabilities.copy(), self._storage_ids.copy()
        copy._index = self._index.copy()
        copy._by_storage = {storage: names.copy() for storage, names in self._by_storage.items()}
        copy._zone_codes, copy._backend_codes = self._zone_codes.copy(), self._backend_codes.copy()
        copy._floats, copy._bools, copy._codes = self._floats.copy(), self._bools.copy(), self._codes.copy()
        copy._bind()
        return copy

    def _append(self, name: str) -> int:
        index = len(self.names)
        if index == self._floats.shape[1]:
            self._floats = np.concatenate([self._floats, np.empty_like(self._floats)], axis=1)
            self._bools = np.concatenate([self._bools, np.empty_like(self._bools)], axis=1)
            self._codes = np.concatenate([self._codes, np.empty_like(self._codes)], axis=1)
        self.names.append(name)
        self.zones.append("")
        self.capabilities.append({})
        self._storage_ids.append(None)
        self._index[name] = index
        self._codes[_HASH, index] = stable_hash(name)
        self._codes[_BACKEND, index] = self._backend_codes.setdefault(backend_of(name), len(self._backend_codes))
        return index

    def _bind(self) -> None:
        """Point the named columns at the rows in use."""
        rows = len(self.names)
        for number, name in enumerate(_FLOATS):
            setattr(self, name, self._floats[number, :rows])
        for number, name in enumerate(_BOOLS):
            setattr(self, name, self._bools[number, :rows])
        for number, name in enumerate(_CODES):
            setattr(self, name, self._codes[number, :rows])

    def _leave_storage(self, index: int) -> None:
        storage = self._storage_ids[index]
        if storage is None:
            return
        others = self._by_storage[storage]
        others.discard(self.names[index])
        self._storage_ids[index] = None
        if not others:
            del self._by_storage[storage]

    def _sum_up(self, rows: int | npt.NDArray[np.intp]) -> None:
        """Work out what counts against the figures of these rows."""
        carved = ~np.isnan(self.storage_free[rows])
        own, shared = self.claimed_physical[rows], self.shared_in_flight_physical[rows]
        self.in_flight[rows] = self.claimed[rows] + self.shared_in_flight[rows]
        self.others[rows] = self.shared_allocated[rows] + self.external[rows]
        self.in_flight_physical[rows] = np.where(carved, own, own + shared)
        self.storage_room[rows] = np.where(carved, self.storage_free[rows] - own - shared, np.inf)
