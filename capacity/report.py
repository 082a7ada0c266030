# SPDX-License-Identifier: Apache-2.0
"""Validation of what drivers report.

The fields and their meaning are those of the OpenStack specs "Over Subscription in Thin Provisioning" and
"Provisioning Improvements". A missing field and a null one are the same. A pool with a bad value is left out, with an
error that names pool, field and value; the other pools of the report still count.
"""

import itertools
import math
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from typing import NamedTuple
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from tonnage.capacity import elementwise
from tonnage.capacity import units
from tonnage.capacity.pools import AUTO
from tonnage.capacity.pools import MAX_RATIO

ALLOCATED = "allocated_capacity_gb"

#: Length of the longest name of a pool or a storage.
MAX_NAME = 255

#: Fields that the arithmetic takes; everything else in a report is a capability and passed through.
_FIGURES = frozenset(
    {
        "pool_name",
        "total_capacity_gb",
        "free_capacity_gb",
        "provisioned_capacity_gb",
        ALLOCATED,
        "reserved_percentage",
        "max_over_subscription_ratio",
        "thin_provisioning_support",
        "thick_provisioning_support",
        "storage_id",
        "storage_free_capacity_gb",
    }
)

_REQUIRED = frozenset({"pool_name", "total_capacity_gb", "free_capacity_gb"})

#: Pools with the same fields are validated column by column from so many on.
_WORTHWHILE = 8

_NUMBERS: frozenset[type] = frozenset({int, float})
_BOOLS: frozenset[type] = frozenset({bool})
_STRINGS: frozenset[type] = frozenset({str})
_HASHED: frozenset[type] = frozenset({str, bool, int, float})

#: Optional capacities that are shown in get_pools where a driver reports them and steer nothing.
_SHOWN = ("total_used_capacity_gb", "cinder_used_capacity_gb")


class PoolStats(NamedTuple):
    """What one pool reported, validated. Capacities are GiB; ``nan`` unknown or not reported, ``inf`` infinite.

    ``ratio`` is a number, the word ``auto``, or None where the driver leaves it to the scheduler. (A tuple takes a
    tenth of the time that a frozen dataclass takes to be made, and reports have thousands.)
    """

    name: str
    total: float
    free: float
    provisioned: float = math.nan
    reserved_percentage: float = 0.0
    ratio: float | str | None = None
    thin: bool = False
    thick: bool = False
    storage_id: str | None = None
    storage_free: float = math.nan
    capabilities: Mapping[str, Any] = MappingProxyType({})
    remarks: tuple["Remark", ...] = ()


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a usable pool that deserves a warning. ``code`` is a stable word, the same for every value."""

    pool: str
    code: str
    text: str

    def __str__(self) -> str:
        return f"pool {self.pool!r}: {self.text}"


@dataclass(frozen=True, slots=True)
class BadField:
    """A value that made a pool of a report unusable."""

    pool: str
    field: str
    value: object
    problem: str

    def __str__(self) -> str:
        return f"pool {self.pool!r}: {self.field} is {self.value!r}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a validation: the good pools, with remarks, and what was wrong with the bad ones."""

    pools: tuple[PoolStats, ...]
    errors: tuple[BadField, ...] = ()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What deserves a warning, of all pools."""
        return tuple(remark for pool in self.pools for remark in pool.remarks)


class _Bad(Exception):
    def __init__(self, field_name: str, value: object, problem: str) -> None:
        self.field, self.value, self.problem = field_name, value, problem


def validate(pools: object) -> Report:
    """Validate the pools of a report, each a mapping as drivers send it. Never raises."""
    if not isinstance(pools, (list, tuple)):
        return Report((), (BadField("?", "pools", pools, "a report carries a list of pools"),))
    good: dict[str, PoolStats] = {}
    bad: list[BadField] = []
    for number, (raw, stats) in enumerate(zip(pools, _in_bulk(pools), strict=True)):
        label = f"number {number}"
        try:
            if stats is None:
                if not isinstance(raw, Mapping):
                    raise _Bad("pool", raw, "a pool is an object with fields")
                label = name = _name(raw)
            else:
                label = name = stats.name
            if name in good:
                raise _Bad("pool_name", name, "another pool of this report has that name")
            good[name] = _pool(name, raw) if stats is None else stats
        except _Bad as error:
            bad.append(BadField(label, error.field, error.value, error.problem))
    return Report(tuple(good.values()), tuple(bad))


def _in_bulk(pools: Sequence[object]) -> list[PoolStats | None]:
    """Validate what can be validated column by column; None for each pool that needs a look of its own."""
    places: dict[tuple[str, ...], list[int]] = {}
    for place, raw in enumerate(pools):
        if type(raw) is dict:
            places.setdefault(tuple(raw), []).append(place)
    found: list[PoolStats | None] = [None] * len(pools)
    for keys, alike in places.items():
        if len(alike) >= _WORTHWHILE and _REQUIRED.issubset(keys):
            raws = [pools[place] for place in alike]
            for place, stats in zip(alike, _Columns(keys, raws).stats(), strict=True):
                found[place] = stats
    return found


class _Columns:
    """Pools that report the same fields in the same order, as columns.

    ``plain`` tells which of them have nothing but good values and deserve no remark: the outcome for these is that of
    :func:`_pool`, in a fifth of the time.
    """

    def __init__(self, keys: Sequence[str], raws: Sequence[Any]) -> None:
        self._size = len(raws)
        self.plain = np.ones(self._size, dtype=np.bool_)
        self._columns: dict[str, tuple[Any, ...]] = {
            key: column
            for key, column in zip(keys, zip(*(raw.values() for raw in raws), strict=True), strict=True)
            if column[0] is not None or any(value is not None for value in column)
        }

    def stats(self) -> list[PoolStats | None]:
        """Return the outcome for each plain pool, None for the others."""
        if not self._columns.keys() >= _REQUIRED or any(key in self._columns for key in (ALLOCATED, *_SHOWN)):
            return [None] * self._size
        total, free = self._capacities("total_capacity_gb"), self._capacities("free_capacity_gb")
        provisioned = self._capacities("provisioned_capacity_gb")
        storage_free = self._capacities("storage_free_capacity_gb")
        thin, thick = self._flags("thin_provisioning_support"), self._flags("thick_provisioning_support")
        self.plain &= (free <= total) & (thin | thick)
        columns = (
            self._names("pool_name"),
            total.tolist(),
            free.tolist(),
            provisioned.tolist(),
            self._numbers("reserved_percentage", 0.0, 0.0, 100.0).tolist(),
            self._ratios(),
            thin.tolist(),
            thick.tolist(),
            self._names("storage_id"),
            storage_free.tolist(),
            self._capabilities(),
            [()] * self._size,
        )
        made = map(PoolStats._make, zip(*columns, strict=True))
        return [stats if plain else None for stats, plain in zip(made, self.plain.tolist(), strict=True)]

    def _numbers(self, key: str, missing: float, least: float, most: float) -> npt.NDArray[np.float64]:
        if key not in self._columns:
            return np.full(self._size, missing)
        try:
            values = np.array(self._only(_NUMBERS, self._columns[key], missing), dtype=np.float64)
        except OverflowError:
            self.plain[:] = False
            return np.full(self._size, missing)
        self.plain &= (values >= least) & (values <= most)
        return values

    def _capacities(self, key: str) -> npt.NDArray[np.float64]:
        values = self._numbers(key, math.nan, 0.0, units.MAX_CAPACITY_GB)
        return elementwise.two_decimals(values) if key in self._columns else values

    def _ratios(self) -> Sequence[float | str | None]:
        key = "max_over_subscription_ratio"
        column = self._columns.get(key)
        if column is None or all(value == AUTO for value in column):
            return column or [None] * self._size
        ratios: list[float] = self._numbers(key, 1.0, 1.0, MAX_RATIO).tolist()
        return ratios

    def _flags(self, key: str) -> npt.NDArray[np.bool_]:
        column = self._columns.get(key)
        if column is None:
            return np.zeros(self._size, dtype=np.bool_)
        return np.array(self._only(_BOOLS, column, False), dtype=np.bool_)

    def _names(self, key: str) -> Sequence[str | None]:
        column = self._columns.get(key)
        if column is None:
            return [None] * self._size
        names = self._only(_STRINGS, column, "")
        joined = "".join(names)
        if (
            not joined.isprintable()
            or "#" in joined
            or max(map(len, names)) > MAX_NAME
            or not all(map(str.strip, names))
        ):
            good = (_is_name(name) and "#" not in name for name in names)
            self.plain &= np.fromiter(good, dtype=np.bool_, count=self._size)
        return names

    def _capabilities(self) -> Iterable[Mapping[str, Any]]:
        columns = {key: column for key, column in self._columns.items() if key not in _FIGURES}
        if not columns:
            return itertools.repeat({}, self._size)
        types = [set(map(type, column)) for column in columns.values()]
        for column, found in zip(columns.values(), types, strict=True):
            if type(None) in found:
                self.plain &= np.fromiter((value is not None for value in column), dtype=np.bool_, count=self._size)
        rows = zip(*columns.values(), strict=True)
        if not all(found <= _HASHED and len(found) == 1 for found in types):
            return (dict(zip(columns, row, strict=True)) for row in rows)
        # Most pools of a backend are of a kind, and many then share the memory of one.
        kinds: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        return [kinds.get(row) or kinds.setdefault(row, dict(zip(columns, row, strict=True))) for row in rows]

    def _only(self, types: frozenset[type], column: tuple[Any, ...], otherwise: object) -> Sequence[Any]:
        """Return the column with something else in place of values of other types, whose pools are not plain."""
        if types.issuperset(map(type, column)):
            return column
        self.plain &= np.fromiter((type(value) in types for value in column), dtype=np.bool_, count=self._size)
        return [value if type(value) in types else otherwise for value in column]


def _pool(name: str, raw: Mapping[str, Any]) -> PoolStats:
    remarks: list[Remark] = []

    def remark(code: str, text: str) -> None:
        remarks.append(Remark(name, code, text))

    total = _capacity(raw, "total_capacity_gb", required=True)
    free = _capacity(raw, "free_capacity_gb", required=True)
    if math.isfinite(free) and free > total:
        remark("free_over_total", f"free_capacity_gb {free} is more than total_capacity_gb {total}; taken as {total}")
        free = total
    if raw.get(ALLOCATED) is not None:
        remark("allocated_reported", f"{ALLOCATED} is kept by the ledger; what a driver reports is ignored")
    thin = _flag(raw, "thin_provisioning_support")
    thick = _flag(raw, "thick_provisioning_support")
    if not (thin or thick):
        remark(
            "no_provisioning_support",
            "reports neither thin_provisioning_support nor thick_provisioning_support; judged as thick",
        )
    if not (math.isfinite(total) and math.isfinite(free)):
        remark(
            "unbounded",
            f"total_capacity_gb {units.to_wire(total)}, free_capacity_gb {units.to_wire(free)}: "
            "limits that need them are not checked",
        )
    ratio = _ratio(raw)
    if isinstance(ratio, float) and ratio < 1:
        remark("ratio_below_one", f"max_over_subscription_ratio {ratio} is less than 1; no thin volume is placed")
    storage_id = raw.get("storage_id")
    if storage_id is not None and not _is_name(storage_id):
        raise _Bad("storage_id", storage_id, "expected a name of at most 255 printable characters")
    capabilities = {key: value for key, value in raw.items() if key not in _FIGURES and value is not None}
    capabilities.update((key, units.to_wire(_capacity(raw, key))) for key in _SHOWN if key in capabilities)
    return PoolStats(
        name=name,
        total=total,
        free=free,
        provisioned=_finite(raw, "provisioned_capacity_gb"),
        reserved_percentage=_percentage(raw),
        ratio=ratio,
        thin=thin,
        thick=thick,
        storage_id=storage_id,
        storage_free=_finite(raw, "storage_free_capacity_gb"),
        capabilities=capabilities,
        remarks=tuple(remarks),
    )


def _name(raw: Mapping[str, Any]) -> str:
    name = raw.get("pool_name")
    if not _is_name(name):
        raise _Bad("pool_name", name, "expected a name of at most 255 printable characters")
    if "#" in name:
        raise _Bad("pool_name", name, "a pool's name has no '#'")
    return name


def _is_name(value: object) -> TypeGuard[str]:
    """Names end up in logs and in SQL: no control characters, nothing that UTF-8 cannot say."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable() and len(value) <= MAX_NAME


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Bad(key, value, "expected a number")
    try:
        number = float(value)
    except OverflowError:
        raise _Bad(key, value, "too large") from None
    if math.isnan(number):
        raise _Bad(key, value, "expected a number")
    return number


def _capacity(raw: Mapping[str, Any], key: str, required: bool = False) -> float:
    """Return a capacity in GiB with two decimals; nan if unknown or, where it is optional, missing."""
    value = raw.get(key)
    if value is None:
        if required:
            raise _Bad(key, value, "required: a number, 'unknown' or 'infinite'")
        return math.nan
    if value == units.UNKNOWN:
        return math.nan
    if value == units.INFINITE:
        return math.inf
    number = _number(key, value)
    if number < 0:
        raise _Bad(key, value, "a capacity is not negative")
    if math.isfinite(number) and number > units.MAX_CAPACITY_GB:
        raise _Bad(key, value, f"more than {units.MAX_CAPACITY_GB:.0f} GiB")
    return round(number, 2)


def _finite(raw: Mapping[str, Any], key: str) -> float:
    number = _capacity(raw, key)
    if math.isinf(number):
        raise _Bad(key, raw.get(key), "cannot be infinite")
    return number


def _percentage(raw: Mapping[str, Any]) -> float:
    value = raw.get("reserved_percentage")
    if value is None:
        return 0.0
    number = _number("reserved_percentage", value)
    if not 0 <= number <= 100:
        raise _Bad("reserved_percentage", value, "expected 0 to 100")
    return number


def _ratio(raw: Mapping[str, Any]) -> float | str | None:
    value = raw.get("max_over_subscription_ratio")
    if value is None or value == AUTO:
        return value
    number = _number("max_over_subscription_ratio", value)
    if not abs(number) <= MAX_RATIO:
        raise _Bad("max_over_subscription_ratio", value, f"expected a number up to {MAX_RATIO:.0f} or 'auto'")
    return number


def _flag(raw: Mapping[str, Any], key: str) -> bool:
    value = raw.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _Bad(key, value, "expected true or false")
    return value
