# SPDX-License-Identifier: Apache-2.0
"""Filters with the names and the verdicts of Cinder's, which judge all pools at once as columns."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tonnage.capacity.expressions.capability_values import MISSING
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning, Request
from tonnage.cinder_adapter.pools import cinder_capacity
from tonnage.cinder_adapter.pools.look_alike_columns import LookAlikeColumns
from tonnage.filters.base import Filter, Mask

#: Whether a capability matches an extra spec: Cinder's own function.
Match = Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True)
class CinderRequest(Request):
    """A request by the filter properties of Cinder.

    ``zones`` are the availability zones that it may be in; none allows all. ``present_pool`` is the pool that has the
    volume already. ``grows_attached`` is true if a volume in use is extended.
    """

    zones: tuple[str, ...] = ()
    present_pool: str | None = None
    grows_attached: bool = False


def read_request(properties: Mapping[str, Any]) -> CinderRequest:
    """Return the request that filter properties describe."""
    spec = properties.get("request_spec") or {}
    zones = spec.get("availability_zones")
    zone = (spec.get("resource_properties") or {}).get("availability_zone")
    size = int(properties.get("size") or 0)
    if properties.get("new_size"):
        size = int(properties["new_size"]) - size
    volume = spec.get("volume_properties") or {}
    # Objects of Cinder have to be given a default, or they look for a missing field in the database.
    asked = ((properties.get("volume_type") or {}).get("extra_specs", {}) or {}).get("provisioning:type")
    return CinderRequest(
        request_id="",
        size_gb=size,
        provisioning=Provisioning.THICK if asked == Provisioning.THICK.value else None,
        extra_specs=(properties.get("resource_type") or {}).get("extra_specs", {}) or {},
        zones=tuple(zones) if zones else (zone,) if zone else (),
        present_pool=properties.get("vol_exists_on"),
        grows_attached=spec.get("operation") == "extend_volume" and volume.get("attach_status") != "detached",
    )


class AvailabilityZoneFilter(Filter):
    """Accepts pools in one of the zones of the request."""

    def __init__(self) -> None:
        super().__init__(None)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the zones."""
        zones = _cinder(request).zones
        mask = np.full(len(pools), not zones)
        for zone in zones:
            mask |= pools.in_zone(zone)
        return mask

    def kept_by(self, request: Request) -> tuple[Hashable, ...]:
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
        for path, spec in _required(request.extra_specs):
            codes, values = pools.capability(*path)
            mask &= _verdicts(self._matches(value, spec) for value in values)[codes]
        return mask

    def kept_by(self, request: Request) -> tuple[Hashable, ...]:
        """Cache the verdicts for each set of specs."""
        return (_cinder(request).grows_attached, *request.extra_specs.items())

    def _matches(self, value: Any, spec: Any) -> bool:
        if value is MISSING:
            return False
        try:
            return any(self._match(each, spec) for each in (value if isinstance(value, list) else [value]))
        except (AttributeError, LookupError, TypeError):  # they cannot be compared
            return False


def _required(extra_specs: Mapping[str, Any]) -> Iterator[tuple[list[str], Any]]:
    """Yield the path of each required capability, and the spec that it has to match."""
    for key, spec in extra_specs.items():
        path = key.split(":")
        if path[0] == "capabilities":
            yield path[1:], spec
        elif len(path) == 1:
            yield path, spec


def _verdicts(values: Iterable[bool]) -> Mask:
    return np.array(list(values), dtype=np.bool_)


def _cinder(request: Request) -> CinderRequest:
    return cast(CinderRequest, request)
