# SPDX-License-Identifier: Apache-2.0
"""Filters with the names and the verdicts of Cinder's, which judge all pools at once as columns."""

from collections.abc import Hashable, Iterable
from typing import cast

import numpy as np

from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.extensions.cinder.pools import cinder_capacity, filter_requests
from tonnage.extensions.cinder.pools.filter_requests import CinderRequest, Match
from tonnage.extensions.cinder.pools.look_alike_columns import LookAlikeColumns
from tonnage.filters.base import Filter, Mask


class AvailabilityZoneFilter(Filter):
    """Accepts pools in one of the zones of the request."""

    def __init__(self) -> None:
        super().__init__(None)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        zones = _cinder(request).zones
        mask = np.full(len(pools), not zones)
        for zone in zones:
            mask |= pools.in_zone(zone)
        return mask

    def cache_key(self, request: Request) -> tuple[Hashable, ...]:
        """Cache the verdicts for each set of zones."""
        return _cinder(request).zones


class CapacityFilter(Filter):
    """Accepts pools with room, by Cinder's arithmetic."""

    def __init__(self) -> None:
        super().__init__(None)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the requested size with the largest that each pool takes."""
        if request.size_gb == 0:
            return np.ones(len(pools), dtype=np.bool_)
        largest = cinder_capacity.largest_thick if request.provisioning else cinder_capacity.largest_thin
        mask: Mask = cast(LookAlikeColumns, pools).computed(largest) >= request.size_gb
        present = _cinder(request).present_pool
        row = None if present is None else pools.index(present)
        if row is not None:
            mask[row] = True
        return mask


class CapabilitiesFilter(Filter):
    """Accepts pools whose capabilities match the extra specs, by Cinder's own operators."""

    def __init__(self, match: Match) -> None:
        super().__init__(None)
        self._match = match

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Match each distinct value once, not each pool."""
        mask = np.ones(len(pools), dtype=np.bool_)
        if _cinder(request).grows_attached:
            codes, values = pools.capability("online_extend_support")
            mask &= _verdicts(value is not False for value in values)[codes]
        for path, spec in filter_requests.required(request.extra_specs):
            codes, values = pools.capability(*path)
            mask &= _verdicts(filter_requests.matches(self._match, value, spec) for value in values)[codes]
        return mask

    def cache_key(self, request: Request) -> tuple[Hashable, ...]:
        """Cache the verdicts for each set of specs."""
        return (_cinder(request).grows_attached, *request.extra_specs.items())


def _verdicts(values: Iterable[bool]) -> Mask:
    return np.array(list(values), dtype=np.bool_)


def _cinder(request: Request) -> CinderRequest:
    return cast(CinderRequest, request)
