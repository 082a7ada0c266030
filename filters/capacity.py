# SPDX-License-Identifier: Apache-2.0
"""Filter that keeps every pool within its capacity limits."""

import functools
import math
from collections.abc import Mapping

import numpy as np

from tonnage.capacity import arithmetic, units
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import NO_CAPACITY, Rejection
from tonnage.capacity.elementwise import Floats
from tonnage.capacity.pools.columns import Formula
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Provisioning, Request, judged_thin
from tonnage.filters.base import Filter, Mask


class CapacityFilter(Filter):
    """Accepts pools with enough headroom for the requested size, by the active ``over_provisioning_calculation``.

    :mod:`tonnage.capacity.arithmetic` has the rules. Whether the thin or the thick rule applies depends on the request
    and on the kinds of volumes that the pool supports.
    """

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the requested size with the largest size that each pool accepts."""
        return np.greater_equal(self.bounds(pools, request), request.size_gb)

    def bounds(self, pools: PoolTable, request: Request) -> Floats:
        """Return the largest size in GiB that each pool accepts."""
        return pools.evaluated(self._bounds[request.provisioning])

    @functools.cached_property
    def _bounds(self) -> Mapping[Provisioning | None, Formula]:
        return {
            provisioning: functools.partial(_bound, provisioning, self._calculation)
            for provisioning in (None, *Provisioning)
        }

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the exceeded limit and every figure in it."""
        thin = bool(judged_thin(pool.thin, pool.thick, request.provisioning))
        headroom = float(arithmetic.headroom(pool, thin, self._calculation))
        figures = _figures(pool, thin, self._calculation)
        numbers = {"headroom": headroom, "size": float(request.size_gb), **figures}
        if pool.total == 0:
            return Rejection("no_capacity", "has a total capacity of 0 GiB", numbers)
        if not arithmetic.sound(pool):
            problem = (
                f"has a total capacity that is {units.to_wire(pool.total)}, so its reserve of "
                f"{_short(pool.reserved_percentage)} % cannot be kept"
            )
            return Rejection("total_unknown", problem, numbers)
        if thin and pool.ratio < 1:
            problem = f"has an over-subscription ratio of {_short(pool.ratio)}, and below 1 takes no thin volume"
            return Rejection("ratio_below_one", problem, numbers)
        listed = ", ".join(_spelled(name, value) for name, value in figures.items())
        return Rejection(NO_CAPACITY, f"has headroom {headroom:.2f} GiB ({listed})", numbers)

    @property
    def _calculation(self) -> Calculation:
        return Calculation(self.conf.over_provisioning_calculation)


def _bound(provisioning: Provisioning | None, calculation: Calculation, pools: Pool | PoolTable) -> Floats:
    return arithmetic.bound(pools, judged_thin(pools.thin, pools.thick, provisioning), calculation)


def _figures(pool: Pool, thin: bool, calculation: Calculation) -> dict[str, float | str | None]:
    """Return the figures in the rule for this pool, in the order of the message."""
    figures: dict[str, float | str | None] = {"total": units.to_wire(pool.total)}
    if not thin or calculation is Calculation.CINDER:
        figures["free"] = units.to_wire(pool.free)
    if thin:
        if math.isnan(pool.provisioned):
            figures["allocated"] = pool.allocated
        else:
            figures["provisioned"] = pool.provisioned
        figures["in_flight"] = pool.in_flight
    else:
        figures["in_flight"] = pool.in_flight_physical
    if math.isfinite(pool.storage_room) and "free" in figures:
        figures["shared_room"] = pool.storage_room
    figures["reserved_percentage"] = pool.reserved_percentage
    if thin:
        figures["ratio"] = pool.ratio
    figures["rule"] = calculation.value if thin else "thick"
    return figures


def _spelled(name: str, value: float | str | None) -> str:
    if name == "rule":
        return str(value)
    if name == "reserved_percentage":
        return f"reserved {_short(value)} %"
    if name == "ratio":
        return f"ratio {value:.1f}" if value == round(float(value or 0), 1) else f"ratio {_short(value)}"
    return f"{name.replace('_', ' ')} {_short(value)}"


def _short(value: float | str | None) -> str:
    """Format a figure with at most two decimals: 1000, 20.5, unknown."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, (int, float)) else str(value)
