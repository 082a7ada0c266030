# SPDX-License-Identifier: Apache-2.0
"""Replacements for plug-ins of Cinder, which judge all pools at once, where the configuration asks for them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from cinder.scheduler import base_weight
from cinder.scheduler.filters import availability_zone_filter, capabilities_filter, capacity_filter, extra_specs_ops
from cinder.scheduler.weights import WeighedHost, capacity

from tonnage.extensions.cinder.pools import cinder_capacity, filter_requests, native_filters
from tonnage.extensions.cinder.pools.filter_requests import CinderRequest
from tonnage.extensions.cinder.pools.known_pools import Pools
from tonnage.extensions.cinder.pools.ranking import Ranking, Weights, scaled
from tonnage.filters.base import Filter
from tonnage.filters.chain import FilterChain

#: By class, not by name: a class of another project with such a name is another filter.
_FILTERS: Mapping[type, Filter] = {
    availability_zone_filter.AvailabilityZoneFilter: native_filters.AvailabilityZoneFilter(),
    capacity_filter.CapacityFilter: native_filters.CapacityFilter(),
    capabilities_filter.CapabilitiesFilter: native_filters.CapabilitiesFilter(extra_specs_ops.match),
}


class NativePlugins:
    """The native filters and weighers that replace Cinder's classes with these names."""

    def __init__(self, filters: Collection[str] = (), weighers: Collection[str] = ()) -> None:
        self._filters = {cls: native for cls, native in _FILTERS.items() if cls.__name__ in filters}
        self._weighs_capacity = capacity.CapacityWeigher.__name__ in weighers
        self._chains: dict[tuple[type, ...], FilterChain] = {}

    def replace(self, filters: Collection[type], weighers: Collection[type]) -> bool:
        """Return whether there are native plug-ins in place of all these classes."""
        weighs = self._weighs_capacity and set(weighers) == {capacity.CapacityWeigher}
        return weighs and self._filters.keys() >= set(filters)

    def split(self, classes: Sequence[type]) -> tuple[FilterChain, list[type]]:
        """Return the native filters in place of some of these classes, and the other classes."""
        native = tuple(cls for cls in classes if cls in self._filters)
        chain = self._chains.setdefault(native, FilterChain([self._filters[cls] for cls in native]))
        return chain, [cls for cls in classes if cls not in self._filters]

    def rank(self, pools: Pools, classes: Sequence[type], properties: Mapping[str, Any]) -> Ranking[Any] | None:
        """Return the order of at least one pool by these weighers of Cinder; None if all are for Cinder to ask."""
        if capacity.CapacityWeigher not in classes or not self._weighs_capacity:
            return None
        totals = np.zeros(len(pools))
        for cls in classes:
            weigher = cls()
            native = None
            if cls is capacity.CapacityWeigher:
                native = _capacity_weights(pools, filter_requests.read_request(properties), weigher.weight_multiplier())
            if native is None:
                native = _weights_by_cinder(weigher, pools, totals, properties)
            totals += weigher.weight_multiplier() * native
        return Ranking(totals, lambda index, weight: WeighedHost(pools[index], weight))


def _capacity_weights(pools: Pools, request: CinderRequest, multiplier: float) -> Weights | None:
    """Return the scaled weights of Cinder's CapacityWeigher; None if unknown capacities have to come first."""
    free = cinder_capacity.virtual_free_thick if request.provisioning else cinder_capacity.virtual_free_thin
    raw = pools.columns.computed(free)[pools.rows]
    unknown = np.isnan(raw)
    if unknown.any():
        if multiplier <= 0:
            return None
        raw[unknown] = -1
    return scaled(raw, raw.min(), raw.max())


def _weights_by_cinder(weigher: Any, pools: Pools, totals: Weights, properties: Mapping[str, Any]) -> Weights:
    """Return the scaled weights of a weigher of Cinder, which sees all pools with their weights so far."""
    weighed = [WeighedHost(state, total) for state, total in zip(pools, totals.tolist(), strict=True)]
    raw = weigher.weigh_objects(weighed, properties)
    return np.array(list(base_weight.normalize(raw, minval=weigher.minval, maxval=weigher.maxval)), dtype=np.float64)
