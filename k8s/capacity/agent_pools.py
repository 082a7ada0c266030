# SPDX-License-Identifier: Apache-2.0
"""What agents report, as pools of a cluster's drivers.

Those of an agent with the ``csi`` driver are its plugin's; those of others are the driver's that their section names as
the ``provisioner``, if it does.
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
from tonnage.capacity.topology.node_selectors import NodeSelector, Operator, Requirement, Term
from tonnage.capacity.units import GIB
from tonnage.k8s.capacity.driver_storage import Pool
from tonnage.k8s.capacity.patches import Name
from tonnage.k8s.capacity.quantities import MOST
from tonnage.ledger import models
from tonnage.ledger.inventory import backends

#: Name of the storage driver whose pools tell by themselves which plugin they are of.
_CSI = "csi"


@dataclass(frozen=True, slots=True)
class AgentPool:
    """A pool as an agent has reported it for a storage class, or does not any more."""

    storage_class: str
    pool: Pool
    present: bool


@dataclass(frozen=True, slots=True)
class AgentPools:
    """The pools of drivers by the names of these, and why others cannot be meant, by their names.

    ``names`` are those of all pools of agents, ``holding`` the drivers that have storage under one of them.
    """

    names: frozenset[str] = frozenset()
    holding: frozenset[str] = frozenset()
    of_drivers: dict[str, list[AgentPool]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class _Stats(Struct, kw_only=True):
    """What is looked at of what an agent has reported of a pool. Sizes are GiB."""

    name: Name
    csi_plugin: Name | None = None
    provisioner: Name | None = None
    storage_class: Name | Annotated[tuple[Name, ...], Meta(min_length=1)]
    maximum_volume_size_gb: Annotated[float, Meta(ge=0, le=MOST / GIB)] | None = None
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
        found = self.storage_class
        return (found,) if isinstance(found, str) else tuple(dict.fromkeys(found))


def read(session: orm.Session, lifetime: float) -> AgentPools:
    """Return what agents have told. It is used for so many seconds, or for fewer if the pool says so."""
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
            backends.KEPT_SINCE,
        )
        .join(backend, backend.id == pool.backend_id)
        .where(
            backend.last_report_at.is_not(None),
            sa.or_(backend.driver == _CSI, pool.stats["provisioner"].as_string().is_not(None)),
        )
        .order_by(pool.name)
    )
    names, stored = sa.select(pool.name), models.CsiPool
    holding = (
        sa.select(models.CsiDriver.name)
        .join(stored, stored.driver_uid == models.CsiDriver.uid)
        .where(stored.name.in_(names))
        .distinct()
    )
    found = AgentPools(frozenset(session.scalars(names)), frozenset(session.scalars(holding)))
    for name, present, limit, own, shared, stats, heard, age, kept_since in rows:
        try:
            said = type_conversion.convert({**stats, "name": name}, _Stats)
        except msgspec.ValidationError as error:
            found.failures[name] = str(error)
            continue
        if said.driver is None:
            continue
        # What the ledger has promised there is not promised again.
        room = None if limit is None else _bytes(max(limit - own - shared, 0))
        used_for = datetime.timedelta(seconds=min(lifetime, said.report_lifetime or lifetime))
        # A report that has nothing for a pool that can be used puts nothing off.
        begun = kept_since or heard - datetime.timedelta(seconds=age)
        one = _pool(said, room, begun + used_for)
        listed = found.of_drivers.setdefault(said.driver, [])
        listed += [AgentPool(storage_class, one, present) for storage_class in said.classes]
    return found


def _pool(said: _Stats, room: int | None, expires_at: datetime.datetime) -> Pool:
    labels, most = said.topology_labels, said.maximum_volume_size_gb
    nodes = said.node_list if said.node_name is None else (said.node_name,)
    selector = said.node_topology or (_selector(labels) if labels else None)
    return Pool(
        name=said.name,
        node_topology=None if nodes else selector,
        node_list=nodes or None,
        capacity=room,
        maximum_volume_size=None if most is None else _bytes(most),
        expires_at=expires_at,
        # What is there for several classes is there once, and so is what is held in one that the pool has lost since.
        backing_id=said.storage_id or said.name,
    )


def _bytes(size_gb: float) -> int:
    return min(math.floor(size_gb * GIB), MOST)


def _selector(labels: Mapping[str, str]) -> NodeSelector:
    expressions = [Requirement(key=key, operator=Operator.IN, values=(value,)) for key, value in sorted(labels.items())]
    return NodeSelector(node_selector_terms=(Term(match_expressions=tuple(expressions)),))
