# SPDX-License-Identifier: Apache-2.0
"""Validated figures and capabilities of pools, with the errors and remarks of the validation."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

ALLOCATED = "allocated_capacity_gb"

#: The longest name of a pool or a storage, in characters.
_MAX_NAME = 255

#: The fields that the arithmetic uses. Every other field of a report is a capability.
FIGURES = frozenset(
    {
        "pool_name",
        "total_capacity_gb",
        "free_capacity_gb",
        "provisioned_capacity_gb",
        ALLOCATED,
        "reserved_percentage",
        "max_over_subscription_ratio",
        "thin_provisioning_support",
        "thick_provisioning_support",
        "storage_id",
        "storage_free_capacity_gb",
    }
)

#: The fields of :class:`PoolStats` that are figures, and those that are flags.
FLOATS = ("total", "free", "provisioned", "reserved_percentage", "storage_free")
FLAGS = ("thin", "thick")

#: Optional capacities that get_pools shows and decisions ignore.
SHOWN = ("total_used_capacity_gb", "cinder_used_capacity_gb")


#: The capability by which a driver reports that its storage cannot be used: ``up`` or ``down``, as in Cinder.
BACKEND_STATE = "backend_state"


def is_reported_down(state: object) -> bool:
    """Return whether the value of :data:`BACKEND_STATE` in a report is ``down``."""
    return isinstance(state, str) and state.strip().lower() == "down"


@dataclass(frozen=True, slots=True)
class Remark:
    """A warning about a valid pool. ``code`` is a stable word that does not depend on the values."""

    pool: str
    code: str
    text: str

    def __str__(self) -> str:
        return f"pool {self.pool!r}: {self.text}"


class PoolStats(NamedTuple):
    """The validated report of one pool. Capacities are GiB; ``nan`` is unknown or missing, ``inf`` infinite.

    ``ratio`` is a number, the word ``auto``, or None if the driver leaves it to the scheduler. (A tuple is created in a
    tenth of the time of a frozen dataclass, and a report may have thousands of pools.)
    """

    name: str
    total: float
    free: float
    provisioned: float = math.nan
    reserved_percentage: float = 0.0
    ratio: float | str | None = None
    thin: bool = False
    thick: bool = False
    storage_id: str | None = None
    storage_free: float = math.nan
    capabilities: Mapping[str, Any] = MappingProxyType({})
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsColumns:
    """The validated reports of many pools: a column for each field of :class:`PoolStats`.

    Figures and flags are numpy arrays, the other columns lists. The columns must not be changed.
    """

    name: Sequence[str]
    total: Floats
    free: Floats
    provisioned: Floats
    reserved_percentage: Floats
    ratio: Sequence[float | str | None]
    thin: Flags
    thick: Flags
    storage_id: Sequence[str | None]
    storage_free: Floats
    capabilities: Sequence[Mapping[str, Any]]
    remarks: Sequence[tuple[Remark, ...]]

    @classmethod
    def of(cls, pools: Sequence[PoolStats]) -> Self:
        """Return the columns of these pools."""
        values = map(list, zip(*pools, strict=True)) if pools else itertools.repeat([])
        columns: dict[str, Any] = dict(zip(PoolStats._fields, values, strict=False))
        columns.update({key: np.array(columns[key], dtype=np.float64) for key in FLOATS})
        columns.update({key: np.array(columns[key], dtype=np.bool_) for key in FLAGS})
        return cls(**columns)

    def by_field(self) -> dict[str, Any]:
        """Return a mapping from each field's name to its column."""
        return {key: getattr(self, key) for key in PoolStats._fields}


@dataclass(frozen=True, slots=True)
class BadField:
    """A value that made a pool of a report unusable."""

    pool: str
    field: str
    value: object
    problem: str

    def __str__(self) -> str:
        return f"pool {self.pool!r}: {self.field} is {self.value!r}: {self.problem}"


def is_name(value: object) -> TypeGuard[str]:
    """Return whether a value can be a name. Names appear in logs and SQL: no control characters, no surrogates."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable() and len(value) <= _MAX_NAME
