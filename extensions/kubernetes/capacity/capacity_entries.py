# SPDX-License-Identifier: Apache-2.0
"""The ``CSIStorageCapacity`` entries of a driver for kube-scheduler: one for each pool of a storage class.

Entries hold less than pools do. Their topology is a label selector, whose expressions all have to match and use four
operators only. Entries have no fallback class, no inline ephemeral volumes and no expiry.
"""

import datetime
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from tonnage.capacity.topology.node_selectors import NodeSelectorRequirement, NodeSelectorTerm, Operator
from tonnage.extensions.kubernetes.capacity import pool_columns
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim, ClaimSums, PoolKey
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool, storage_for_class
from tonnage.extensions.kubernetes.cluster.nodes import Node

#: The label with a node's name. Label selectors cannot match the name itself.
HOSTNAME = "kubernetes.io/hostname"

#: The operators of label selectors.
_LABEL_OPERATORS = frozenset({Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST})


@dataclass(frozen=True, slots=True)
class CapacityEntry:
    """An entry. Sizes are bytes. Nodes that match the ``selector`` have access to the pool, all nodes if it is empty.

    ``maximum_volume_size`` is at most ``capacity``: if it is set, kube-scheduler ignores the capacity.
    """

    driver: str
    storage_class: str
    selector: tuple[NodeSelectorRequirement, ...]
    capacity: int
    maximum_volume_size: int | None


def build_entries(
    driver: Driver,
    classes: Collection[str],
    nodes: Collection[Node],
    now: datetime.datetime,
    claims: Collection[ActiveClaim] = (),
) -> dict[str, CapacityEntry]:
    """Return the entries of a driver at a time, UTC, by their names.

    ``classes`` are the cluster's storage classes with this driver as provisioner, ``nodes`` are the cluster's nodes.
    Capacities are less the ``claims``.
    The name depends on the fields that cannot change in an entry, class and topology.
    """
    if not driver.tracking:
        return {}
    storage_by_class = {storage.storage_class: storage for storage in driver.storage}
    entries_by_name = {}
    headroom = _headroom(driver, now, claims) if claims else {}
    for storage_class in classes:
        storage_name = storage_for_class(storage_by_class, storage_class)
        for pool in () if storage_name is None else storage_by_class[storage_name].pools:
            # kube-scheduler reads the object that these figures come from.
            if pool.object_name is not None:
                continue
            if pool.capacity is None or (pool.expires_at is not None and pool.expires_at <= now):
                continue
            capacity = min(pool.capacity, headroom.get((storage_name or "", pool.name), pool.capacity))
            maximum_volume_size = None if pool.maximum_volume_size is None else min(pool.maximum_volume_size, capacity)
            for selector in _selectors(pool, nodes):
                name = _entry_name(driver.name, storage_class, pool.name, selector)
                entries_by_name[name] = CapacityEntry(
                    driver.name, storage_class, selector, capacity, maximum_volume_size
                )
    return entries_by_name


def _headroom(driver: Driver, now: datetime.datetime, claims: Collection[ActiveClaim]) -> dict[PoolKey, int]:
    """Return the capacity of each pool less the claims."""
    columns = pool_columns.from_driver(driver)
    headroom = columns.packing_pools(pool_columns.to_microseconds(now), ClaimSums(claims)).headroom()
    return dict(zip(columns.keys, headroom.tolist(), strict=True))


def _selectors(pool: Pool, nodes: Collection[Node]) -> Iterator[tuple[NodeSelectorRequirement, ...]]:
    """Yield the selectors of a pool. A node that matches one of them has access."""
    if pool.node_list is not None:
        names = set(pool.node_list)
        labels = {node.name: node.labels for node in nodes}
        yield _hostname_selector({name: labels.get(name, {}) for name in names})
    elif pool.node_topology is None:
        yield ()
    else:
        for term in pool.node_topology.node_selector_terms:
            yield from _selectors_of_term(term, nodes)


def _selectors_of_term(
    term: NodeSelectorTerm, nodes: Collection[Node]
) -> Iterator[tuple[NodeSelectorRequirement, ...]]:
    """Yield the selector of a term, or one with the names of matching nodes if labels cannot express the term."""
    if not term.match_fields and all(expression.operator in _LABEL_OPERATORS for expression in term.match_expressions):
        # A term without expressions matches no node, but an empty selector matches all.
        if term.match_expressions:
            yield term.match_expressions
        return
    matching = {node.name: node.labels for node in nodes if term.matches(node.name, node.labels)}
    if matching:
        yield _hostname_selector(matching)


def _hostname_selector(nodes: Mapping[str, Mapping[str, str]]) -> tuple[NodeSelectorRequirement, ...]:
    values = sorted(labels.get(HOSTNAME, name) for name, labels in nodes.items())
    return (NodeSelectorRequirement(key=HOSTNAME, operator=Operator.IN, values=tuple(values)),)


def _entry_name(driver: str, storage_class: str, pool: str, selector: tuple[NodeSelectorRequirement, ...]) -> str:
    content = msgspec.json.encode([driver, storage_class, pool, selector])
    return f"tonnage-{hashlib.sha256(content).hexdigest()[:32]}"
