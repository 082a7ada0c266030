# SPDX-License-Identifier: Apache-2.0
"""Validation of many pools of a report at once, column by column.

What has a bad value or deserves a remark is left to :mod:`tonnage.capacity.reports.validation`, which looks at one pool
at a time. For all other pools the outcome is the same, in a tenth of the time.
"""

import functools
import itertools
import math
import operator
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tonnage.capacity import elementwise, units
from tonnage.capacity.over_subscription import AUTO, MAX_RATIO
from tonnage.capacity.reports.pool_stats import (
    ALLOCATED,
    FIGURES,
    MAX_NAME,
    REQUIRED,
    SHOWN,
    Flags,
    Floats,
    PoolStats,
    StatsColumns,
    is_name,
)

#: Pools with the same fields are validated column by column from so many on.
WORTHWHILE = 8

#: Fields that are remarked upon, or not passed through as they are.
_ODD = frozenset({ALLOCATED, *SHOWN})

_NUMBERS: frozenset[type] = frozenset({int, float})
_BOOLS: frozenset[type] = frozenset({bool})
_STRINGS: frozenset[type] = frozenset({str})
_HASHED: frozenset[type] = frozenset({str, bool, int})

#: Kinds of pools that one report may add to those that are shared with others.
_FEW_KINDS = 32


@dataclass(frozen=True, slots=True)
class Block:
    """Pools of a report that have the same fields, by their places in it.

    ``plain`` tells which of them have nothing but good values and deserve no remark. What the columns have of others
    means nothing.
    """

    places: Sequence[int]
    columns: StatsColumns
    plain: Flags

    def rows(self) -> list[tuple[int, PoolStats]]:
        """Return the plain ones with their places."""
        rows = zip(self.places, self.columns.rows(), self.plain.tolist(), strict=True)
        return [(place, stats) for place, stats, plain in rows if plain]


def validate(pools: Sequence[object]) -> list[Block]:
    """Validate the pools that can be validated column by column."""
    blocks = []
    for places, columns in _layouts(pools):
        if REQUIRED.issubset(columns) and not _ODD.intersection(columns):
            block = _Block(columns, len(places))
            blocks.append(Block(places, block.stats(), block.plain))
    return blocks


def _layouts(pools: Sequence[object]) -> Iterator[tuple[Sequence[int], dict[str, list[Any]]]]:
    """Yield the places of pools that report the same fields, with these as columns, where that is worthwhile."""
    if len(pools) < WORTHWHILE:
        return
    if columns := _columns(pools):
        yield range(len(pools)), columns
        return
    alike: dict[tuple[str, ...], list[int]] = {}
    for place, raw in enumerate(pools):
        if type(raw) is dict:
            alike.setdefault(tuple(raw), []).append(place)
    for places in alike.values():
        if len(places) >= WORTHWHILE and (columns := _columns([pools[place] for place in places])):
            yield places, columns


def _columns(raws: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return what pools report as columns, without those that have nothing but nulls; None if fields differ."""
    if set(map(type, raws)) != {dict} or len(set(map(len, raws))) != 1 or len(raws[0]) < len(REQUIRED):
        return None
    keys = list(raws[0])
    try:
        # Pool after pool, as they lie in memory.
        values = list(itertools.chain.from_iterable(map(operator.itemgetter(*keys), raws)))
    except KeyError:
        return None
    columns = {key: values[place :: len(keys)] for place, key in enumerate(keys)}
    return {key: column for key, column in columns.items() if column[0] is not None or column.count(None) < len(raws)}


class _Block:
    """Columns that are validated; those that pools do not report, or only nulls, are missing."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], size: int) -> None:
        self._columns = columns
        self._size = size
        self.plain = np.ones(size, dtype=np.bool_)

    def stats(self) -> StatsColumns:
        """Return what the pools report, and note in ``plain`` which of them are."""
        total, free = self._capacities("total_capacity_gb"), self._capacities("free_capacity_gb")
        thin, thick = self._flags("thin_provisioning_support"), self._flags("thick_provisioning_support")
        self.plain &= (free <= total) & (thin | thick)
        return StatsColumns(
            name=self._names("pool_name"),
            total=total,
            free=free,
            provisioned=self._capacities("provisioned_capacity_gb"),
            reserved_percentage=self._numbers("reserved_percentage", 0.0, 0.0, 100.0),
            ratio=self._ratios(),
            thin=thin,
            thick=thick,
            storage_id=self._names("storage_id"),
            storage_free=self._capacities("storage_free_capacity_gb"),
            capabilities=self._capabilities(),
            remarks=[()] * self._size,
        )

    def _numbers(self, key: str, missing: float, least: float, most: float) -> Floats:
        column = self._columns.get(key)
        if column is None:
            return np.full(self._size, missing)
        numbers = self._only(_NUMBERS, column, missing)
        try:
            # Of many the same one is as good.
            same = numbers[0] == numbers[-1] and numbers.count(numbers[0]) == self._size
            values = np.full(self._size, float(numbers[0])) if same else np.array(numbers, dtype=np.float64)
        except OverflowError:
            self.plain[:] = False
            return np.full(self._size, missing)
        self.plain &= (values >= least) & (values <= most)
        return values

    def _capacities(self, key: str) -> Floats:
        values = self._numbers(key, math.nan, 0.0, units.MAX_CAPACITY_GB)
        return elementwise.two_decimals(values) if key in self._columns else values

    def _ratios(self) -> Sequence[float | str | None]:
        key = "max_over_subscription_ratio"
        column = self._columns.get(key)
        if column is None or all(value == AUTO for value in column):
            return column or [None] * self._size
        ratios: list[float] = self._numbers(key, 1.0, 1.0, MAX_RATIO).tolist()
        return ratios

    def _flags(self, key: str) -> Flags:
        column = self._columns.get(key)
        if column is None:
            return np.zeros(self._size, dtype=np.bool_)
        return np.array(self._only(_BOOLS, column, False), dtype=np.bool_)

    def _names(self, key: str) -> Sequence[Any]:
        column = self._columns.get(key)
        if column is None:
            return [None] * self._size
        names: Sequence[str] = column
        try:
            joined = "".join(names)
        except TypeError:
            names = self._only(_STRINGS, column, "")
            joined = "".join(names)
        if (
            not joined.isprintable()
            or "#" in joined
            or max(map(len, names)) > MAX_NAME
            # Of what is printable nothing but a space is blank.
            or not all(map(str.strip, names) if " " in joined else names)
        ):
            good = (is_name(name) and "#" not in name for name in names)
            self.plain &= np.fromiter(good, dtype=np.bool_, count=self._size)
        return names

    def _capabilities(self) -> Sequence[Mapping[str, Any]]:
        columns = {key: column for key, column in self._columns.items() if key not in FIGURES}
        if not columns:
            return [{}] * self._size
        odd = [column for column in columns.values() if not _is_hashed(column)]
        for column in odd:
            if None in column:
                self.plain &= np.fromiter((value is not None for value in column), dtype=np.bool_, count=self._size)
        if odd:
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        # Most pools of a backend are of a kind, and many then share the memory of one.
        telling = [column for column in columns.values() if column.count(column[0]) < self._size]
        if not telling:
            telling = [next(iter(columns.values()))]
        rows: Sequence[Hashable] = telling[0] if len(telling) == 1 else list(zip(*telling, strict=True))
        places = dict(zip(rows, range(self._size), strict=True))
        make = _shared if len(places) <= _FEW_KINDS else _made
        keys = tuple(columns)
        kinds = {row: make(keys, *(column[place] for column in columns.values())) for row, place in places.items()}
        return list(map(kinds.__getitem__, rows))

    def _only(self, types: frozenset[type], column: Sequence[Any], otherwise: object) -> Sequence[Any]:
        """Return the column with something else in place of values of other types, whose pools are not plain."""
        if types >= _types(column):
            return column
        self.plain &= np.fromiter((type(value) in types for value in column), dtype=np.bool_, count=self._size)
        return [value if type(value) in types else otherwise for value in column]


def _made(keys: tuple[str, ...], *values: object) -> Mapping[str, Any]:
    return dict(zip(keys, values, strict=True))


#: The same for what many reports have: who keeps what was reported last finds at once that it is the same again.
_shared = functools.lru_cache(maxsize=1024, typed=True)(_made)


def _is_hashed(column: Sequence[object]) -> bool:
    """Tell whether a column has values of one type of those that are hashed: equal ones are then the same."""
    kind = type(column[0])
    return kind in _HASHED and ((kind is str and column.count(column[0]) == len(column)) or _types(column) == {kind})


def _types(column: Sequence[object]) -> set[type]:
    """Return the types of the values. (Most are of one, and runs are told faster than each is put into a set.)"""
    return {each for each, _ in itertools.groupby(column, type)}
