# SPDX-License-Identifier: Apache-2.0
"""Look-alikes of the pools that Cinder's filters and weighers judge, with the figures of the ledger."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tonnage.ledger.inventory.backends import PoolRow


@dataclass(eq=False, kw_only=True)
class PoolLookAlike:
    """A pool with the attributes of Cinder's ``PoolState``, which plug-ins read. It never changes.

    ``row`` is the pool's row in the ledger. Provisioned and allocated capacity contain the capacity in flight; free
    capacity is without the thick volumes in flight.
    """

    host: str
    cluster_name: str | None
    backend_id: str
    pool_name: str
    capabilities: Mapping[str, Any]
    service: Mapping[str, Any]
    volume_backend_name: str | None
    vendor_name: str | None
    driver_version: Any
    storage_protocol: Any
    QoS_support: Any
    multiattach: Any
    filter_function: str | None
    goodness_function: Any
    updated: datetime.datetime | None
    total_capacity_gb: Any
    free_capacity_gb: Any
    allocated_capacity_gb: Any
    provisioned_capacity_gb: Any
    reserved_percentage: Any
    max_over_subscription_ratio: float
    thin_provisioning_support: Any
    thick_provisioning_support: Any
    row: PoolRow
    pools: Mapping[str, Any] = field(default_factory=dict)

    def consume_from_volume(self, volume: Mapping[str, Any], update_time: bool = True) -> None:
        """Count nothing: the claim in the ledger does."""

    def __repr__(self) -> str:
        return f"pool '{self.backend_id}'"


def look_alike(state: Any, row: PoolRow) -> PoolLookAlike:
    """Return a pool that Cinder's scheduler knows, with the figures of the last probe and the capacity in flight.

    Figures that are absent have the values that Cinder takes for them.
    """
    stats = row.stats
    return PoolLookAlike(
        host=state.host,
        cluster_name=state.cluster_name,
        backend_id=state.backend_id,
        pool_name=state.pool_name,
        capabilities=state.capabilities,
        service=state.service,
        volume_backend_name=state.volume_backend_name,
        vendor_name=state.vendor_name,
        driver_version=state.driver_version,
        storage_protocol=state.storage_protocol,
        QoS_support=state.QoS_support,
        multiattach=state.multiattach,
        filter_function=state.filter_function,
        goodness_function=state.goodness_function,
        updated=state.updated,
        total_capacity_gb=stats.get("total_capacity_gb", 0),
        free_capacity_gb=_plus(stats.get("free_capacity_gb", 0), -row.counters.in_flight_physical),
        allocated_capacity_gb=row.counters.allocated,
        provisioned_capacity_gb=(
            _plus(stats["provisioned_capacity_gb"], row.counters.in_flight)
            if "provisioned_capacity_gb" in stats
            else row.counters.allocated
        ),
        reserved_percentage=stats.get("reserved_percentage", 0),
        max_over_subscription_ratio=row.ratio,
        thin_provisioning_support=stats.get("thin_provisioning_support", False),
        thick_provisioning_support=stats.get("thick_provisioning_support", False),
        row=row,
    )


def _plus(figure: Any, in_flight: int) -> Any:
    """Return a figure with the capacity in flight; null and text stay, so that plug-ins judge them as in Cinder."""
    return figure + in_flight if isinstance(figure, (int, float)) else figure
