# SPDX-License-Identifier: Apache-2.0
"""The reasons why filters of Cinder refuse a pool, with the codes and the words of Tonnage's own filters."""

from collections.abc import Callable, Mapping
from typing import Any

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools import capability_values
from tonnage.capacity.pools.capability_values import MISSING
from tonnage.extensions.cinder.pools import filter_requests
from tonnage.extensions.cinder.pools.filter_requests import Match

#: The filter that refuses pools in which the volume has failed, by its name in Cinder.
ATTEMPTED = "RetryFilter"

CAPACITY = "CapacityFilter"

#: Returns the reason why a pool is refused by the filter properties; None if the reason is unknown.
Reason = Callable[[Any, Mapping[str, Any]], Rejection | None]


class Reasons:
    """The reasons of filters, by their names. ``match`` is Cinder's comparison of capabilities.

    ``capacity`` returns the figures of a pool. Filters of other projects have no reason that could be told.
    """

    def __init__(self, match: Match, capacity: Reason) -> None:
        self._match = match
        self._reasons: Mapping[str, Reason] = {
            ATTEMPTED: _attempted,
            CAPACITY: capacity,
            "AvailabilityZoneFilter": _zone,
            "CapabilitiesFilter": self._capability,
            "DriverFilter": _filter_function,
        }

    def reason(self, filter_name: str, state: Any, properties: Mapping[str, Any]) -> Rejection:
        """Return the reason why a filter refuses a pool for the request with these filter properties."""
        reason = self._reasons.get(filter_name)
        rejection = None if reason is None else reason(state, properties)
        return rejection or Rejection("refused", "is refused")

    def _capability(self, state: Any, properties: Mapping[str, Any]) -> Rejection | None:
        request = filter_requests.read_request(properties)
        if request.grows_attached and state.capabilities.get("online_extend_support") is False:
            return Rejection("no_online_extend", "extends no volume that is in use")
        for path, spec in filter_requests.required(request.extra_specs):
            value = capability_values.reported(state.capabilities, path)
            if filter_requests.matches(self._match, value, spec):
                continue
            key = ":".join(path)
            if value is MISSING:
                problem = f"does not report {key}, which has to be '{spec}'"
                return Rejection("capability_missing", problem, {"capability": key, "asked": spec})
            problem = f"reports {key} {value!r}, which has to be '{spec}'"
            return Rejection("capability_mismatch", problem, {"capability": key, "asked": spec, "value": str(value)})
        return None


def _attempted(_state: Any, properties: Mapping[str, Any]) -> Rejection:
    tried = len(set((properties.get("retry") or {}).get("backends") or ()))
    text = f"was tried for this volume before (one of {tried} pool{'' if tried == 1 else 's'} tried)"
    return Rejection("attempted", text, {"attempted": tried})


def _zone(state: Any, properties: Mapping[str, Any]) -> Rejection | None:
    zones, zone = filter_requests.read_request(properties).zones, state.service.get("availability_zone")
    if zone in zones:
        return None
    quoted = " or ".join(f"'{name}'" for name in zones)
    text = f"is in availability zone '{zone}', not {quoted}"
    return Rejection("wrong_zone", text, {"availability_zone": zone, "asked": ", ".join(zones)})


def _filter_function(state: Any, _properties: Mapping[str, Any]) -> Rejection | None:
    text = state.filter_function
    if not text:
        return None
    problem = f"has the filter_function '{text}', which does not hold"
    return Rejection("filter_function", problem, {"filter_function": str(text)})
