# SPDX-License-Identifier: Apache-2.0
"""Whether a driver reports what the definitions say, judged by its reports and by what is known of its volumes.

The definitions are those of the OpenStack specs "Over Subscription in Thin Provisioning" and "Provisioning
Improvements", see the documentation ("What drivers report"). Some breaches show in a report alone; others need to be
held against the volumes: those that Tonnage made, and those that the driver itself lists. Capacities are GiB.
"""

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.capacity import units
from tonnage.capacity.over_subscription import AUTO

#: What two decimals can hide in a difference.
_ROUNDING_GB = 0.011

#: Figures that did not move although volumes did are told of when that has happened so many times in a row: somebody
#: else may have undone it once.
_STILL = 2

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
    PROVISIONED_REQUIRED = "provisioned_required"
    RATIO_REQUIRED = "ratio_required"
    NO_ALLOCATED = "no_allocated"
    PROVISIONED_IS_PHYSICAL = "provisioned_is_physical"
    PROVISIONED_TOO_SMALL = "provisioned_too_small"
    PROVISIONED_TOO_LARGE = "provisioned_too_large"
    STANDS_STILL = "stands_still"


#: What of a report is held against the volumes.
_COMPARED = (
    "pool_name",
    "total_capacity_gb",
    "free_capacity_gb",
    "provisioned_capacity_gb",
    "storage_id",
    "storage_free_capacity_gb",
)

#: Those that show only when figures are held against the volumes that are there.
BESIDE_VOLUMES = frozenset(
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
    """What is known of a pool's volumes, whoever made them, while a report of it was made.

    ``least_gb`` is what was there all the time. ``all_gb`` is the sum of the driver's list; None if anything may have
    changed between list and report. ``moved_gb`` is by how much that sum is another than at the report before.
    """

    least_gb: float = 0.0
    all_gb: float | None = None
    moved_gb: float = 0.0


def name_of(pool: Mapping[str, Any]) -> str:
    """Return the name by which a finding tells of a pool, whatever it reports as its name."""
    return str(pool.get("pool_name"))


def for_comparison(pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a pool's report what is held against its volumes, as far as it is plain."""
    return {field: pool[field] for field in _COMPARED if isinstance(pool.get(field), str | int | float)}


def by_itself(pool: Mapping[str, Any], supports_auto: bool | None) -> dict[Breach, str]:
    """Return what shows in the report of a pool without knowing its volumes. Never raises.

    ``supports_auto`` is what the driver declares, None if that is not known.
    """
    found: dict[Breach, str] = {}
    for field in _CAPACITIES:
        value = pool.get(field)
        if value in (units.UNKNOWN, units.INFINITE) or (isinstance(value, float) and not math.isfinite(value)):
            found[Breach.UNBOUNDED] = f"{field} is {value}: report a number, the lower bound where it is a range"
        elif isinstance(value, float) and round(value, 2) != value:
            found[Breach.TWO_DECIMALS] = f"{field} is {value!r}: a capacity has at most two decimals"
    total, free = _number(pool, "total_capacity_gb"), _number(pool, "free_capacity_gb")
    if free > total:
        found[Breach.FREE_WITHIN_TOTAL] = (
            f"free_capacity_gb is {free:g} and total_capacity_gb {total:g}: total is all there would be without "
            "volumes, so free is not more"
        )
    reserved = pool.get("reserved_percentage")
    if reserved is not None and not 0 <= _number(pool, "reserved_percentage") <= 100:
        found[Breach.RESERVED_RANGE] = f"reserved_percentage is {reserved!r}: it goes from 0 to 100"
    return found | _ratio(pool, supports_auto) | _kinds(pool)


def _ratio(pool: Mapping[str, Any], supports_auto: bool | None) -> dict[Breach, str]:
    ratio = pool.get("max_over_subscription_ratio")
    if ratio == AUTO and supports_auto is False:
        text = "max_over_subscription_ratio is 'auto' and the driver does not declare supports_auto_ratio"
        return {Breach.AUTO_UNDECLARED: text}
    if ratio not in (None, AUTO) and not _number(pool, "max_over_subscription_ratio") >= 1:
        return {Breach.RATIO_RANGE: f"max_over_subscription_ratio is {ratio!r}: it is at least 1"}
    return {}


def _kinds(pool: Mapping[str, Any]) -> dict[Breach, str]:
    found: dict[Breach, str] = {}
    thin = pool.get("thin_provisioning_support") is True
    if not thin and pool.get("thick_provisioning_support") is not True:
        found[Breach.THIN_OR_THICK] = (
            "neither thin_provisioning_support nor thick_provisioning_support is true: one of them is, or both"
        )
    if thin and pool.get("provisioned_capacity_gb") is None:
        found[Breach.PROVISIONED_REQUIRED] = "provisioned_capacity_gb is missing: a pool with thin volumes reports it"
    if thin and "max_over_subscription_ratio" not in pool:
        found[Breach.RATIO_REQUIRED] = (
            "max_over_subscription_ratio is missing: a pool with thin volumes reports it, as null where the "
            "configuration leaves it to the scheduler"
        )
    if (allocated := pool.get("allocated_capacity_gb")) is not None:
        found[Breach.NO_ALLOCATED] = (
            f"allocated_capacity_gb is {allocated!r}: the ledger keeps it, no driver reports it"
        )
    return found


class Auditor:
    """Looks at the reports of one backend, one after the other. ``supports_auto`` is what its driver declares."""

    def __init__(self, supports_auto: bool) -> None:
        self._supports_auto = supports_auto
        self._provisioned: dict[str, float] = {}
        self._still: dict[str, int] = {}

    def look(self, report: Sequence[Mapping[str, Any]], volumes: Mapping[str, Volumes]) -> tuple[Finding, ...]:
        """Return what a report, as the driver gave it, breaks; ``volumes`` by the names of pools. Never raises."""
        beside = self.beside(report, volumes)
        findings: list[Finding] = []
        for pool in report:
            found = by_itself(pool, self._supports_auto) | beside[name_of(pool)]
            findings.extend(Finding(name_of(pool), breach, text) for breach, text in found.items())
        return tuple(findings)

    def beside(
        self, report: Sequence[Mapping[str, Any]], volumes: Mapping[str, Volumes]
    ) -> dict[str, dict[Breach, str]]:
        """Return what shows when figures are held against volumes, by the names of all pools of the report."""
        known = _by_what_figures_are_of(report, volumes)
        return {name_of(pool): self._beside(name_of(pool), pool, known[name_of(pool)]) for pool in report}

    def _beside(self, name: str, pool: Mapping[str, Any], volumes: Volumes) -> dict[Breach, str]:
        """Return what shows when the figures of a pool are held against its volumes."""
        provisioned = _number(pool, "provisioned_capacity_gb")
        before = self._provisioned.get(name, math.nan)
        self._provisioned[name] = provisioned
        if not math.isfinite(provisioned):
            return {}
        found: dict[Breach, str] = {}
        known = max(volumes.least_gb, volumes.all_gb or 0.0)
        used = _number(pool, "total_capacity_gb") - _number(pool, "free_capacity_gb")
        if provisioned < known - _ROUNDING_GB:
            said = f"provisioned_capacity_gb is {provisioned:g} and there are volumes of {known:g}"
            if abs(provisioned - used) <= _ROUNDING_GB:
                found[Breach.PROVISIONED_IS_PHYSICAL] = (
                    f"{said}: it is the sum of their full sizes, not what they take up, which is total less free"
                )
            else:
                found[Breach.PROVISIONED_TOO_SMALL] = f"{said}: it is the sum of all of them, whoever made them"
        if volumes.all_gb is not None and provisioned > volumes.all_gb + _ROUNDING_GB:
            found[Breach.PROVISIONED_TOO_LARGE] = (
                f"provisioned_capacity_gb is {provisioned:g} and the volumes there are have {volumes.all_gb:g}: "
                "snapshots, and whatever else is no volume, do not count"
            )
        moves = abs(volumes.moved_gb) > _ROUNDING_GB and provisioned == before
        if moves or volumes.moved_gb:
            self._still[name] = self._still.get(name, 0) + 1 if moves else 0
        if self._still.get(name, 0) >= _STILL:
            found[Breach.STANDS_STILL] = (
                f"provisioned_capacity_gb stays {provisioned:g} while volumes come and go: a report contains every "
                "operation that had ended before it was asked for"
            )
        return found


def _by_what_figures_are_of(
    report: Sequence[Mapping[str, Any]], volumes: Mapping[str, Volumes]
) -> Mapping[str, Volumes]:
    """Return for each pool the volumes that its figures are about.

    Pools that name a storage and not what is free on it report the figures of the whole storage, in which there may be
    more than the pools of this backend: what all of them list is the least that there is.
    """
    sums: dict[str, Volumes] = {}
    storages: dict[str, str] = {}
    for pool in report:
        name = name_of(pool)
        own = sums[name] = volumes.get(name, Volumes())
        if pool.get("storage_id") is not None and pool.get("storage_free_capacity_gb") is None:
            storage = storages[name] = f"#{pool['storage_id']}"  # no pool has such a name
            whole = sums.get(storage, Volumes())
            sums[storage] = Volumes(
                least_gb=whole.least_gb + max(own.least_gb, own.all_gb or 0.0), moved_gb=whole.moved_gb + own.moved_gb
            )
    return {name: sums[storages.get(name, name)] for name in sums}


def _number(pool: Mapping[str, Any], field: str) -> float:
    """Return a figure, nan if it is none."""
    value = pool.get(field)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
