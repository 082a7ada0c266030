# SPDX-License-Identifier: Apache-2.0
"""Changes of a driver's storage, as many writers send them, each for its own pools.

They are Kubernetes' strategic merge patches: lists are merged by storage class and by the pool's name, what is not
named stays, ``null`` takes a value away, and ``"$patch": "delete"`` an element of a list.
"""

import datetime
from dataclasses import replace
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.k8s.capacity.driver_storage import Pool, repeated
from tonnage.k8s.capacity.quantities import Quantity

#: MariaDB compares texts without the spaces at their end.
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern="[^ ]$")]
Time = Annotated[datetime.datetime, msgspec.Meta(tz=True)]

T = TypeVar("T")

#: What databases can keep, with a day to spare for the zone.
_FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)


class PoolPatch(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A pool, as far as it changes."""

    name: Name
    node_topology: NodeSelector | UnsetType | None = UNSET
    node_list: tuple[Name, ...] | UnsetType | None = UNSET
    capacity: Quantity | UnsetType | None = UNSET
    maximum_volume_size: Quantity | UnsetType | None = UNSET
    expiry_time: Time | UnsetType | None = UNSET
    backing_id: Name | UnsetType | None = UNSET
    directive: Literal["delete"] | UnsetType = msgspec.field(default=UNSET, name="$patch")

    @property
    def deletes(self) -> bool:
        """Whether the pool goes."""
        return self.directive is not UNSET


class StoragePatch(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A storage, as far as it changes."""

    storage_class_name: Name
    pools: tuple[PoolPatch, ...] | UnsetType | None = UNSET
    directive: Literal["delete"] | UnsetType = msgspec.field(default=UNSET, name="$patch")

    @property
    def deletes(self) -> bool:
        """Whether the storage goes, with its pools."""
        return self.directive is not UNSET


class StatusPatch(msgspec.Struct, forbid_unknown_fields=True):
    """What the writers tell."""

    storage: tuple[StoragePatch, ...] | UnsetType | None = UNSET


class SpecPatch(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What the deployment of the driver tells."""

    capacity_tracking: bool | UnsetType | None = UNSET


class MetadataPatch(msgspec.Struct, rename="camel"):
    """With a ``resourceVersion`` the change is made only if the driver is still the one of that version."""

    name: str | None = None
    resource_version: str | None = None


class DriverPatch(msgspec.Struct):
    """A driver, as far as it changes."""

    metadata: MetadataPatch | None = None
    spec: SpecPatch | UnsetType | None = UNSET
    status: StatusPatch | UnsetType | None = UNSET

    def storage(self) -> tuple[StoragePatch, ...] | None:
        """Return the storage that changes, None if all of it goes.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for one that is named twice, or has a pool twice.
        """
        if isinstance(self.status, UnsetType):
            return ()
        storage = None if self.status is None else self.status.storage
        if isinstance(storage, UnsetType):
            return ()
        for each in storage or ():
            pools = each.pools if isinstance(each.pools, tuple) else ()
            if (name := repeated(pool.name for pool in pools)) is not None:
                raise errors.InvalidInput(f"storage {each.storage_class_name!r} has pool {name!r} twice")
        if (name := repeated(each.storage_class_name for each in storage or ())) is not None:
            raise errors.InvalidInput(f"status.storage has {name!r} twice")
        return storage


def merged(pool: Pool, patch: PoolPatch) -> Pool:
    """Return a pool after a change. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a time out of range."""
    return replace(
        pool,
        node_topology=_new(patch.node_topology, pool.node_topology),
        node_list=_new(patch.node_list, pool.node_list),
        capacity=_size(patch.capacity, pool.capacity),
        maximum_volume_size=_size(patch.maximum_volume_size, pool.maximum_volume_size),
        expires_at=_time(patch, pool.expires_at),
        backing_id=_new(patch.backing_id, pool.backing_id),
    )


def _new(value: T | UnsetType, old: T) -> T:
    return old if isinstance(value, UnsetType) else value


def _size(value: Quantity | UnsetType | None, old: int | None) -> int | None:
    if isinstance(value, UnsetType):
        return old
    return None if value is None else int(value)


def _time(patch: PoolPatch, old: datetime.datetime | None) -> datetime.datetime | None:
    value = patch.expiry_time
    if isinstance(value, UnsetType):
        return old
    if value is None:
        return None
    if not _FIRST <= value <= _LAST:
        raise errors.InvalidInput(f"expiryTime of pool {patch.name!r} is in {value.year}: expected 1970 to 9999")
    return value.astimezone(datetime.UTC).replace(tzinfo=None)
