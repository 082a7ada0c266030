# SPDX-License-Identifier: Apache-2.0
"""The numbers in the refusal of a pool by Cinder's CapacityFilter."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tonnage.capacity.decision import NO_CAPACITY, Rejection
from tonnage.extensions.cinder.pools import cinder_capacity, filter_requests


def rejection(state: Any, properties: Mapping[str, Any]) -> Rejection:
    """Return the figures by which a pool is judged."""
    room = headroom(state, properties)
    needed = filter_requests.read_request(properties).size_gb
    row = getattr(state, "row", None)
    in_flight = 0 if row is None else row.counters.in_flight
    numbers = {
        "headroom": room,
        "needed": float(needed),
        "total": _number(state.total_capacity_gb),
        "free": _number(state.free_capacity_gb),
        "provisioned": _number(state.provisioned_capacity_gb),
        "in_flight": float(in_flight),
        "reserved_percentage": _number(state.reserved_percentage),
        "ratio": _number(state.max_over_subscription_ratio),
    }
    text = (
        f"has headroom {room:.2f} GiB (needed {needed}, total {_text(state.total_capacity_gb)}, "
        f"free {_text(state.free_capacity_gb)}, "
        f"provisioned {_text(state.provisioned_capacity_gb)} with {in_flight} in flight, "
        f"reserved {_text(state.reserved_percentage)} %, ratio {_text(state.max_over_subscription_ratio)})"
    )
    return Rejection(NO_CAPACITY, text, numbers)


def largest_size(state: Any, properties: Mapping[str, Any]) -> float:
    """Return the largest size in GiB that Cinder's CapacityFilter accepts, 0 if none; infinite without a limit."""
    asks_thick = _extra_specs(properties).get("provisioning:type") == "thick"
    largest = cinder_capacity.largest_thick(state) if asks_thick else cinder_capacity.largest_thin(state)
    return max(0.0, largest)


def headroom(state: Any, properties: Mapping[str, Any]) -> float:
    """Return the same of a pool that CapacityFilter has refused."""
    largest = largest_size(state, properties)
    return largest if math.isfinite(largest) else 0.0


def may_be_counted_twice(states: Sequence[Any], properties: Mapping[str, Any]) -> bool:
    """Return whether a pool would take the volume if its figures contained the claims in flight.

    Figures may show a volume before its row is seen to be at rest. Until the next report it counts twice.
    """
    growth = int(properties.get("new_size") or 0) - int(properties.get("size") or 0)
    size = growth if properties.get("new_size") else int(properties.get("size") or 0)
    return any(size <= headroom(state, properties) + _doubled(state) for state in states)


def _doubled(state: Any) -> float:
    """Return the most that a pool may count twice, in GiB."""
    row = getattr(state, "row", None)
    provisioned = state.provisioned_capacity_gb
    if row is None or row.counters.in_flight == 0 or not isinstance(provisioned, (int, float)):
        return 0.0
    beyond_claims = provisioned - row.counters.allocated
    return float(min(max(0.0, beyond_claims), row.counters.in_flight))


def is_thin(state: Any, properties: Mapping[str, Any]) -> bool:
    """Return whether Cinder judges a volume as thin in a pool."""
    return bool(state.thin_provisioning_support) and _extra_specs(properties).get("provisioning:type") != "thick"


def _extra_specs(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    # An object of Cinder has to be given a default, or it looks for a missing field in the database.
    return (properties.get("volume_type") or {}).get("extra_specs", {}) or {}


def _number(value: Any) -> float | str | None:
    return float(value) if isinstance(value, (int, float)) else None if value is None else str(value)


def _text(value: Any) -> str:
    if value is None:
        return "not reported"
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
