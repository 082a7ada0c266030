# SPDX-License-Identifier: Apache-2.0
"""Capacity factors: the steps from the figures of a pool to its headroom.

The first twelve fields are those of the OpenStack spec "Add Capacity Factors to scheduler get pools API"; the others
are additions. A pool has one set of factors for each provisioning type that it supports.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tonnage.capacity import arithmetic, elementwise, units
from tonnage.capacity.elementwise import Floats
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Provisioning


class CapacityFactors(NamedTuple):
    """The factors of one pool for one provisioning type, in GiB, rounded to two decimals.

    Figures that follow from an unknown or infinite capacity are ``nan`` or ``inf``. ``maximum_volume_size`` is the
    headroom: the largest volume that the capacity filter accepts now, with in-flight capacity counted.
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
    """Return the factors of ``pool``, thick first. A pool that supports neither type has those of thick."""
    return factors_of_all(PoolTable([pool]), calculation)[0]


def factors_of_all(pools: PoolTable, calculation: arithmetic.Calculation) -> list[tuple[CapacityFactors, ...]]:
    """Return the factors of each row."""
    factors_by_row: list[list[CapacityFactors]] = [[] for _ in range(len(pools))]
    for rows, columns in _columns_by_type(pools, calculation):
        values_of = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns)
        for row, values in zip(rows, zip(*values_of, strict=True), strict=True):
            factors_by_row[row].append(CapacityFactors._make(values))
    return [tuple(factors) for factors in factors_by_row]


def wire_factors(pools: PoolTable, calculation: arithmetic.Calculation) -> list[list[dict[str, Any]]]:
    """Return the factors of each row as dictionaries, with the words ``unknown`` and ``infinite`` for such figures."""
    factors_by_row: list[list[dict[str, Any]]] = [[] for _ in range(len(pools))]
    for rows, columns in _columns_by_type(pools, calculation):
        values_of = (units.column_to_wire(column) if isinstance(column, np.ndarray) else column for column in columns)
        for row, values in zip(rows, zip(*values_of, strict=True), strict=True):
            factors_by_row[row].append(dict(zip(CapacityFactors._fields, values, strict=True)))
    return factors_by_row


def _columns_by_type(pools: PoolTable, calculation: arithmetic.Calculation) -> Iterator[tuple[list[int], list[Any]]]:
    """Yield, for each provisioning type, the rows that have factors of that type, and the factors as columns."""
    for provisioning_type, mask in ((Provisioning.THICK, ~pools.thin | pools.thick), (Provisioning.THIN, pools.thin)):
        rows = np.flatnonzero(mask)
        if rows.size:
            yield rows.tolist(), _factors(pools.take(rows), provisioning_type, calculation)


@elementwise.quiet
def _factors(pools: PoolTable, provisioning_type: Provisioning, calculation: arithmetic.Calculation) -> list[Any]:
    thin = provisioning_type is Provisioning.THIN
    reserved = arithmetic.reserve(pools)
    after_reserve = pools.total - reserved
    available = after_reserve * pools.ratio if thin else after_reserve
    # As reported: in-flight capacity is in its own field and in maximum_volume_size.
    provisioned = elementwise.where(np.isnan(pools.provisioned), pools.allocated, pools.provisioned)
    calculated_free = available - provisioned
    bounded = elementwise.where(np.isnan(pools.free), calculated_free, elementwise.least(calculated_free, pools.free))
    virtual_free = calculated_free if thin else bounded
    columns: dict[str, Any] = {
        "total_capacity": pools.total,
        "free_capacity": pools.free,
        "reserved_capacity": reserved,
        "total_reserved_available_capacity": after_reserve,
        "max_over_subscription_ratio": pools.ratio if thin else None,
        "total_available_capacity": available,
        "provisioned_capacity": provisioned,
        "calculated_free_capacity": calculated_free,
        "virtual_free_capacity": virtual_free,
        "free_percent": _share(virtual_free, available) * 100,
        "provisioned_ratio": _share(provisioned, available),
        "provisioned_type": provisioning_type.value,
        "allocated_capacity": pools.allocated,
        "in_flight_capacity": pools.in_flight,
        "maximum_volume_size": arithmetic.headroom(pools, np.full(len(pools), thin), calculation),
        "over_provisioning_calculation": calculation.value,
    }
    return [
        elementwise.two_decimals(column) if isinstance(column, np.ndarray) else [column] * len(pools)
        for column in map(columns.__getitem__, CapacityFactors._fields)
    ]


def _share(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, or 0 if whole is 0 or infinite."""
    is_divisor = elementwise.finite(whole) & (whole != 0)
    share = part / elementwise.where(is_divisor, whole, 1.0)
    return elementwise.where(is_divisor, share, elementwise.where(np.isnan(whole), math.nan, 0.0))
