# SPDX-License-Identifier: Apache-2.0
"""What storage drivers of a cluster say of their capacity: driver, storage for each storage class, pools.

Capacities are bytes. The names are those of the proposal on storage capacity constraints for pod scheduling.
"""

import datetime
from collections.abc import Container, Iterable
from dataclasses import dataclass

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelector

#: Stands for storage that is the same whatever the storage class, where there is no entry for that class.
FALLBACK = "<fallback>"
#: Stands for what inline ephemeral volumes are made of, which have no storage class.
EPHEMERAL = "<ephemeral>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What volumes are made of.

    It is reached from the nodes that ``node_topology`` selects or from those in ``node_list``; from all if there is
    neither. ``capacity`` is what is there, None if that is not known: then nothing fits. ``maximum_volume_size`` is the
    largest volume, if that is less. After ``expires_at``, UTC by the database's clock, the figures are not used. Pools
    of the driver with the same ``backing_id`` draw on the same disks.
    """

    name: str
    node_topology: NodeSelector | None = None
    node_list: tuple[str, ...] | None = None
    capacity: int | None = None
    maximum_volume_size: int | None = None
    expires_at: datetime.datetime | None = None
    backing_id: str | None = None

    def check(self, storage_class: str) -> None:
        """Raise :class:`~tonnage.capacity.errors.InvalidInput` for what cannot be meant."""
        what = f"pool {self.name!r} of storage {storage_class!r}"
        if self.node_topology is not None and self.node_list is not None:
            raise errors.InvalidInput(f"{what} has nodeTopology and nodeList: expected one of them, null for the other")
        if self.node_list is not None:
            if not self.node_list:
                raise errors.InvalidInput(f"{what} has an empty nodeList: expected nodes, or null for all")
            if (name := repeated(self.node_list)) is not None:
                raise errors.InvalidInput(f"{what} names a node twice in nodeList: {name}")


@dataclass(frozen=True, slots=True)
class Storage:
    """What a driver has for a storage class, :data:`FALLBACK` or :data:`EPHEMERAL`."""

    storage_class: str
    pools: tuple[Pool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver. Without ``tracking`` nobody asks for capacities. ``version`` is another one after each change."""

    name: str
    uid: str
    version: int
    tracking: bool | None
    storage: tuple[Storage, ...] = ()
    created_at: datetime.datetime | None = None

    @property
    def resource_version(self) -> str:
        """The version as clients see it: one that is deleted and made again does not have an old one."""
        return f"{self.uid.partition('-')[0]}-{self.version}"


def entry_for(known: Container[str], storage_class: str | None) -> str | None:
    """Return the storage that is asked about volumes of a class, None for inline ephemeral ones; None if there is none.

    One that has no pools, or only expired ones, is asked all the same.
    """
    wanted = EPHEMERAL if storage_class is None else storage_class
    return next((name for name in (wanted, FALLBACK) if name in known), None)


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that was there before, None if each is there once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
