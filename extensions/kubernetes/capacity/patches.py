# SPDX-License-Identifier: Apache-2.0
"""Patches of a driver's storage. Several writers send them, each for its own pools.

They are Kubernetes' strategic merge patches. Lists are merged by storage class and by pool name. Absent keys stay
unchanged, ``null`` removes a value, and ``"$patch": "delete"`` removes an element of a list.
"""

import datetime
from dataclasses import replace
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool, first_duplicate
from tonnage.extensions.kubernetes.cluster.quantities import Quantity

#: A name. MariaDB ignores trailing spaces in comparisons, so a name must not end with one.
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern="[^ ]$")]
Timestamp = Annotated[datetime.datetime, msgspec.Meta(tz=True)]

T = TypeVar("T")

#: The range of times that databases can store.
_FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


class PoolPatch(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A patch of a pool."""

    name: Name
    node_topology: NodeSelector | UnsetType | None = UNSET
    node_list: tuple[Name, ...] | UnsetType | None = UNSET
    capacity: Quantity | UnsetType | None = UNSET
    maximum_volume_size: Quantity | UnsetType | None = UNSET
    expiry_time: Timestamp | UnsetType | None = UNSET
    backing_id: Name | UnsetType | None = UNSET
    directive: Literal["delete"] | UnsetType = msgspec.field(default=UNSET, name="$patch")

    @property
    def deletes(self) -> bool:
        """Return whether the patch removes the pool."""
        return self.directive is not UNSET


class StoragePatch(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A patch of a storage."""

    storage_class_name: Name
    pools: tuple[PoolPatch, ...] | UnsetType | None = UNSET
    directive: Literal["delete"] | UnsetType = msgspec.field(default=UNSET, name="$patch")

    @property
    def deletes(self) -> bool:
        """Return whether the patch removes the storage with its pools."""
        return self.directive is not UNSET


class StatusPatch(msgspec.Struct, forbid_unknown_fields=True):
    """A patch of the status, which the writers of the driver's storage own."""

    storage: tuple[StoragePatch, ...] | UnsetType | None = UNSET


class SpecPatch(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A patch of the spec, which the deployment of the driver owns."""

    capacity_tracking: bool | UnsetType | None = UNSET


class MetadataPatch(msgspec.Struct, rename="camel"):
    """Metadata. With a ``resourceVersion`` the patch applies only if the driver has that version."""

    name: str | None = None
    resource_version: str | None = None


class DriverPatch(msgspec.Struct):
    """A patch of a driver."""

    metadata: MetadataPatch | None = None
    spec: SpecPatch | UnsetType | None = UNSET
    status: StatusPatch | UnsetType | None = UNSET

    def storage(self) -> tuple[StoragePatch, ...] | None:
        """Return the patches of storages, None if the patch removes all storage.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for duplicate storages or pools.
        """
        if isinstance(self.status, UnsetType):
            return ()
        storage = None if self.status is None else self.status.storage
        if isinstance(storage, UnsetType):
            return ()
        for storage_patch in storage or ():
            pools = storage_patch.pools if isinstance(storage_patch.pools, tuple) else ()
            if (name := first_duplicate(pool.name for pool in pools)) is not None:
                raise errors.InvalidInput(f"storage {storage_patch.storage_class_name!r} has pool {name!r} twice")
        if (name := first_duplicate(patch.storage_class_name for patch in storage or ())) is not None:
            raise errors.InvalidInput(f"status.storage has {name!r} twice")
        return storage


def apply(pool: Pool, patch: PoolPatch) -> Pool:
    """Return a patched pool. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a time out of range."""
    return replace(
        pool,
        node_topology=_value_or(patch.node_topology, pool.node_topology),
        node_list=_value_or(patch.node_list, pool.node_list),
        capacity=_size_or(patch.capacity, pool.capacity),
        maximum_volume_size=_size_or(patch.maximum_volume_size, pool.maximum_volume_size),
        expires_at=_time_or(patch, pool.expires_at),
        backing_id=_value_or(patch.backing_id, pool.backing_id),
    )


def _value_or(value: T | UnsetType, old: T) -> T:
    return old if isinstance(value, UnsetType) else value


def _size_or(value: Quantity | UnsetType | None, old: int | None) -> int | None:
    if isinstance(value, UnsetType):
        return old
    return None if value is None else int(value)


def _time_or(patch: PoolPatch, old: datetime.datetime | None) -> datetime.datetime | None:
    value = patch.expiry_time
    if isinstance(value, UnsetType):
        return old
    if value is None:
        return None
    if value < _FIRST:
        raise errors.InvalidInput(f"expiryTime of pool {patch.name!r} is in {value.year}: expected 1970 to 9999")
    # The end of the year 9999 means never. In UTC it may be a few hours later.
    return min(value, _LAST).astimezone(datetime.UTC).replace(tzinfo=None)
