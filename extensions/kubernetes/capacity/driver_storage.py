# SPDX-License-Identifier: Apache-2.0
"""The storage of a cluster's drivers: a driver, its storage for each storage class, and the pools of a storage.

Capacities are bytes. The names are those of the Kubernetes proposal on storage capacity constraints for pod scheduling.
"""

import datetime
from collections.abc import Container, Iterable
from dataclasses import dataclass

from tonnage.capacity import errors
from tonnage.capacity.topology.node_selectors import NodeSelector

#: The storage of all storage classes that have no entry of their own.
FALLBACK = "<fallback>"
#: The storage of inline ephemeral volumes, which have no storage class.
EPHEMERAL = "<ephemeral>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool of storage for volumes.

    It is accessible from the nodes that ``node_topology`` selects or from those in ``node_list``; from all nodes if
    both are None. ``capacity`` is None if it is unknown, and then no volume fits. ``maximum_volume_size`` is the
    largest volume, if that is less than the capacity. After ``expires_at``, UTC by the database's clock, the figures
    are not used. Pools of the driver with the same ``backing_id`` draw on the same disks.

    ``object_name``, ``namespace/name``, and ``object_version`` are those of the ``CSIStorageCapacity`` object of
    another program that the figures come from, None for other figures.
    """

    name: str
    node_topology: NodeSelector | None = None
    node_list: tuple[str, ...] | None = None
    capacity: int | None = None
    maximum_volume_size: int | None = None
    expires_at: datetime.datetime | None = None
    backing_id: str | None = None
    object_name: str | None = None
    object_version: int | None = None

    def validate(self, storage_class: str) -> None:
        """Raise :class:`~tonnage.capacity.errors.InvalidInput` if the accessibility of the pool is invalid."""
        subject = f"pool {self.name!r} of storage {storage_class!r}"
        if self.node_topology is not None and self.node_list is not None:
            raise errors.InvalidInput(
                f"{subject} has nodeTopology and nodeList: expected one of them, null for the other"
            )
        if self.node_list is not None:
            if not self.node_list:
                raise errors.InvalidInput(f"{subject} has an empty nodeList: expected nodes, or null for all")
            if (name := first_duplicate(self.node_list)) is not None:
                raise errors.InvalidInput(f"{subject} names a node twice in nodeList: {name}")


@dataclass(frozen=True, slots=True)
class Storage:
    """The pools of a driver for a storage class, :data:`FALLBACK` or :data:`EPHEMERAL`."""

    storage_class: str
    pools: tuple[Pool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver. Its capacity counts only with ``tracking``. ``version`` is different after each change."""

    name: str
    uid: str
    version: int
    tracking: bool | None
    storage: tuple[Storage, ...] = ()
    created_at: datetime.datetime | None = None

    @property
    def resource_version(self) -> str:
        """The version for clients. A driver that was deleted and created again never has a former version."""
        return f"{self.uid.partition('-')[0]}-{self.version}"


def storage_for_class(storages: Container[str], storage_class: str | None) -> str | None:
    """Return the name of the storage that serves a storage class, None if there is none.

    A ``storage_class`` of None stands for inline ephemeral volumes. A storage without pools, or with expired pools
    only, takes precedence over the fallback as well.
    """
    storage_name = EPHEMERAL if storage_class is None else storage_class
    return next((name for name in (storage_name, FALLBACK) if name in storages), None)


def first_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs for the second time, None if all are different."""
    earlier_names: set[str] = set()
    for name in names:
        if name in earlier_names:
            return name
        earlier_names.add(name)
    return None
