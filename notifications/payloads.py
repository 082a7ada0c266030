# SPDX-License-Identifier: Apache-2.0
"""What announcements say, with the keys that consumers know from Cinder's."""

import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tonnage.capacity import arithmetic
from tonnage.capacity.names import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.notifications import threshold_crossings
from tonnage.notifications.options import Thresholds

POOL = "capacity.pool"
BACKEND = "capacity.backend"
EXCEEDED = "capacity.pool.exceeded"
RECOVERED = "capacity.pool.recovered"

#: Decimals of capacities, as in reports.
_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class Usage:
    """The capacities of a pool or a backend in GiB; ``nan`` or ``inf`` where a pool's driver says no number."""

    name: str
    total: float
    free: float
    allocated: float
    provisioned: float
    virtual_free: float

    @property
    def known(self) -> bool:
        """Whether all of them are numbers."""
        return math.isfinite(self.total) and math.isfinite(self.free)

    def payload(self, reported_at: datetime.datetime) -> dict[str, Any]:
        """Return what capacity.pool and capacity.backend say, with null for what is no number."""
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

    What is provisioned is what was reported, or allocated and what others placed there. What is virtually free is what
    the capacity weigher ranks by.
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
    """Return what is provisioned without what is in flight, which may be contained in it already."""
    return np.where(np.isnan(pools.provisioned), pools.allocated + pools.others, pools.provisioned)


def of_backend(name: str, pools: Iterable[Usage]) -> Usage:
    """Return the sums of a backend's pools, of those whose capacities are numbers."""
    known = [pool for pool in pools if pool.known]
    return Usage(
        name,
        *(
            round(math.fsum(getattr(pool, key) for pool in known), _DECIMALS)
            for key in ("total", "free", "allocated", "provisioned", "virtual_free")
        ),
    )


@dataclass(frozen=True, slots=True)
class Crossing:
    """A pool that holds more than it should from now on, for these reasons, or does no more, for which there are none.

    ``limit`` is how much may be provisioned, ``since`` when a pool that has recovered began to hold too much.
    """

    usage: Usage
    used_percent: float
    limit: float
    ratio: float
    reasons: Sequence[threshold_crossings.Reason]
    since: datetime.datetime | None = None

    @property
    def event_type(self) -> str:
        """What it is announced as."""
        return EXCEEDED if self.reasons else RECOVERED

    def payload(self, reported_at: datetime.datetime, thresholds: Thresholds) -> dict[str, Any]:
        """Return what capacity.pool.exceeded and .recovered say."""
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
    """Return a time in UTC as OpenStack's notifications have it."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
