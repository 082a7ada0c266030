# SPDX-License-Identifier: Apache-2.0
"""Pools of volume types as pools of a cluster's storage classes.

The driver of such classes, for example cinder-csi, asks OpenStack for each volume and cannot tell its capacity. The
ledger has it: of the pools of agents, and of those of a Cinder that Tonnage watches or schedules. The capacity of a
pool is the headroom of its volume type, as the scheduler computes it.
"""

import datetime
import math
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import numpy as np
import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import arithmetic, errors, type_specs
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.request import Request, judged_thin, requested_provisioning
from tonnage.capacity.topology.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Operator
from tonnage.capacity.units import GIB
from tonnage.extensions.kubernetes.capacity.agent_pools import AgentPool
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool
from tonnage.extensions.kubernetes.cluster.quantities import MAX_BYTES
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.ledger import models
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import scheduling_rules
from tonnage.scheduler.cache.cache_refresh import LedgerRefresh
from tonnage.scheduler.cache.host_manager import HostManager

#: Largest number of characters in the name of a pool of a cluster.
_MAX_NAME_LENGTH = 253

#: Seconds of silence after which a backend is down. Figures of a silent one expire, so any value will do.
_DOWN_TIME = 60.0


class TypePools:
    """Reads the pools of volume types.

    ``classes`` maps storage classes to the names of volume types. A value with ``=`` stands for a type that the ledger
    does not have, by its extra specs: ``volume_backend_name=ceph; multiattach=<is> True``. The nodes of a pool have its
    availability zone as the value of ``zone_label``; without a label all nodes reach it. Figures are usable for
    ``lifetime`` seconds.
    """

    def __init__(self, classes: Mapping[str, str], zone_label: str | None, lifetime: float) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for extra specs that no type can have."""
        self._classes, self._zone_label = dict(classes), zone_label
        self._literal_specs = {
            name: _parse_specs(storage_class, name) for storage_class, name in classes.items() if "=" in name
        }
        self._lifetime = datetime.timedelta(seconds=lifetime)
        self._hosts = HostManager(arithmetic.DEFAULT_RATIO, Calculation.STANDARD, _DOWN_TIME)
        self._refresh = LedgerRefresh(self._hosts, time.monotonic)
        self._capabilities = CapabilitiesFilter(SimpleNamespace())

    def read(self, session: orm.Session) -> tuple[list[AgentPool], dict[str, str]]:
        """Return the pools of all classes, and the reasons of classes without a volume type: their figures expire."""
        if (rules := scheduling_rules.find(session)) is not None:
            ratio = rules.default_ratio if rules.default_ratio == AUTO else float(rules.default_ratio)
            self._hosts.apply_rules(ratio, Calculation(rules.calculation), rules.generation)
        self._refresh.refresh(session)
        self._refresh.refresh_counters(session, [entry.id for entry in self._hosts.entries.values()])
        collected_at = _collection_times(session)
        pools: list[AgentPool] = []
        failures: dict[str, str] = {}
        for storage_class, type_name in self._classes.items():
            if (specs := self._extra_specs(session, type_name)) is None:
                failures[storage_class] = (
                    f"option [kubernetes] volume_type_classes names the volume type {type_name}, and the ledger has "
                    "none of this name: name another one, or give its extra specs, as in volume_backend_name=ceph"
                )
            else:
                pools += self._pools(storage_class, type_name, specs, collected_at)
        return pools, failures

    def _pools(
        self,
        storage_class: str,
        type_name: str,
        specs: Mapping[str, str],
        collected_at: Mapping[str, datetime.datetime],
    ) -> Iterator[AgentPool]:
        table, zones = self._hosts.table, type_specs.zones(specs)
        provisioning, largest_gb = requested_provisioning(specs), specs.get(type_specs.MAX_SIZE)
        request = Request("", 1, provisioning=provisioning, volume_type=type_name, extra_specs=specs)
        accepted = self._capabilities.accepts(table, request) & table.enabled
        thin = judged_thin(table.thin, table.thick, provisioning)
        headroom = np.atleast_1d(arithmetic.headroom(table, thin, self._hosts.calculation))
        for row in accepted.nonzero()[0].tolist():
            name = table.names[row]
            backend = self._hosts.backend(backend_of(name))
            if backend is None or backend.draining or name not in collected_at or len(name) > _MAX_NAME_LENGTH:
                continue
            zone = backend.availability_zone
            if zones is not None and zone not in zones:
                continue
            pool = Pool(
                name=name,
                node_topology=self._topology(zone),
                capacity=_bytes(float(headroom[row])),
                maximum_volume_size=None if largest_gb is None else _bytes(float(largest_gb)),
                expires_at=collected_at[name] + self._lifetime,
                backing_id=self._hosts.entries[name].stats.storage_id or name,
            )
            yield AgentPool(storage_class, pool, present=True)

    def _extra_specs(self, session: orm.Session, type_name: str) -> Mapping[str, str] | None:
        if type_name in self._literal_specs:
            return self._literal_specs[type_name]
        volume_type = session.scalar(sa.select(models.VolumeType).where(models.VolumeType.name == type_name))
        return None if volume_type is None else volume_type.extra_specs

    def _topology(self, zone: str) -> NodeSelector | None:
        if not self._zone_label or not zone:
            return None
        requirement = NodeSelectorRequirement(key=self._zone_label, operator=Operator.IN, values=(zone,))
        return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))


def _collection_times(session: orm.Session) -> dict[str, datetime.datetime]:
    """Return for each pool the time, UTC, at which the driver began to collect its figures."""
    pool, backend = models.Pool, models.Backend
    rows = session.execute(
        sa.select(pool.name, backend.last_report_at, backend.report_age, backends.FIGURES_KEPT_SINCE)
        .join(backend, backend.id == pool.backend_id)
        .where(pool.present.is_(True), backend.last_report_at.is_not(None))
    )
    return {
        name: kept_since or reported_at - datetime.timedelta(seconds=age) for name, reported_at, age, kept_since in rows
    }


def _parse_specs(storage_class: str, text: str) -> Mapping[str, str]:
    """Return the extra specs of a text such as ``volume_backend_name=ceph; multiattach=<is> True``."""
    parts = (part.partition("=") for part in text.split(";"))
    specs = {key.strip(): value.strip() for key, _, value in parts}
    try:
        type_specs.check(specs)
    except errors.InvalidInput as error:
        raise errors.ConfigurationError(
            f"option [kubernetes] volume_type_classes = {storage_class}:{text}: {error.message}"
        ) from None
    return specs


def _bytes(size_gb: float) -> int:
    return MAX_BYTES if math.isinf(size_gb) else min(math.floor(size_gb * GIB), MAX_BYTES)
