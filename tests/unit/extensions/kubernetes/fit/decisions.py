# SPDX-License-Identifier: Apache-2.0
"""Drivers, pools, volumes and nodes of three zones, and decisions about them."""

import collections
import datetime
from typing import Any

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity import pool_columns
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim, ClaimSums
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool, Storage
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import node_decision, refusal_reasons
from tonnage.extensions.kubernetes.fit.node_decision import Decision
from tonnage.extensions.kubernetes.fit.refusal_reasons import RefusalCode, RefusalReason, RefusalReasons

GI = 2**30


NOW = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC).replace(tzinfo=None)


NODES = Nodes([Node("n1", {"zone": "a"}), Node("n2", {"zone": "b"}), Node("n3", {})])


def driver(*storage: Storage, name: str = "disk.example.com", tracking: bool | None = True) -> Driver:
    return Driver(name=name, uid=f"{name}-uid", version=1, tracking=tracking, storage=storage)


def pool(name: str, gi: float | None = None, **more: Any) -> Pool:
    return Pool(name=name, capacity=None if gi is None else int(gi * GI), **more)


def volume(gi: float | None, storage_class: str | None = "fast", *, name: str = "data", of: str = "disk") -> Volume:
    return Volume(name, f"{of}.example.com", storage_class, None if gi is None else int(gi * GI))


def decide(drivers: list[Driver], *volumes: Volume, claims: dict[str, list[ActiveClaim]] | None = None) -> Decision:
    known = {each.name: pool_columns.from_driver(each) for each in drivers}
    now = pool_columns.to_microseconds(NOW)
    pools = {name: known[name].packing_pools(now, ClaimSums((claims or {}).get(name, ()))) for name in known}
    decision = node_decision.decide(known, pools, now, volumes, NODES, AccessibilityCache())
    # Each decision of the tests is one more example.
    assert refusal_reasons.counts(decision) == count_reasons(decision)
    return decision


def reason(decision: Decision, node: int) -> RefusalReason:
    return RefusalReasons(decision).reason(node)


def count_reasons(decision: Decision) -> dict[RefusalCode, int]:
    """Return the number of refused nodes by code, from the reasons of all of them."""
    refused = [row for row, fits in enumerate(decision.packing.fits.tolist()) if not fits]
    return dict(collections.Counter(reason(decision, row).code for row in refused))


def fitting(decision: Decision) -> list[str]:
    return [NODES.names[row] for row in decision.fitting_nodes()]


def zone(name: str) -> NodeSelector:
    expression = {"key": "zone", "operator": "In", "values": [name]}
    return type_conversion.convert({"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, NodeSelector)
