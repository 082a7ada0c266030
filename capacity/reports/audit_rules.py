# SPDX-License-Identifier: Apache-2.0
"""Audit of drivers: the breaches of the definitions of reported figures.

The definitions are those of the OpenStack specs "Over Subscription in Thin Provisioning" and "Provisioning
Improvements", see the documentation (``docs/driver-reports.rst``). Some breaches are visible in a report alone. Others
need a comparison with the volumes: those that Tonnage created, and those that the driver lists. Capacities are GiB.
"""

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.capacity import units
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.reports import rule_fields

#: The largest difference of two figures that rounding to two decimals can cause.
_ROUNDING_GB = 0.011

#: Number of reports in a row with an unchanged figure, although volumes changed, that make a breach. A single one may
#: be a change that another system has undone.
_UNCHANGED_REPORTS = 2

_CAPACITIES = (
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "storage_free_capacity_gb",
    "total_used_capacity_gb",
    "cinder_used_capacity_gb",
)


class Breach(enum.StrEnum):
    """The definitions that a driver can break."""

    TWO_DECIMALS = "two_decimals"
    UNBOUNDED = "unbounded"
    FREE_WITHIN_TOTAL = "free_within_total"
    RESERVED_RANGE = "reserved_range"
    RATIO_RANGE = "ratio_range"
    AUTO_UNDECLARED = "auto_undeclared"
    THIN_OR_THICK = "thin_or_thick"
    RULE_UNREADABLE = "rule_unreadable"
    PROVISIONED_REQUIRED = "provisioned_required"
    RATIO_REQUIRED = "ratio_required"
    NO_ALLOCATED = "no_allocated"
    PROVISIONED_IS_PHYSICAL = "provisioned_is_physical"
    PROVISIONED_TOO_SMALL = "provisioned_too_small"
    PROVISIONED_TOO_LARGE = "provisioned_too_large"
    STANDS_STILL = "stands_still"


#: The fields of a report that are compared with the volumes.
_COMPARED = (
    "pool_name",
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "storage_id",
    "storage_free_capacity_gb",
)

#: The breaches that only a comparison with the volumes can show.
VOLUME_BREACHES = frozenset(
    {
        Breach.PROVISIONED_IS_PHYSICAL,
        Breach.PROVISIONED_TOO_SMALL,
        Breach.PROVISIONED_TOO_LARGE,
        Breach.STANDS_STILL,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A definition that a pool's report breaks; ``text`` is the definition with the figures that show it."""

    pool: str
    breach: Breach
    text: str

    def __str__(self) -> str:
        return f"pool {self.pool!r}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volumes:
    """The sizes of a pool's volumes at the time of a report, including those that Tonnage did not create.

    ``least_gb`` is the sum of the volumes that existed during the whole report. ``all_gb`` is the sum of the driver's
    list; None if a volume may have changed between list and report. ``moved_gb`` is the difference between that sum and
    the one at the previous report.
    """

    least_gb: float = 0.0
    all_gb: float | None = None
    moved_gb: float = 0.0


def reported_name(pool: Mapping[str, Any]) -> str:
    """Return the name of a pool in findings: the reported one as text, even if it is invalid."""
    return str(pool.get("pool_name"))


def comparable_figures(pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a pool's report that are compared with its volumes, if they are texts or numbers."""
    return {field: pool[field] for field in _COMPARED if isinstance(pool.get(field), str | int | float)}


def check_report(pool: Mapping[str, Any], supports_auto: bool | None) -> dict[Breach, str]:
    """Return the breaches that the report of one pool shows, each with its text. Never raises.

    ``supports_auto`` tells whether the driver declares ``supports_auto_ratio``, None if that is unknown.
    """
    breaches: dict[Breach, str] = {}
    for field in _CAPACITIES:
        value = pool.get(field)
        if value in (units.UNKNOWN, units.INFINITE) or (isinstance(value, float) and not math.isfinite(value)):
            breaches[Breach.UNBOUNDED] = f"{field} is {value}: report a number, the lower bound where it is a range"
        elif isinstance(value, float) and round(value, 2) != value:
            breaches[Breach.TWO_DECIMALS] = f"{field} is {value!r}: a capacity has at most two decimals"
    total, free = _number(pool, "total_capacity_gb"), _number(pool, "free_capacity_gb")
    if free > total:
        breaches[Breach.FREE_WITHIN_TOTAL] = (
            f"free_capacity_gb is {free:g} and total_capacity_gb {total:g}: total is all there would be without "
            "volumes, so free is not more"
        )
    reserved = pool.get("reserved_percentage")
    if reserved is not None and not 0 <= _number(pool, "reserved_percentage") <= 100:
        breaches[Breach.RESERVED_RANGE] = f"reserved_percentage is {reserved!r}: it goes from 0 to 100"
    if problems := "; ".join(text for _, text in rule_fields.unreadable(pool)):
        breaches[Breach.RULE_UNREADABLE] = problems
    return breaches | _check_ratio(pool, supports_auto) | _check_provisioning(pool)


def _check_ratio(pool: Mapping[str, Any], supports_auto: bool | None) -> dict[Breach, str]:
    ratio = pool.get("max_over_subscription_ratio")
    if ratio == AUTO and supports_auto is False:
        text = "max_over_subscription_ratio is 'auto' and the driver does not declare supports_auto_ratio"
        return {Breach.AUTO_UNDECLARED: text}
    if ratio not in (None, AUTO) and not _number(pool, "max_over_subscription_ratio") >= 1:
        return {Breach.RATIO_RANGE: f"max_over_subscription_ratio is {ratio!r}: it is at least 1"}
    return {}


def _check_provisioning(pool: Mapping[str, Any]) -> dict[Breach, str]:
    breaches: dict[Breach, str] = {}
    thin = pool.get("thin_provisioning_support") is True
    if not thin and pool.get("thick_provisioning_support") is not True:
        breaches[Breach.THIN_OR_THICK] = (
            "neither thin_provisioning_support nor thick_provisioning_support is true: one of them is, or both"
        )
    if thin and pool.get("provisioned_capacity_gb") is None:
        breaches[Breach.PROVISIONED_REQUIRED] = (
            "provisioned_capacity_gb is missing: a pool with thin volumes reports it"
        )
    if thin and "max_over_subscription_ratio" not in pool:
        breaches[Breach.RATIO_REQUIRED] = (
            "max_over_subscription_ratio is missing: a pool with thin volumes reports it, as null where the "
            "configuration leaves it to the scheduler"
        )
    if (allocated := pool.get("allocated_capacity_gb")) is not None:
        breaches[Breach.NO_ALLOCATED] = (
            f"allocated_capacity_gb is {allocated!r}: the ledger keeps it, no driver reports it"
        )
    return breaches


class Auditor:
    """Audits the reports of one backend, in their order, as some breaches show only in several reports.

    ``supports_auto`` tells whether the driver declares ``supports_auto_ratio``.
    """

    def __init__(self, supports_auto: bool) -> None:
        self._supports_auto = supports_auto
        self._provisioned: dict[str, float] = {}
        self._unchanged: dict[str, int] = {}

    def look(self, report: Sequence[Mapping[str, Any]], volumes: Mapping[str, Volumes]) -> tuple[Finding, ...]:
        """Return all breaches in a report, as the driver returned it. Never raises.

        ``volumes`` maps pool names to the sizes of their volumes.
        """
        volume_breaches = self.check_volumes(report, volumes)
        findings: list[Finding] = []
        for pool in report:
            breaches = check_report(pool, self._supports_auto) | volume_breaches[reported_name(pool)]
            findings.extend(Finding(reported_name(pool), breach, text) for breach, text in breaches.items())
        return tuple(findings)

    def check_volumes(
        self, report: Sequence[Mapping[str, Any]], volumes: Mapping[str, Volumes]
    ) -> dict[str, dict[Breach, str]]:
        """Return the breaches that a comparison with the volumes shows, for the name of each pool of the report."""
        volumes_by_pool = _volumes_in_figures(report, volumes)
        return {
            reported_name(pool): self._check_pool(reported_name(pool), pool, volumes_by_pool[reported_name(pool)])
            for pool in report
        }

    def _check_pool(self, name: str, pool: Mapping[str, Any], volumes: Volumes) -> dict[Breach, str]:
        """Return the breaches that a comparison of one pool's figures with its volumes shows."""
        provisioned = _number(pool, "provisioned_capacity_gb")
        before = self._provisioned.get(name, math.nan)
        self._provisioned[name] = provisioned
        if not math.isfinite(provisioned):
            return {}
        breaches: dict[Breach, str] = {}
        volumes_gb = max(volumes.least_gb, volumes.all_gb or 0.0)
        used = _number(pool, "total_capacity_gb") - _number(pool, "free_capacity_gb")
        if provisioned < volumes_gb - _ROUNDING_GB:
            start = f"provisioned_capacity_gb is {provisioned:g} and there are volumes of {volumes_gb:g}"
            if abs(provisioned - used) <= _ROUNDING_GB:
                breaches[Breach.PROVISIONED_IS_PHYSICAL] = (
                    f"{start}: it is the sum of their full sizes, not of the space that they occupy (total less free)"
                )
            else:
                breaches[Breach.PROVISIONED_TOO_SMALL] = (
                    f"{start}: it is the sum of all of them, also of those that other programs made"
                )
        if volumes.all_gb is not None and provisioned > volumes.all_gb + _ROUNDING_GB:
            breaches[Breach.PROVISIONED_TOO_LARGE] = (
                f"provisioned_capacity_gb is {provisioned:g} and the volumes there are have {volumes.all_gb:g}: "
                "snapshots and other objects that are no volumes do not count"
            )
        is_unchanged = abs(volumes.moved_gb) > _ROUNDING_GB and provisioned == before
        if is_unchanged or volumes.moved_gb:
            self._unchanged[name] = self._unchanged.get(name, 0) + 1 if is_unchanged else 0
        if self._unchanged.get(name, 0) >= _UNCHANGED_REPORTS:
            breaches[Breach.STANDS_STILL] = (
                f"provisioned_capacity_gb stays {provisioned:g} while volumes come and go: a report contains every "
                "operation that had ended before it was asked for"
            )
        return breaches


def _volumes_in_figures(report: Sequence[Mapping[str, Any]], volumes: Mapping[str, Volumes]) -> Mapping[str, Volumes]:
    """Return the volumes that the figures of each pool include.

    A pool with a ``storage_id`` and without ``storage_free_capacity_gb`` reports the figures of the whole storage.
    Other backends may have volumes there too, so the sum over the pools of this backend is only a lower bound.
    """
    sums: dict[str, Volumes] = {}
    storages: dict[str, str] = {}
    for pool in report:
        name = reported_name(pool)
        own = sums[name] = volumes.get(name, Volumes())
        if pool.get("storage_id") is not None and pool.get("storage_free_capacity_gb") is None:
            storage = storages[name] = f"#{pool['storage_id']}"  # no pool has such a name
            whole = sums.get(storage, Volumes())
            sums[storage] = Volumes(
                least_gb=whole.least_gb + max(own.least_gb, own.all_gb or 0.0), moved_gb=whole.moved_gb + own.moved_gb
            )
    return {name: sums[storages.get(name, name)] for name in sums}


def _number(pool: Mapping[str, Any], field: str) -> float:
    """Return the number in a field, nan for any other value."""
    value = pool.get(field)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
