# SPDX-License-Identifier: Apache-2.0
"""Over-subscription and capacity arithmetic, written once.

Every function works elementwise: it takes the figures of one pool (floats) or of a whole table (numpy columns of equal
length) and returns a value of the same shape. All capacities and sizes are GiB. Unknown capacities are ``nan``,
infinite ones ``inf``; ``nan`` never decides by comparison.

With ``R = floor(total * reserved_percentage / 100)``, ``P = provisioned + in-flight`` (``P = allocated + others`` where
the driver reports no provisioned capacity), the over-subscription ratio ``M`` and the requested size ``s``:

====================  ============================================================================
thin, ``standard``    ``P + s <= (total - R) * M``
thin, ``cinder``      ``P + s <= total * M`` and ``s <= (free - in-flight thick - R) * M``
thick                 ``s <= free - R - in-flight thick``
====================  ============================================================================

Thin is refused while ``M < 1``. The formulas are those of the OpenStack specs "Over Subscription in Thin Provisioning"
and "Provisioning Improvements", ``standard`` and ``cinder`` being the values of ``over_provisioning_calculation``.
"""

import enum
import math
from typing import Protocol

from tonnage.capacity import elementwise
from tonnage.capacity.elementwise import Bools, Floats

#: Reports carry two decimals and sizes none, so figures that differ at all differ by far more than this (about 1 KiB).
#: It keeps the rounding of binary fractions from refusing a volume that fits exactly.
TOLERANCE_GB = 1e-6

#: Ratio of an ``auto`` pool in which nothing is provisioned yet, and the default of ``max_over_subscription_ratio``.
DEFAULT_RATIO = 20.0


class Calculation(enum.StrEnum):
    """Values of ``over_provisioning_calculation``."""

    CINDER = "cinder"
    STANDARD = "standard"


class Figures(Protocol):
    """The figures that the arithmetic reads: of one pool, or as columns.

    ``in_flight`` and ``in_flight_physical`` are the claims that these figures do not contain yet; ``others`` is added
    to ``allocated`` if no provisioned capacity is reported: other pools on the same storage, and volumes that Tonnage
    did not place. ``storage_room`` is the remaining physical room of a storage that several pools share (``inf`` if it
    is not shared).
    """

    @property
    def total(self) -> Floats: ...
    @property
    def free(self) -> Floats: ...
    @property
    def provisioned(self) -> Floats: ...
    @property
    def allocated(self) -> Floats: ...
    @property
    def others(self) -> Floats: ...
    @property
    def in_flight(self) -> Floats: ...
    @property
    def in_flight_physical(self) -> Floats: ...
    @property
    def storage_room(self) -> Floats: ...
    @property
    def reserved_percentage(self) -> Floats: ...
    @property
    def ratio(self) -> Floats: ...


class KindFigures(Figures, Protocol):
    """The figures, and whether thin volumes are made."""

    @property
    def thin(self) -> Bools: ...


def _reserve(pools: Figures) -> Floats:
    """Return R, the GiB of *total* that must stay unused, floored; ``nan`` or ``inf`` where it cannot be known."""
    reserved = elementwise.floor(pools.total * pools.reserved_percentage / 100 + TOLERANCE_GB)
    return elementwise.where(pools.reserved_percentage == 0, 0.0, reserved)


def _promised(pools: Figures) -> Floats:
    """Return P: provisioned plus in-flight capacity; allocated plus others if no provisioned capacity is reported."""
    missing = pools.provisioned != pools.provisioned
    return elementwise.where(missing, pools.allocated + pools.others, pools.provisioned + pools.in_flight)


def _thin_limit(pools: Figures, calculation: Calculation) -> Floats:
    """Return the largest P that thin volumes may reach; ``inf`` where total is unknown or infinite.

    A pool that makes no thin volumes has this figure too, and does not obey it: see :func:`promise_limit`.
    """
    base = pools.total if calculation is Calculation.CINDER else pools.total - _reserve(pools)
    return elementwise.where(elementwise.finite(pools.total), base * pools.ratio, math.inf)


@elementwise.quiet
def physical_free(pools: Figures) -> Floats:
    """Return ``free - in-flight thick``, bounded by the shared storage and at least 0; ``nan`` where unknown."""
    remaining = elementwise.least(pools.free - pools.in_flight_physical, pools.storage_room)
    return elementwise.where(remaining < 0, 0.0, remaining)


def _physical_room(pools: Figures) -> Floats:
    """Return ``free - R - in-flight thick``, bounded by the shared storage; waived where free is unknown."""
    room = pools.free - pools.in_flight_physical - _reserve(pools)
    return elementwise.least(elementwise.where(elementwise.finite(pools.free), room, math.inf), pools.storage_room)


# The private functions above are for functions that suppress warnings themselves: for a single figure, suppressing
# them takes as long as the calculation.
reserve = elementwise.quiet(_reserve)
promised = elementwise.quiet(_promised)
thin_limit = elementwise.quiet(_thin_limit)
physical_room = elementwise.quiet(_physical_room)


@elementwise.quiet
def promise_limit(pools: KindFigures, calculation: Calculation) -> Floats:
    """Return the largest P of pools: ``total - R`` where no thin volumes are made, else that of thin volumes.

    It is ``inf`` where total is unknown or infinite. A thick volume writes its size at once, so a pool without thin
    volumes promises no more than it has, whatever its ratio.

    Example: with a total of 100 GiB, 10 % reserved and a ratio of 2 a thick pool promises 90 GiB, and a thin one 200
    GiB under the calculation ``cinder``.
    """
    usable = elementwise.where(elementwise.finite(pools.total), pools.total - _reserve(pools), math.inf)
    return elementwise.where(pools.thin, _thin_limit(pools, calculation), usable)


def sound(pools: Figures) -> Bools:
    """Return whether the figures permit a decision: total is positive, or unknown or infinite with nothing to keep.

    There is nothing to keep if nothing is reserved, or if free is unknown or infinite.
    """
    finite_total = (pools.total > 0) & (pools.total < math.inf)
    unbounded = (pools.total != pools.total) | (pools.total == math.inf)
    free_unbounded = (pools.free != pools.free) | (pools.free == math.inf)
    return finite_total | (unbounded & ((pools.reserved_percentage == 0) | free_unbounded))


@elementwise.quiet
def bound(pools: Figures, thin: Bools, calculation: Calculation) -> Floats:
    """Return the size up to which volumes are admitted, tolerance included; ``-inf`` where none are.

    ``thin`` tells where it would be made thin, elsewhere thick.
    """
    room = _physical_room(pools)
    room_thin = _thin_limit(pools, calculation) - _promised(pools)
    if calculation is Calculation.CINDER:
        room_thin = elementwise.least(room_thin, room * pools.ratio)
    room_thin = elementwise.where(pools.ratio >= 1, room_thin, -math.inf)
    return elementwise.where(sound(pools), elementwise.where(thin, room_thin, room) + TOLERANCE_GB, -math.inf)


def admits(pools: Figures, size_gb: Floats, thin: Bools, calculation: Calculation) -> Bools:
    """Return whether a volume of ``size_gb`` fits, thin if ``thin`` is true and thick otherwise."""
    return size_gb <= bound(pools, thin, calculation)


def headroom(pools: Figures, thin: Bools, calculation: Calculation) -> Floats:
    """Return the largest whole size that :func:`admits` lets in right now: 0 if none, ``inf`` without bound."""
    largest = bound(pools, thin, calculation)
    return elementwise.where(largest < 0, 0.0, elementwise.floor(largest))


@elementwise.quiet
def virtual_free(pools: Figures, thin: Bools, calculation: Calculation) -> Floats:
    """Return the weight of the capacity weigher; ``nan`` if total or free is unknown or infinite.

    Thin, ``cinder``: ``total * M - P - R``; thin, ``standard``: ``(total - R) * M - P``; thick: ``free - R - in-flight
    thick``.
    """
    thin_free = _thin_limit(pools, calculation) - _promised(pools)
    if calculation is Calculation.CINDER:
        thin_free = thin_free - _reserve(pools)
    free = elementwise.where(thin, thin_free, _physical_room(pools))
    return elementwise.where(elementwise.finite(pools.total) & elementwise.finite(pools.free), free, math.nan)


@elementwise.quiet
def auto_ratio(total: Floats, free: Floats, provisioned: Floats, allocated: Floats) -> Floats:
    """Return the ratio of pools configured ``auto``: ``1 + provisioned / (total - free + 1)``.

    20 while nothing is provisioned and where total or free is unknown or infinite. Allocated stands in for a missing
    provisioned capacity. Source: the spec "Provisioning Improvements".
    """
    used = total - free
    basis = elementwise.where(provisioned != provisioned, allocated, provisioned)
    ratio = 1 + basis / (elementwise.where(elementwise.finite(used) & (used > 0), used, 0.0) + 1)
    return elementwise.where(elementwise.finite(used) & (basis > 0), ratio, DEFAULT_RATIO)
