# SPDX-License-Identifier: Apache-2.0
"""Capacity factors: how the figures of a pool turn into what can still be placed there.

The twelve first fields are those of the OpenStack spec "Add Capacity Factors to scheduler get pools API"; the others
are ours. One set is made for each provisioning type that a pool supports.
"""

import math
from dataclasses import dataclass

from tonnage.capacity import arithmetic
from tonnage.capacity.pools import Pool
from tonnage.capacity.request import Provisioning


@dataclass(frozen=True, slots=True)
class CapacityFactors:
    """The factors of one pool for one provisioning type, in GiB, rounded to two decimals.

    Figures that follow from an unknown or infinite capacity are ``nan`` or ``inf``. ``maximum_volume_size`` is the
    headroom: the largest volume that the capacity filter admits right now, in-flight included.
    """

    total_capacity: float
    free_capacity: float
    reserved_capacity: float
    total_reserved_available_capacity: float
    max_over_subscription_ratio: float | None
    total_available_capacity: float
    provisioned_capacity: float
    calculated_free_capacity: float
    virtual_free_capacity: float
    free_percent: float
    provisioned_ratio: float
    provisioned_type: str
    allocated_capacity: float
    in_flight_capacity: float
    maximum_volume_size: float
    over_provisioning_calculation: str


def capacity_factors(pool: Pool, calculation: arithmetic.Calculation) -> tuple[CapacityFactors, ...]:
    """Return the factors of ``pool``, thick first; of a pool that supports neither type those of thick."""
    kinds = [Provisioning.THICK] if pool.thick or not pool.thin else []
    if pool.thin:
        kinds.append(Provisioning.THIN)
    return tuple(_factors(pool, kind, calculation) for kind in kinds)


def _factors(pool: Pool, kind: Provisioning, calculation: arithmetic.Calculation) -> CapacityFactors:
    thin = kind is Provisioning.THIN
    reserved = float(arithmetic.reserve(pool))
    after_reserve = pool.total - reserved
    available = after_reserve * pool.ratio if thin else after_reserve
    # As reported: what is in flight shows in its own field and in maximum_volume_size.
    provisioned = pool.allocated if math.isnan(pool.provisioned) else pool.provisioned
    calculated_free = available - provisioned
    virtual_free = calculated_free if thin or math.isnan(pool.free) else min(calculated_free, pool.free)
    return CapacityFactors(
        total_capacity=_rounded(pool.total),
        free_capacity=_rounded(pool.free),
        reserved_capacity=_rounded(reserved),
        total_reserved_available_capacity=_rounded(after_reserve),
        max_over_subscription_ratio=_rounded(pool.ratio) if thin else None,
        total_available_capacity=_rounded(available),
        provisioned_capacity=_rounded(provisioned),
        calculated_free_capacity=_rounded(calculated_free),
        virtual_free_capacity=_rounded(virtual_free),
        free_percent=_rounded(_share(virtual_free, available) * 100),
        provisioned_ratio=_rounded(_share(provisioned, available)),
        provisioned_type=kind.value,
        allocated_capacity=_rounded(pool.allocated),
        in_flight_capacity=_rounded(pool.in_flight),
        maximum_volume_size=float(arithmetic.headroom(pool, thin, calculation)),
        over_provisioning_calculation=calculation.value,
    )


def _rounded(value: float) -> float:
    return round(value, 2)


def _share(part: float, whole: float) -> float:
    """Return part / whole, 0 where there is no whole to take a share of."""
    if not math.isfinite(whole) or whole == 0:
        return math.nan if math.isnan(whole) else 0.0
    return part / whole
