# SPDX-License-Identifier: Apache-2.0
"""Validation of the reports that drivers send.

The fields and their meaning are those of the OpenStack specs "Over Subscription in Thin Provisioning" and
"Provisioning Improvements". A null field counts as missing. A value that drivers of Cinder send against the definition
is taken for the next one that can be meant, with a remark. A pool with a value that can mean nothing is left out, with
an error that names pool, field and value; the other pools of the report still count.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from oslo_utils import strutils

from tonnage.capacity import units
from tonnage.capacity.over_subscription import AUTO, MAX_RATIO
from tonnage.capacity.pool_stats import ALLOCATED, FIGURES, SHOWN, BadField, PoolStats, Remark, is_name
from tonnage.capacity.reports import backend_stats, rule_fields

#: The types of capabilities whose equal values are identical. Pools that report only such values share one mapping.
_COMPARABLE = frozenset({str, bool, int})

#: The field of :class:`PoolStats` for each number and flag of a report.
_NUMBERS_AND_FLAGS = {
    "total_capacity_gb": "total",
    "free_capacity_gb": "free",
    "provisioned_capacity_gb": "provisioned",
    "reserved_percentage": "reserved_percentage",
    "max_over_subscription_ratio": "ratio",
    "thin_provisioning_support": "thin",
    "thick_provisioning_support": "thick",
    "storage_free_capacity_gb": "storage_free",
}

#: The figures of most reports, in the order of the fields of :class:`PoolStats`.
_USUAL_FIGURES = (
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "reserved_percentage",
    "max_over_subscription_ratio",
    "thin_provisioning_support",
    "thick_provisioning_support",
)
_USUAL = frozenset({"pool_name", *_USUAL_FIGURES})
_SHOWN_KEYS = frozenset(SHOWN)
_NUMBERS = frozenset({int, float})

#: The number of different sets of capabilities that are remembered, so that pools can share them.
_KINDS = 1 << 14

#: The texts that the definition of a report allows for numbers.
_WORDS = frozenset({units.UNKNOWN, units.INFINITE, AUTO})


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a validation: the valid pools, and the errors of the others."""

    pools: tuple[PoolStats, ...]
    errors: tuple[BadField, ...] = ()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks about all valid pools."""
        return tuple(itertools.chain.from_iterable(stats.remarks for stats in self.pools))


class _Invalid(Exception):
    """A value of a field that makes the pool unusable."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field, self.value, self.problem = field, value, problem


def validate(report: object) -> Report:
    """Validate a report: a list of pools, each a mapping as drivers send it, or Cinder's stats. Never raises."""
    pools = backend_stats.pools_of(report) if isinstance(report, Mapping) else report
    if not isinstance(pools, (list, tuple)):
        return Report((), (BadField("?", "pools", pools, "a report carries a list of pools"),))
    valid: dict[str, PoolStats] = {}
    invalid: list[BadField] = []
    for number, raw in enumerate(pools):
        label = f"number {number}"
        try:
            if not isinstance(raw, Mapping):
                raise _Invalid("pool", raw, "a pool is an object with fields")
            name = raw.get("pool_name")
            if not is_name(name):
                raise _Invalid("pool_name", name, "expected a name of at most 255 printable characters")
            if "#" in name:
                raise _Invalid("pool_name", name, "a pool's name has no '#'")
            label = name
            if name in valid:
                raise _Invalid("pool_name", name, "another pool of this report has that name")
            valid[name] = _usual_stats(name, raw) or _stats(name, raw)
        except _Invalid as error:
            invalid.append(BadField(label, error.field, error.value, error.problem))
    return Report(tuple(valid.values()), tuple(invalid))


@dataclass(frozen=True, slots=True)
class _Layout:
    """Functions that return the figures of a report of a pool, and its capabilities, each in one step.

    ``keys`` are those of the capabilities.
    """

    figures: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    capabilities: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    keys: tuple[str, ...]


@functools.lru_cache(maxsize=256)
def _layout(keys: tuple[str, ...]) -> _Layout | None:
    """Return the layout of the reports with these keys, None if they do not have exactly the usual figures."""
    names = tuple(key for key in keys if key not in FIGURES)
    if FIGURES.intersection(keys) != _USUAL or not _SHOWN_KEYS.isdisjoint(names):
        return None
    # A getter of a single key returns no tuple.
    capabilities = operator.itemgetter(*names) if len(names) > 1 else lambda raw: tuple(raw[key] for key in names)
    return _Layout(operator.itemgetter(*_USUAL_FIGURES), capabilities, names)


def _usual_stats(name: str, raw: Mapping[str, Any]) -> PoolStats | None:
    """Return the result of :func:`_stats` if all values are as the definition has them, else None.

    A scheduler that starts validates the reports of all pools, so this takes half as long.
    """
    layout = _layout(tuple(raw))
    if layout is None:
        return None
    total, free, provisioned, reserved, ratio, thin, thick = layout.figures(raw)
    values = layout.capabilities(raw)
    types = tuple(map(type, values))
    if not (
        _NUMBERS.issuperset(map(type, (total, free, provisioned, reserved, ratio)))
        and 0 <= free <= total <= units.MAX_CAPACITY_GB
        and 0 <= provisioned <= units.MAX_CAPACITY_GB
        and 0 <= reserved <= 100
        and 1 <= ratio <= MAX_RATIO
        and type(thin) is bool
        and type(thick) is bool
        and (thin or thick)
        and _COMPARABLE.issuperset(types)
    ):
        return None
    capabilities = _readable(layout.keys, types, values)
    if capabilities is None:
        return None
    figures = (round(float(total), 2), round(float(free), 2), round(float(provisioned), 2), float(reserved))
    return PoolStats._make((name, *figures, float(ratio), thin, thick, None, math.nan, capabilities, ()))


@functools.lru_cache(maxsize=_KINDS)
def _readable(keys: tuple[str, ...], types: tuple[type, ...], values: tuple[Any, ...]) -> Mapping[str, Any] | None:
    """Return the capabilities with these keys and values, None if a plug-in cannot read one of them.

    ``types`` distinguish equal values.
    """
    capabilities = _shared(keys, *values)
    return None if any(rule_fields.unreadable(capabilities)) else capabilities


def _stats(name: str, raw: Mapping[str, Any]) -> PoolStats:
    """Return the validated figures and capabilities of one pool. Raises :class:`_Invalid`."""
    remarks: dict[str, str] = {}
    total = _physical(raw, "total_capacity_gb", remarks)
    reported_free = _physical(raw, "free_capacity_gb", remarks)
    is_free_over_total = math.isfinite(reported_free) and reported_free > total
    storage_id = raw.get("storage_id")
    if storage_id is not None and not is_name(storage_id):
        raise _Invalid("storage_id", storage_id, "expected a name of at most 255 printable characters")
    stats = PoolStats(
        name=name,
        total=total,
        free=total if is_free_over_total else reported_free,
        provisioned=_capacity(raw, "provisioned_capacity_gb", finite=True),
        reserved_percentage=_percentage(raw, remarks),
        ratio=_ratio(raw, remarks),
        thin=_flag(raw, "thin_provisioning_support", remarks),
        thick=_flag(raw, "thick_provisioning_support", remarks),
        storage_id=storage_id,
        storage_free=_capacity(raw, "storage_free_capacity_gb", finite=True),
        capabilities=_capabilities(raw, remarks),
    )
    _add_remarks(remarks, stats, raw, reported_free)
    if not remarks:
        return stats
    return stats._replace(remarks=tuple(Remark(name, code, text) for code, text in remarks.items()))


def _add_remarks(remarks: dict[str, str], stats: PoolStats, raw: Mapping[str, Any], reported_free: float) -> None:
    """Add the warnings about a valid pool that need its validated figures, by their codes."""
    for key, field in _NUMBERS_AND_FLAGS.items():
        if isinstance(raw.get(key), str) and raw[key] not in _WORDS:
            remarks.setdefault(f"text_{key}", f"{key} is the text {raw[key]!r}; taken as {getattr(stats, field)}")
    if reported_free > stats.free:
        remarks["free_over_total"] = (
            f"free_capacity_gb {reported_free} is more than total_capacity_gb {stats.total}; taken as {stats.total}"
        )
    if raw.get(ALLOCATED) is not None:
        remarks["allocated_reported"] = f"{ALLOCATED} is kept by the ledger; the value of a driver is ignored"
    if not (stats.thin or stats.thick):
        remarks["no_provisioning_support"] = (
            "reports neither thin_provisioning_support nor thick_provisioning_support; judged as thick"
        )
    if not (math.isfinite(stats.total) and math.isfinite(stats.free)):
        remarks["unbounded"] = (
            f"total_capacity_gb {units.to_wire(stats.total)}, free_capacity_gb {units.to_wire(stats.free)}: "
            "limits that need them are not checked"
        )
    for field, text in rule_fields.unreadable(stats.capabilities):
        remarks[f"unreadable_{field}"] = text
    if isinstance(stats.ratio, float) and stats.ratio < 1:
        remarks["ratio_below_one"] = (
            f"max_over_subscription_ratio {stats.ratio} is less than 1; no thin volume is placed"
        )


def _capabilities(raw: Mapping[str, Any], remarks: dict[str, str]) -> Mapping[str, Any]:
    """Return the fields that are not figures, read-only, as plug-ins see them.

    Pools with the same capabilities share one mapping, to save memory.
    """
    capabilities = {key: value for key, value in raw.items() if key not in FIGURES and value is not None}
    for key in SHOWN:
        if key in capabilities:
            try:
                capabilities[key] = units.to_wire(_capacity(raw, key))
            except _Invalid as error:
                remarks[f"unusable_{key}"] = f"{key} is {capabilities.pop(key)!r}: {error.problem}; it is not shown"
    if _COMPARABLE.issuperset(map(type, capabilities.values())):
        return _shared(tuple(capabilities), *capabilities.values())
    return MappingProxyType(capabilities)


@functools.lru_cache(maxsize=_KINDS, typed=True)
def _shared(keys: tuple[str, ...], *values: object) -> Mapping[str, Any]:
    """Return a mapping with these keys and values: the same object for the same arguments."""
    return MappingProxyType(dict(zip(keys, values, strict=True)))


def _number(key: str, value: object) -> float:
    """Return a number, including one in a text such as ``"20.0"``: drivers of Cinder pass on options as texts."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _Invalid(key, value, "expected a number")
    try:
        number = float(value)
    except OverflowError:
        raise _Invalid(key, value, "too large") from None
    except ValueError:
        raise _Invalid(key, value, "expected a number") from None
    if math.isnan(number) or (isinstance(value, str) and math.isinf(number)):
        raise _Invalid(key, value, "expected a number")
    return number


def _physical(raw: Mapping[str, Any], key: str, remarks: dict[str, str]) -> float:
    """Return the total or the free capacity in GiB. One that is missing or negative is 0: nothing is placed by it."""
    if raw.get(key) is None:
        remarks[f"missing_{key}"] = f"{key} is missing; taken as 0: report a number, 'unknown' or 'infinite'"
        return 0.0
    number = _capacity(raw, key, least=-units.MAX_CAPACITY_GB)
    if number < 0:
        remarks[f"negative_{key}"] = f"{key} is negative: {raw[key]!r}; taken as 0"
        return 0.0
    return number


def _capacity(raw: Mapping[str, Any], key: str, least: float = 0.0, *, finite: bool = False) -> float:
    """Return a capacity in GiB, rounded to two decimals; nan if it is unknown or missing."""
    value = raw.get(key)
    if value is None or value == units.UNKNOWN:
        return math.nan
    number = math.inf if value == units.INFINITE else _number(key, value)
    if number < least:
        raise _Invalid(key, value, "a capacity is not negative")
    if finite and number == math.inf:
        raise _Invalid(key, value, "cannot be infinite")
    if math.isfinite(number) and number > units.MAX_CAPACITY_GB:
        raise _Invalid(key, value, f"more than {units.MAX_CAPACITY_GB:.0f} GiB")
    return round(number, 2)


def _percentage(raw: Mapping[str, Any], remarks: dict[str, str]) -> float:
    value = raw.get("reserved_percentage")
    if value is None:
        return 0.0
    number = _number("reserved_percentage", value)
    within = min(max(number, 0.0), 100.0)
    if within != number:
        remarks["reserved_out_of_range"] = (
            f"reserved_percentage is {value!r}; taken as {within:g}: it goes from 0 to 100"
        )
    return within


def _ratio(raw: Mapping[str, Any], remarks: dict[str, str]) -> float | str | None:
    value = raw.get("max_over_subscription_ratio")
    if value is None or value == AUTO:
        return value
    number = _number("max_over_subscription_ratio", value)
    if number == 0:
        remarks["ratio_zero"] = "max_over_subscription_ratio is 0; taken as missing: the scheduler's option applies"
        return None
    if number > MAX_RATIO:
        remarks["ratio_out_of_range"] = f"max_over_subscription_ratio is {value!r}; taken as {MAX_RATIO:.0f}"
        return MAX_RATIO
    return number


def _flag(raw: Mapping[str, Any], key: str, remarks: dict[str, str]) -> bool:
    """Return a flag, including one in a text such as ``"True"``. A value that is neither true nor false is false."""
    value = raw.get(key)
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    try:
        if isinstance(value, (str, int)):
            return bool(strutils.bool_from_string(value, strict=True))
    except ValueError:
        pass
    remarks[f"text_{key}"] = f"{key} is {value!r}, neither true nor false; taken as False"
    return False
