# SPDX-License-Identifier: Apache-2.0
"""Validation of what drivers report.

The fields and their meaning are those of the OpenStack specs "Over Subscription in Thin Provisioning" and
"Provisioning Improvements". A missing field and a null one are the same. A pool with a bad value is left out, with an
error that names pool, field and value; the other pools of the report still count.
"""

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tonnage.capacity import units
from tonnage.capacity.over_subscription import AUTO, MAX_RATIO
from tonnage.capacity.reports import column_validation
from tonnage.capacity.reports.pool_stats import (
    ALLOCATED,
    FIGURES,
    SHOWN,
    BadField,
    PoolStats,
    Remark,
    StatsColumns,
    is_name,
)


@dataclass(frozen=True)
class Report:
    """The outcome of a validation: the good pools, with remarks, and what was wrong with the bad ones."""

    columns: StatsColumns
    errors: tuple[BadField, ...] = ()

    @functools.cached_property
    def pools(self) -> tuple[PoolStats, ...]:
        """The good pools one by one."""
        return tuple(self.columns.rows())

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What deserves a warning, of all pools."""
        return tuple(itertools.chain.from_iterable(self.columns.remarks))


class _Bad(Exception):
    def __init__(self, field_name: str, value: object, problem: str) -> None:
        self.field, self.value, self.problem = field_name, value, problem


def validate(pools: object) -> Report:
    """Validate the pools of a report, each a mapping as drivers send it. Never raises."""
    if not isinstance(pools, (list, tuple)):
        return Report(StatsColumns.of([]), (BadField("?", "pools", pools, "a report carries a list of pools"),))
    blocks = column_validation.validate(pools) if len(pools) >= column_validation.WORTHWHILE else []
    if len(blocks) == 1 and blocks[0].plain.all() and len(set(blocks[0].columns.name)) == len(pools):
        return Report(blocks[0].columns)
    plain = {place: stats for block in blocks for place, stats in block.rows()}
    good: dict[str, PoolStats] = {}
    bad: list[BadField] = []
    for number, raw in enumerate(pools):
        label, stats = f"number {number}", plain.get(number)
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
    return Report(StatsColumns.of(list(good.values())), tuple(bad))


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
    if storage_id is not None and not is_name(storage_id):
        raise _Bad("storage_id", storage_id, "expected a name of at most 255 printable characters")
    capabilities = {key: value for key, value in raw.items() if key not in FIGURES and value is not None}
    capabilities.update((key, units.to_wire(_capacity(raw, key))) for key in SHOWN if key in capabilities)
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
    if not is_name(name):
        raise _Bad("pool_name", name, "expected a name of at most 255 printable characters")
    if "#" in name:
        raise _Bad("pool_name", name, "a pool's name has no '#'")
    return name


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
