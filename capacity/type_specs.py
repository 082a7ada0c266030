# SPDX-License-Identifier: Apache-2.0
"""The extra specs of volume types that limit requests, and do not describe the capabilities of pools.

They are those of Cinder. Their scopes are reserved: a type cannot have other keys in them.
"""

import re
from collections.abc import Mapping

from tonnage.capacity import errors
from tonnage.capacity.request import PROVISIONING_SPEC, requested_provisioning

#: The smallest and the largest size of the type's volumes, in GiB.
MIN_SIZE = "provisioning:min_vol_size"
MAX_SIZE = "provisioning:max_vol_size"
#: The availability zones of the type's volumes, separated by commas.
ZONES = "RESKEY:availability_zones"
#: Whether a volume that cannot grow in its pool, for lack of room, may move to another pool for it.
EXTEND_BY_MIGRATION = "provisioning:extend_by_migration"
SEPARATOR = ","

#: The specs that are obeyed with any filters.
LIMITS = (PROVISIONING_SPEC, MIN_SIZE, MAX_SIZE, EXTEND_BY_MIGRATION)
KEYS = (*LIMITS, ZONES)

#: Regular expressions of the values.
SIZE_PATTERN = "^[0-9]{1,10}$"
ZONES_PATTERN = r"[^\s,]"
FLAG_PATTERN = "^(<is> )?([Tt]rue|[Ff]alse)$"

_RESERVED = tuple({key.partition(":")[0] + ":": None for key in KEYS})


def check(specs: Mapping[str, str]) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for specs that a type cannot have."""
    for key, value in specs.items():
        if key.startswith(_RESERVED) and key not in KEYS:
            scope = key.partition(":")[0]
            known = ", ".join(name for name in KEYS if name.startswith(f"{scope}:"))
            raise errors.InvalidInput(f"there is no extra spec {key}: the scope {scope} has {known}")
        if key == ZONES and not re.search(ZONES_PATTERN, value):
            raise errors.InvalidInput(f"extra spec {key} is {value!r}; it takes names of zones, as in 'north, south'")
    requested_provisioning(specs)
    extends_by_migration(specs)
    smallest, largest = _size(specs, MIN_SIZE), _size(specs, MAX_SIZE)
    if smallest is not None and largest is not None and smallest > largest:
        raise errors.InvalidInput(
            f"extra spec {MIN_SIZE} is {smallest} and {MAX_SIZE} is {largest}: no volume has such a size"
        )


def extends_by_migration(specs: Mapping[str, str]) -> bool:
    """Return whether a type's volumes may move to grow.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a value that is neither true nor false.
    """
    value = specs.get(EXTEND_BY_MIGRATION, "false").strip()
    if not re.fullmatch(FLAG_PATTERN, value):
        raise errors.InvalidInput(
            f"extra spec {EXTEND_BY_MIGRATION} is {value!r}; it takes '<is> True' or '<is> False'"
        )
    return value.lower().endswith("true")


def zones(specs: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the availability zones that a type's volumes may be in, None if it allows every zone."""
    if ZONES not in specs:
        return None
    return tuple(name for part in specs[ZONES].split(SEPARATOR) if (name := part.strip()))


def require_size(specs: Mapping[str, str], type_name: str, size_gb: int) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` if the type has no volumes of a size in GiB."""
    smallest, largest = _size(specs, MIN_SIZE), _size(specs, MAX_SIZE)
    # The texts are those of Cinder.
    if smallest is not None and size_gb < smallest:
        raise errors.InvalidInput(
            f"Specified volume size of '{size_gb}' is less than the minimum required size of '{smallest}' for volume "
            f"type '{type_name}'."
        )
    if largest is not None and size_gb > largest:
        raise errors.InvalidInput(
            f"Specified volume size of '{size_gb}' is greater than the maximum allowable size of '{largest}' for "
            f"volume type '{type_name}'."
        )


def require_zone(specs: Mapping[str, str], type_name: str, zone: str | None) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` if the type has no volumes in a requested zone."""
    allowed = zones(specs)
    if zone and allowed is not None and zone not in allowed:
        raise errors.InvalidInput(
            f"Availability zone '{zone}' is invalid: volume type '{type_name}' takes {format_zones(allowed)}."
        )


def format_zones(names: tuple[str, ...]) -> str:
    """Return the names of zones for a message: ``'north' or 'south'``."""
    return " or ".join(f"'{name}'" for name in names) or "no zone"


def _size(specs: Mapping[str, str], key: str) -> int | None:
    value = specs.get(key)
    if value is None:
        return None
    if not re.fullmatch(SIZE_PATTERN, value.strip()):
        raise errors.InvalidInput(f"extra spec {key} is {value!r}; it takes a whole number of GiB")
    return int(value)
