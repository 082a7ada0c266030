# SPDX-License-Identifier: Apache-2.0
"""Which pools of a report are worth a closer look, column by column.

:func:`tonnage.capacity.reports.audit_rules.by_itself` takes a pool at a time. Nearly all pools of nearly all reports
break nothing, and that shows here in a fraction of the time.
"""

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tonnage.capacity import elementwise
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.reports.pool_stats import ALLOCATED, SHOWN, Flags, Floats

#: A field that is not there, which is another thing than null.
_ABSENT: Any = object()
_NUMBERS: frozenset[type] = frozenset({int, float})

_MORE_CAPACITIES = ("storage_free_capacity_gb", *SHOWN)
_RATIO = "max_over_subscription_ratio"


def suspects(report: Sequence[Mapping[str, Any]], supports_auto: bool | None) -> list[int]:
    """Return the places of pools that may break a definition: all that do, and perhaps some that do not."""
    columns = _Columns(report)
    total, free = columns.capacities("total_capacity_gb"), columns.capacities("free_capacity_gb")
    provisioned = columns.capacities("provisioned_capacity_gb")
    for field in _MORE_CAPACITIES:
        columns.capacities(field)
    reserved = columns.numbers("reserved_percentage")
    thin, thick = columns.true("thin_provisioning_support"), columns.true("thick_provisioning_support")
    columns.suspect |= (free > total) | (reserved < 0) | (reserved > 100) | ~(thin | thick)
    columns.suspect |= thin & (np.isnan(provisioned) | columns.ratios(supports_auto))
    columns.suspect |= columns.tell(ALLOCATED, lambda value: value is not _ABSENT and value is not None)
    found: list[int] = columns.suspect.nonzero()[0].tolist()
    return found


class _Columns:
    """What pools report by field. What is of a type that the field should not have makes its pool suspect."""

    def __init__(self, report: Sequence[Mapping[str, Any]]) -> None:
        self._report = report
        self._columns: dict[str, Sequence[Any] | None] = {}
        self.suspect: Flags = np.zeros(len(report), dtype=np.bool_)

    def numbers(self, field: str) -> Floats:
        """Return a column of numbers, nan where there is none."""
        column = self._column(field)
        types = {int} if column is None else set(map(type, column))
        if column is None or types == {type(None)}:
            return np.full(len(self._report), math.nan)
        good = np.ones(len(column), dtype=np.bool_)
        if not types <= _NUMBERS:
            good[:] = [type(value) in _NUMBERS for value in column]
            absent = [value is None or value is _ABSENT for value in column]
            self.suspect |= ~good & ~np.array(absent, dtype=np.bool_)
            column = [value if type(value) in _NUMBERS else math.nan for value in column]
        try:
            values = np.array(column, dtype=np.float64)
        except OverflowError:
            self.suspect[:] = True
            return np.full(len(column), math.nan)
        self.suspect |= good & np.isnan(values)
        return values

    def capacities(self, field: str) -> Floats:
        """Return a column of capacities; those with more than two decimals, and infinite ones, are suspect."""
        values = self.numbers(field)
        there = ~np.isnan(values)
        if there.any():
            self.suspect |= np.isinf(values) | (there & (elementwise.two_decimals(values) != values))
        return values

    def true(self, field: str) -> Flags:
        """Tell where a field is true."""
        return self.tell(field, lambda value: value is True)

    def ratios(self, supports_auto: bool | None) -> Flags:
        """Tell where the ratio is missing; those that are none are suspect, and ``auto`` where it is not supported."""
        self.suspect |= self.tell(_RATIO, lambda value: not _is_ratio(value, supports_auto))
        return self.tell(_RATIO, lambda value: value is _ABSENT)

    def tell(self, field: str, what: Callable[[Any], bool]) -> Flags:
        """Tell where something holds of a field."""
        column = self._column(field)
        if column is None:
            return np.full(len(self._report), what(_ABSENT))
        if _is_one_value(column):
            return np.full(len(column), what(column[0]))
        return np.fromiter(map(what, column), dtype=np.bool_, count=len(column))

    def _column(self, field: str) -> Sequence[Any] | None:
        """Return what pools report as a field, None if none of them reports it."""
        if field not in self._columns:
            self._columns[field] = _column(self._report, field)
        return self._columns[field]


def _column(report: Sequence[Mapping[str, Any]], field: str) -> Sequence[Any] | None:
    try:
        return [pool[field] for pool in report]  # as it nearly always is
    except KeyError:
        if not any(map(operator.contains, report, itertools.repeat(field))):
            return None
        return [pool.get(field, _ABSENT) for pool in report]


def _is_one_value(column: Sequence[Any]) -> bool:
    """Tell whether all are the same, as flags and ratios mostly are. (True is 1, but of another type.)"""
    try:
        return len(set(column)) == len(set(map(type, column))) == 1
    except TypeError:
        return False


def _is_ratio(value: object, supports_auto: bool | None) -> bool:
    if value is None or value is _ABSENT:
        return True
    if value == AUTO:
        return supports_auto is not False
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1
