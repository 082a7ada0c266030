# SPDX-License-Identifier: Apache-2.0
"""Figures and claims of a driver for the tests of this folder."""

from collections.abc import Mapping
from typing import Any

from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database

GI = 2**30
DRIVER = "disk.example.com"
LEASE = 3600.0


def patch(ledger: database.Database, status: Mapping[str, Any], name: str = DRIVER) -> None:
    """Patch the storage of a driver with capacity tracking."""
    change = {"spec": {"capacityTracking": True}, "status": status}
    ledger.run(
        driver_rows.patch, name, type_conversion.convert(change, DriverPatch, lambda kind, value: kind.parse(value))
    )


def write(ledger: database.Database, capacity: str = "10Gi") -> None:
    """Write figures of n1's pools, for claims and for inline volumes, and of a pool that n1 and n2 can use."""
    here = {"name": "p", "capacity": capacity, "nodeList": ["n1"]}
    storage = [
        {"storageClassName": "fast", "pools": [here]},
        {"storageClassName": "<ephemeral>", "pools": [here]},
        {"storageClassName": "shared", "pools": [{"name": "s", "capacity": capacity, "nodeList": ["n1", "n2"]}]},
    ]
    patch(ledger, {"storage": storage})


def pools(*sizes: int) -> dict[str, Any]:
    """Return a pool of each size in GiB, on the first nodes."""
    listed = [{"name": f"p{n}", "capacity": f"{size}Gi", "nodeList": [f"n{n}"]} for n, size in enumerate(sizes)]
    return {"storage": [{"storageClassName": "fast", "pools": listed}]}


def volumes(*sizes: int) -> list[Volume]:
    """Return a volume of each size in GiB."""
    return [Volume(f"v{number}", DRIVER, "fast", size * GI) for number, size in enumerate(sizes)]


def claim_for_pod(
    ledger: database.Database, name: str, kind: str | None = "fast", holder: str = "u1", lease: float = LEASE
) -> None:
    """Claim capacity for a volume on n1, as the extender does for a pod."""
    volume = Volume(name, DRIVER, kind, 6 * GI)
    _, node_claim = NodeQueries(ledger).claim([volume], Nodes([Node("n1", {})]), holder, lease, pod="default/redis")
    assert node_claim is not None


def claims_of(ledger: database.Database, holder: str = "u1") -> list[capacity_claims.Claim]:
    """Return the active claims of a holder."""
    with ledger.reading() as session:
        return capacity_claims.list_for_holder(session, holder)


def published_claims(ledger: database.Database) -> int:
    """Return the sum of the claims that are subtracted from published capacity, in GiB."""
    with ledger.reading() as session:
        return sum(capacity_claims.published_bytes(session).values()) // GI
