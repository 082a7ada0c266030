# SPDX-License-Identifier: Apache-2.0
"""The names in expressions and queries: attributes of pools and of a request, with the names of Cinder.

They are read a column at a time, for the rows that are needed, without an object for each pool.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic, elementwise, units
from tonnage.capacity.pools.capability_values import MISSING, reported
from tonnage.capacity.pools.pool import short_name
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request

Rows: TypeAlias = npt.NDArray[np.intp]

#: The namespaces of attributes of pools; the other namespaces are about the request.
OF_POOLS = frozenset({"stats", "capabilities"})

#: Reported names of figures, with the column of each and whether nan means a missing figure.
REPORTED_FIGURES = {
    "total_capacity_gb": ("total", False),
    "free_capacity_gb": ("free", False),
    "provisioned_capacity_gb": ("provisioned", True),
    "allocated_capacity_gb": ("allocated", False),
    "reserved_percentage": ("reserved_percentage", False),
    "max_over_subscription_ratio": ("ratio", False),
    "storage_free_capacity_gb": ("storage_free", True),
}

#: Reported names of flags, with the column of each.
FLAGS = {"thin_provisioning_support": "thin", "thick_provisioning_support": "thick"}

#: Attributes of ``stats`` that are reported capabilities, with the default of each.
_REPORTED_STATS: Mapping[str, object] = {
    "volume_backend_name": MISSING,
    "vendor_name": MISSING,
    "driver_version": MISSING,
    "storage_protocol": MISSING,
    "QoS_support": False,
    "multiattach": False,
    "filter_function": MISSING,
    "goodness_function": MISSING,
}

#: Attributes of ``stats`` that are computed: names, and figures with the claims since the report.
_STATS: Mapping[str, Callable[[PoolTable, Rows], list[Any]]] = {
    "host": lambda pools, rows: [pools.names[row] for row in rows.tolist()],
    "backend_id": lambda pools, rows: [pools.names[row] for row in rows.tolist()],
    "pool_name": lambda pools, rows: [short_name(pools.names[row]) for row in rows.tolist()],
    "availability_zone": lambda pools, rows: [pools.zones[row] for row in rows.tolist()],
    "total_capacity_gb": lambda pools, rows: _to_wire(pools.total[rows]),
    "free_capacity_gb": lambda pools, rows: _to_wire(_derived(pools, arithmetic.physical_free)[rows]),
    "provisioned_capacity_gb": lambda pools, rows: _to_wire(_derived(pools, arithmetic.promised)[rows]),
    "allocated_capacity_gb": lambda pools, rows: pools.allocated[rows].tolist(),
    "in_flight_capacity_gb": lambda pools, rows: pools.in_flight[rows].tolist(),
    "reserved_percentage": lambda pools, rows: pools.reserved_percentage[rows].tolist(),
    "max_over_subscription_ratio": lambda pools, rows: pools.ratio[rows].tolist(),
    "thin_provisioning_support": lambda pools, rows: pools.thin[rows].tolist(),
    "thick_provisioning_support": lambda pools, rows: pools.thick[rows].tolist(),
}

_VOLUME: Mapping[str, Callable[[Request], object]] = {
    "size": operator.attrgetter("size_gb"),
    "operation": lambda request: request.operation.value,
    "project_id": operator.attrgetter("project_id"),
    "volume_type": operator.attrgetter("volume_type"),
    "availability_zone": operator.attrgetter("availability_zone"),
}

#: The names that are no reported capabilities, extra specs or QoS specs.
NAMES = (*(f"volume.{name}" for name in _VOLUME), *(f"stats.{name}" for name in {**_STATS, **_REPORTED_STATS}))


def is_known(path: Sequence[str]) -> bool:
    """Return whether a name can have a value: a fixed one, or one that a pool or a volume type can have."""
    namespace, *keys = path
    if namespace in ("capabilities", "qos", "extra"):
        return True
    if namespace == "stats" and keys[0] in _REPORTED_STATS:
        return True  # further keys reach into a reported value
    return ".".join(path) in NAMES


def stats(pools: PoolTable, rows: Rows, path: Sequence[str]) -> list[Any]:
    """Return an attribute of ``stats`` in these rows, with the claims since the last report."""
    if len(path) == 1 and path[0] in _STATS:
        return _STATS[path[0]](pools, rows)
    default = _REPORTED_STATS.get(path[0], MISSING) if len(path) == 1 else MISSING
    if path[0] not in _REPORTED_STATS:
        return [MISSING] * rows.size
    values = (reported(pools.capabilities[row], path) for row in rows.tolist())
    return [default if value is MISSING else value for value in values]


def capability(pools: PoolTable, rows: Rows, path: Sequence[str]) -> list[Any]:
    """Return a reported capability of these rows; ``path`` has a key for each level of nesting."""
    key = path[0]
    if len(path) == 1:
        if key in FLAGS:
            return list(getattr(pools, FLAGS[key])[rows].tolist())
        if key in REPORTED_FIGURES:
            column, optional = REPORTED_FIGURES[key]
            values = _to_wire(getattr(pools, column)[rows])
            return [MISSING if optional and value == units.UNKNOWN else value for value in values]
        if key == "pool_name":
            return _STATS[key](pools, rows)
    return [reported(pools.capabilities[row], path) for row in rows.tolist()]


def of_request(request: Request, path: Sequence[str]) -> object:
    """Return a value of a request from the namespaces ``volume``, ``qos`` or ``extra``."""
    namespace, *keys = path
    if namespace == "volume":
        value = _VOLUME[keys[0]](request) if len(keys) == 1 and keys[0] in _VOLUME else None
        return MISSING if value is None else value
    if namespace == "qos":
        return reported(request.qos_specs, keys)
    return reported(request.extra_specs, keys) if namespace == "extra" else MISSING


def column(pools: PoolTable, request: Request, rows: Rows, path: Sequence[str]) -> list[Any]:
    """Return the value of a name in each of these rows, :data:`MISSING` if there is none."""
    if path[0] == "stats":
        return stats(pools, rows, path[1:])
    if path[0] == "capabilities":
        return capability(pools, rows, path[1:])
    return [of_request(request, path)] * rows.size


def _derived(pools: PoolTable, compute: Callable[[PoolTable], elementwise.Floats]) -> npt.NDArray[np.float64]:
    return pools.derived(compute, lambda table: np.asarray(compute(table)))


def _to_wire(figures: npt.NDArray[np.float64]) -> list[Any]:
    """Return figures in their form in reports: numbers, ``unknown``, ``infinite``."""
    numbers: list[float] = figures.tolist()
    return numbers if np.isfinite(figures).all() else [units.to_wire(number) for number in numbers]
