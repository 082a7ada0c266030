# SPDX-License-Identifier: Apache-2.0
"""What kube-scheduler is told of a driver's storage: an entry for each pool of a class, a ``CSIStorageCapacity``.

These know less than the pools do. Their topology is a label selector, whose expressions all have to match, by names of
four operators. What stands for other classes, or for none, is not known there, and nothing expires by itself.
"""

import datetime
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from tonnage.capacity.topology.node_selectors import Operator, Requirement, Term
from tonnage.k8s.capacity.driver_storage import Driver, Pool, entry_for
from tonnage.k8s.cluster.nodes import Node

#: The label that has a node's name. Label selectors know nothing else of it.
HOSTNAME = "kubernetes.io/hostname"

#: What label selectors have operators for.
_OF_LABELS = frozenset({Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST})


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry; sizes are bytes. Nodes that match the whole ``selector`` reach the pool, all if it is empty.

    ``maximum_volume_size`` is no more than ``capacity``: where it is there, kube-scheduler looks at nothing else.
    """

    driver: str
    storage_class: str
    selector: tuple[Requirement, ...]
    capacity: int
    maximum_volume_size: int | None


def entries(
    driver: Driver, classes: Collection[str], nodes: Collection[Node], now: datetime.datetime
) -> dict[str, Entry]:
    """Return the entries of a driver by their names, at this time, UTC.

    ``classes`` are those of the cluster whose volumes it makes, ``nodes`` those of the cluster. The name stands for all
    that cannot be changed in an entry: class and topology.
    """
    if not driver.tracking:
        return {}
    known = {storage.storage_class: storage for storage in driver.storage}
    found = {}
    for storage_class in classes:
        entry = entry_for(known, storage_class)
        for pool in () if entry is None else known[entry].pools:
            if pool.capacity is None or (pool.expires_at is not None and pool.expires_at <= now):
                continue
            most = None if pool.maximum_volume_size is None else min(pool.maximum_volume_size, pool.capacity)
            for selector in _selectors(pool, nodes):
                name = _name(driver.name, storage_class, pool.name, selector)
                found[name] = Entry(driver.name, storage_class, selector, pool.capacity, most)
    return found


def _selectors(pool: Pool, nodes: Collection[Node]) -> Iterator[tuple[Requirement, ...]]:
    """Return the selectors of which a node has to match one."""
    if pool.node_list is not None:
        names = set(pool.node_list)
        labels = {node.name: node.labels for node in nodes}
        yield _named({name: labels.get(name, {}) for name in names})
    elif pool.node_topology is None:
        yield ()
    else:
        for term in pool.node_topology.node_selector_terms:
            yield from _of_term(term, nodes)


def _of_term(term: Term, nodes: Collection[Node]) -> Iterator[tuple[Requirement, ...]]:
    """Return the selector for a term; the names of the nodes that match where a label selector cannot say it."""
    if not term.match_fields and all(one.operator in _OF_LABELS for one in term.match_expressions):
        # Without expressions a term matches nothing, and a selector everything.
        if term.match_expressions:
            yield term.match_expressions
        return
    matching = {node.name: node.labels for node in nodes if term.matches(node.name, node.labels)}
    if matching:
        yield _named(matching)


def _named(nodes: Mapping[str, Mapping[str, str]]) -> tuple[Requirement, ...]:
    values = sorted(labels.get(HOSTNAME, name) for name, labels in nodes.items())
    return (Requirement(key=HOSTNAME, operator=Operator.IN, values=tuple(values)),)


def _name(driver: str, storage_class: str, pool: str, selector: tuple[Requirement, ...]) -> str:
    said = msgspec.json.encode([driver, storage_class, pool, selector])
    return f"tonnage-{hashlib.sha256(said).hexdigest()[:32]}"
