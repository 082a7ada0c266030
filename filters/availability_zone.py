# SPDX-License-Identifier: Apache-2.0
"""Filter that keeps a volume in the availability zones of its request and of its type."""

from collections.abc import Hashable

import numpy as np

from tonnage.capacity import type_specs
from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request
from tonnage.filters.base import Filter, Mask


class AvailabilityZoneFilter(Filter):
    """Accepts pools in the zone that the request names and in one of the zones that its volume type allows.

    A request without a zone, and a type without the extra spec ``RESKEY:availability_zones``, accept every zone. A
    volume that is extended stays where it is, so the zones of its type do not count.
    """

    is_categorical = True
    trigger_fields = ("availability_zone", "extra_specs")

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        accepted = np.ones(len(pools), dtype=np.bool_)
        if request.availability_zone:
            accepted &= pools.in_zone(request.availability_zone)
        allowed = _zones_of_type(request)
        if allowed is not None:
            accepted &= np.any([np.zeros(len(pools), dtype=np.bool_), *map(pools.in_zone, allowed)], axis=0)
        return accepted

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        """Cache one set of verdicts for each zone and zones of types."""
        return (request.availability_zone, _zones_of_type(request))

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the zone of the pool, and the zone or zones that it has to be in."""
        zone, allowed = request.availability_zone, _zones_of_type(request)
        if zone and pool.availability_zone != zone:
            problem = f"is in availability zone '{pool.availability_zone}', not '{zone}'"
            return Rejection("wrong_zone", problem, {"availability_zone": pool.availability_zone, "asked": zone})
        problem = f"is in availability zone '{pool.availability_zone}', and the volume type takes"
        return Rejection(
            "wrong_zone",
            f"{problem} {type_specs.format_zones(allowed or ())}",
            {"availability_zone": pool.availability_zone, "asked": ", ".join(allowed or ())},
        )


def _zones_of_type(request: Request) -> tuple[str, ...] | None:
    """Return the zones that the type of a volume to be placed allows, None for all."""
    return None if request.operation is Operation.EXTEND else type_specs.zones(request.extra_specs)
