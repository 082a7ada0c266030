# SPDX-License-Identifier: Apache-2.0
"""Pools of agents as pools of a cluster's drivers.

Pools of an agent with the ``csi`` driver belong to its plug-in. Pools of other agents belong to the driver that their
section names as the ``provisioner``, if there is one.
"""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import Meta, Struct
from sqlalchemy import orm

from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Operator
from tonnage.capacity.units import GIB
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool
from tonnage.extensions.kubernetes.capacity.patches import Name
from tonnage.extensions.kubernetes.cluster.quantities import MAX_BYTES
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger import models
from tonnage.ledger.inventory import backends

#: Name of the storage driver whose pools report their plug-in.
_CSI_DRIVER = "csi"


@dataclass(frozen=True, slots=True)
class AgentPool:
    """A pool of an agent for one storage class. ``present`` is false if the agent no longer reports it."""

    storage_class: str
    pool: Pool
    present: bool


@dataclass(frozen=True, slots=True)
class AgentPools:
    """The pools of agents by driver name, and the reasons for invalid pools by pool name.

    ``names`` are the names of all agents' pools, ``drivers_with_pools`` the drivers that have stored one of these
    pools.
    """

    names: frozenset[str] = frozenset()
    drivers_with_pools: frozenset[str] = frozenset()
    by_driver: dict[str, list[AgentPool]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class _ReportedStats(Struct, kw_only=True):
    """The part of a pool's report that matters to clusters. Sizes are GiB."""

    name: Name
    csi_plugin: Name | None = None
    provisioner: Name | None = None
    storage_class: Name | Annotated[tuple[Name, ...], Meta(min_length=1)]
    maximum_volume_size_gb: Annotated[float, Meta(ge=0, le=MAX_BYTES / GIB)] | None = None
    topology_labels: dict[Annotated[str, Meta(min_length=1)], str] | None = None
    node_name: Name | None = None
    node_list: tuple[Name, ...] | None = None
    node_topology: NodeSelector | None = None
    storage_id: Name | None = None
    report_lifetime: Annotated[float, Meta(gt=0)] | None = None

    @property
    def driver(self) -> str | None:
        return self.provisioner or self.csi_plugin

    @property
    def classes(self) -> tuple[str, ...]:
        names = self.storage_class
        return (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))


def read(session: orm.Session, lifetime: float) -> AgentPools:
    """Return the pools that agents have reported.

    Figures are usable for ``lifetime`` seconds, or for the pool's ``report_lifetime`` if that is shorter.
    """
    pool, backend = models.Pool, models.Backend
    rows = session.execute(
        sa.select(
            pool.name,
            pool.present,
            pool.physical_limit_gb,
            pool.in_flight_physical_gb,
            pool.shared_in_flight_physical_gb,
            pool.stats,
            backend.last_report_at,
            backend.report_age,
            backends.FIGURES_KEPT_SINCE,
        )
        .join(backend, backend.id == pool.backend_id)
        .where(
            backend.last_report_at.is_not(None),
            sa.or_(backend.driver == _CSI_DRIVER, pool.stats["provisioner"].as_string().is_not(None)),
        )
        .order_by(pool.name)
    )
    names, stored = sa.select(pool.name), tables.CsiPool
    drivers_with_pools = (
        sa.select(tables.CsiDriver.name)
        .join(stored, stored.driver_uid == tables.CsiDriver.uid)
        .where(stored.name.in_(names))
        .distinct()
    )
    result = AgentPools(frozenset(session.scalars(names)), frozenset(session.scalars(drivers_with_pools)))
    for name, present, limit, own, shared, raw_stats, reported_at, age, kept_since in rows:
        try:
            stats = type_conversion.convert({**raw_stats, "name": name}, _ReportedStats)
        except msgspec.ValidationError as error:
            result.failures[name] = str(error)
            continue
        if stats.driver is None:
            continue
        # Capacity that the ledger has claimed is not available to the cluster.
        capacity = None if limit is None else _bytes(max(limit - own - shared, 0))
        usable_for = datetime.timedelta(seconds=min(lifetime, stats.report_lifetime or lifetime))
        # A report without usable figures of the pool does not extend their lifetime.
        collected_at = kept_since or reported_at - datetime.timedelta(seconds=age)
        cluster_pool = _pool(stats, capacity, collected_at + usable_for)
        driver_pools = result.by_driver.setdefault(stats.driver, [])
        driver_pools += [AgentPool(storage_class, cluster_pool, present) for storage_class in stats.classes]
    return result


def _pool(stats: _ReportedStats, capacity: int | None, expires_at: datetime.datetime) -> Pool:
    labels, max_volume_size_gb = stats.topology_labels, stats.maximum_volume_size_gb
    nodes: tuple[str, ...] | None = (stats.node_name,) if stats.node_name is not None else stats.node_list
    if labels and stats.node_name is None:
        # A node with these labels that is added reaches the pool too.
        nodes = None
    selector = stats.node_topology or (_selector(labels) if labels else None)
    return Pool(
        name=stats.name,
        node_topology=None if nodes else selector,
        node_list=nodes or None,
        capacity=capacity,
        maximum_volume_size=None if max_volume_size_gb is None else _bytes(max_volume_size_gb),
        expires_at=expires_at,
        # The classes of a pool share its capacity. Claims of a class that the pool has lost still count against it.
        backing_id=stats.storage_id or stats.name,
    )


def _bytes(size_gb: float) -> int:
    return min(math.floor(size_gb * GIB), MAX_BYTES)


def _selector(labels: Mapping[str, str]) -> NodeSelector:
    expressions = [
        NodeSelectorRequirement(key=key, operator=Operator.IN, values=(value,)) for key, value in sorted(labels.items())
    ]
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=tuple(expressions)),))
