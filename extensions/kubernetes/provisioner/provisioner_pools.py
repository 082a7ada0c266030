# SPDX-License-Identifier: Apache-2.0
"""``CSIStorageCapacity`` objects of provisioners as pools of the cluster's drivers.

An object is a pool of its storage class, and the pool is named after the nodes that reach it, because the names of
objects are random and new ones replace old ones. Of several objects for the same class and nodes the one of a working
provisioner counts, and of these the one that was written last.

Classes of a driver with the same parameters, but for those of Kubernetes itself, share their disks on the same nodes: a
provisioner asks the plug-in the same question for them.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.extensions.kubernetes.capacity.claim_sums import PoolKey
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool
from tonnage.extensions.kubernetes.provisioner.provisioner_objects import CapacityObject
from tonnage.extensions.kubernetes.provisioner.provisioner_state import ProvisionerState

#: The name of a pool that all nodes reach.
ALL_NODES = "all nodes"

#: Parameters of classes that do not change the place of a volume.
_FOREIGN_PREFIX = "csi.storage.k8s.io/"
_FILE_SYSTEM = "fstype"

_MAX_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class ClassOfStorage:
    """A storage class: its driver, and its parameters."""

    driver: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProvisionerPool:
    """A pool without an expiry, and the state of the provisioner that keeps its figures."""

    pool: Pool
    state: ProvisionerState


def pools_by_driver(
    capacity_objects: Iterable[CapacityObject],
    classes: Mapping[str, ClassOfStorage],
    states: Mapping[str, ProvisionerState],
    disks: Mapping[str, str],
) -> dict[str, dict[PoolKey, ProvisionerPool]]:
    """Return the pools of each driver.

    ``classes`` are the classes of the cluster by name, ``states`` those of the provisioners by the full name of the
    object. ``disks`` names the disks of some classes: classes with the same name share them. Objects of other classes,
    and those that no node reaches, are left out.
    """
    pools: dict[str, dict[PoolKey, tuple[tuple[bool, int], ProvisionerPool]]] = {}
    for capacity_object in capacity_objects:
        storage_class = classes.get(capacity_object.storage_class_name)
        if storage_class is None or capacity_object.node_topology is None:
            continue
        term = capacity_object.node_topology.term
        state = states.get(capacity_object.full_name, ProvisionerState.UNKNOWN)
        pool = Pool(
            name=_pool_name(term),
            node_topology=NodeSelector(node_selector_terms=(term,)) if term.match_expressions else None,
            capacity=capacity_object.capacity,
            maximum_volume_size=capacity_object.maximum_volume_size,
            backing_id=_backing_id(term, capacity_object.storage_class_name, storage_class, disks),
            object_name=capacity_object.full_name,
            object_version=capacity_object.version,
        )
        rank = (state is ProvisionerState.WORKING, capacity_object.version)
        key, driver_pools = (capacity_object.storage_class_name, pool.name), pools.setdefault(storage_class.driver, {})
        if key not in driver_pools or driver_pools[key][0] < rank:
            driver_pools[key] = rank, ProvisionerPool(pool, state)
    return {driver: {key: ranked[1] for key, ranked in driver_pools.items()} for driver, driver_pools in pools.items()}


def _pool_name(term: NodeSelectorTerm) -> str:
    name = str(term) if term.match_expressions else ALL_NODES
    if len(name) <= _MAX_NAME_LENGTH and name == name.rstrip():
        return name
    return f"nodes {_digest(msgspec.json.encode(term))}"


def _backing_id(
    term: NodeSelectorTerm, class_name: str, storage_class: ClassOfStorage, disks: Mapping[str, str]
) -> str:
    """Return the id of the disks of a class on these nodes."""
    named = disks.get(class_name)
    parameters = {
        key: value
        for key, value in storage_class.parameters.items()
        if not key.startswith(_FOREIGN_PREFIX) and key.lower() != _FILE_SYSTEM
    }
    content = msgspec.json.encode([term, named if named is not None else sorted(parameters.items())])
    return f"provisioner {_digest(content)}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
