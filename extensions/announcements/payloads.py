# SPDX-License-Identifier: Apache-2.0
"""Payloads of announcements, with the keys of Cinder's notifications."""

import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tonnage.capacity import arithmetic
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.announcements import threshold_crossings
from tonnage.extensions.announcements.options import Thresholds

POOL = "capacity.pool"
BACKEND = "capacity.backend"
EXCEEDED = "capacity.pool.exceeded"
RECOVERED = "capacity.pool.recovered"

#: Decimals of capacities, the same as in reports.
_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class Usage:
    """The capacities of a pool or a backend in GiB; ``nan`` or ``inf`` if the driver does not report a number."""

    name: str
    total: float
    free: float
    allocated: float
    provisioned: float
    virtual_free: float

    @property
    def is_finite(self) -> bool:
        """Return whether total and free capacity are finite numbers."""
        return math.isfinite(self.total) and math.isfinite(self.free)

    def payload(self, reported_at: datetime.datetime) -> dict[str, Any]:
        """Return the payload of capacity.pool and capacity.backend. It has None for capacities that are not numbers."""
        return {
            "name_to_id": self.name,
            "total": _number(self.total),
            "free": _number(self.free),
            "allocated": _number(self.allocated),
            "provisioned": _number(self.provisioned),
            "virtual_free": _number(self.virtual_free),
            "reported_at": _time(reported_at),
        }


def usages(pools: PoolTable, calculation: arithmetic.Calculation) -> list[Usage]:
    """Return the capacities of pools.

    :func:`provisioned` defines the provisioned capacity. The virtual free capacity is the one that the capacity weigher
    ranks by.
    """
    columns = (
        pools.total,
        pools.free,
        pools.allocated,
        provisioned(pools),
        arithmetic.virtual_free(pools, pools.thin, calculation),
    )
    return list(map(Usage, pools.names, *(np.round(column, _DECIMALS).tolist() for column in columns)))


def provisioned(pools: PoolTable) -> Any:
    """Return the provisioned GiB of each pool, without in-flight claims, which the reports may already include.

    This is the reported capacity or, if a pool reports none, the allocated capacity and that of foreign volumes.
    """
    return np.where(np.isnan(pools.provisioned), pools.allocated + pools.others, pools.provisioned)


def backend_usage(name: str, pools: Iterable[Usage]) -> Usage:
    """Return the sums of the capacities of a backend's pools, without pools whose capacities are not numbers."""
    finite_pools = [pool for pool in pools if pool.is_finite]
    return Usage(
        name,
        *(
            round(math.fsum(getattr(pool, key) for pool in finite_pools), _DECIMALS)
            for key in ("total", "free", "allocated", "provisioned", "virtual_free")
        ),
    )


@dataclass(frozen=True, slots=True)
class ThresholdCrossing:
    """The event that a pool begins or ceases to exceed its thresholds.

    ``reasons`` names the exceeded thresholds and is empty for a pool that has recovered. ``limit`` is the maximum
    provisioned capacity in GiB. ``since`` is the time when a recovered pool began to exceed its thresholds.
    """

    usage: Usage
    used_percent: float
    limit: float
    ratio: float
    reasons: Sequence[threshold_crossings.Reason]
    since: datetime.datetime | None = None

    @property
    def event_type(self) -> str:
        """Type of the notification."""
        return EXCEEDED if self.reasons else RECOVERED

    def payload(self, reported_at: datetime.datetime, thresholds: Thresholds) -> dict[str, Any]:
        """Return the payload of capacity.pool.exceeded and capacity.pool.recovered."""
        return {
            **self.usage.payload(reported_at),
            "backend": backend_of(self.usage.name),
            "reasons": [reason.value for reason in self.reasons],
            "used_percent": _number(self.used_percent),
            "exceeded_percent": thresholds.percent,
            "provisioned_limit": _number(self.limit),
            "max_over_subscription_ratio": _number(self.ratio),
            "exceeded_at": None if self.since is None else _time(self.since),
        }


def _number(value: float) -> float | None:
    return round(value, _DECIMALS) if math.isfinite(value) else None


def _time(moment: datetime.datetime) -> str:
    """Return a time as UTC text in the format of OpenStack's notifications."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
