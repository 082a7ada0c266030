# SPDX-License-Identifier: Apache-2.0
"""Requests as Cinder's filters judge them: the part of the filter properties that Tonnage reads."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.request import Provisioning, Request

#: Returns whether a capability matches an extra spec: Cinder's own function.
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
    provisioning = ((properties.get("volume_type") or {}).get("extra_specs", {}) or {}).get("provisioning:type")
    return CinderRequest(
        request_id="",
        size_gb=size,
        provisioning=Provisioning.THICK if provisioning == Provisioning.THICK.value else None,
        extra_specs=(properties.get("resource_type") or {}).get("extra_specs", {}) or {},
        zones=tuple(zones) if zones else (zone,) if zone else (),
        present_pool=properties.get("vol_exists_on"),
        grows_attached=spec.get("operation") == "extend_volume" and volume.get("attach_status") != "detached",
    )


def required(extra_specs: Mapping[str, Any]) -> Iterator[tuple[list[str], Any]]:
    """Yield the path of each capability that extra specs require, and the spec that it has to match."""
    for key, spec in extra_specs.items():
        path = key.split(":")
        if path[0] == "capabilities":
            yield path[1:], spec
        elif len(path) == 1:
            yield path, spec


def matches(match: Match, value: Any, spec: Any) -> bool:
    """Return whether a capability matches an extra spec, including one with several values; a missing one does not."""
    if value is MISSING:
        return False
    try:
        return any(match(capability, spec) for capability in (value if isinstance(value, list) else [value]))
    except (AttributeError, LookupError, TypeError):  # they cannot be compared
        return False
