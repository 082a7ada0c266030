# SPDX-License-Identifier: Apache-2.0
"""Reports, requests, commands and rows of one small Cinder for the tests of the watch."""

from types import SimpleNamespace
from typing import Any

from tonnage.capacity.arithmetic import Calculation
from tonnage.extensions.cinder.decoding.cinder_messages import Command, Report, Request, Verb
from tonnage.extensions.cinder.decoding.cinder_rows import Changes, ServiceRow, VolumeRow
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity
from tonnage.filters.affinity import SameBackendFilter
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.filters.retry import RetryFilter
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

BACKEND = "h@b"
POOL = "h@b#a"
OTHER = "h@b#z"


def rules() -> Rules:
    """Return Cinder's usual filters and weigher, as Tonnage's plug-ins."""
    conf = SimpleNamespace(capacity_weight_multiplier=1.0, over_provisioning_calculation="cinder")
    filters = [AvailabilityZoneFilter, CapacityFilter, RetryFilter, SameBackendFilter]
    return Rules(
        FilterChain([each(conf) for each in filters]), WeigherChain([CapacityWeigher(conf)]), Calculation.CINDER
    )


def report(
    sent_at: float,
    provisioned: float | None,
    *,
    periodic: bool = True,
    pools: tuple[str, ...] = ("a",),
    host: str = BACKEND,
    **stats: Any,
) -> Report:
    """Return a report of pools of 100 GiB that may be promised once."""
    pool: dict[str, Any] = {"total_capacity_gb": 100, "free_capacity_gb": 100, "allocated_capacity_gb": 0}
    pool |= {"thin_provisioning_support": True, "max_over_subscription_ratio": "1.0"}
    if provisioned is not None:
        pool["provisioned_capacity_gb"] = provisioned
    named = [{"pool_name": name, **pool, **stats} for name in pools]
    return Report(backend=BACKEND, host=host, sent_at=sent_at, stats={"pools": named}, periodic=periodic)


def request(volume_id: str, size_gb: int, **fields: Any) -> Request:
    """Return a request to create a volume, unless the fields say otherwise."""
    return Request(
        **{"verb": Verb.CREATE, "request_id": f"req-{volume_id}"} | fields, volume_id=volume_id, size_gb=size_gb
    )


def command(volume_id: str, size_gb: int, pool: str = POOL, verb: Verb = Verb.CREATE) -> Command:
    """Return a command to create a volume in a pool, unless ``verb`` says otherwise."""
    return Command(verb=verb, request_id=f"req-{volume_id}", volume_id=volume_id, pool=pool, size_gb=size_gb)


def volume(volume_id: str, size_gb: int, status: str, at: float, pool: str | None = POOL, **fields: Any) -> VolumeRow:
    """Return the row of a volume that changed last at the time ``at``."""
    values: dict[str, Any] = {"migration_status": "", "launched_at": at, "counted": True} | fields
    return VolumeRow(id=volume_id, pool=pool, size_gb=size_gb, status=status, changed_at=at, **values)


def service(silent: float = 0.0, *, enabled: bool = True) -> ServiceRow:
    """Return the row of the volume service."""
    return ServiceRow(backend=BACKEND, enabled=enabled, availability_zone="nova", silent=silent)


def rows(read_at: float, *volumes: VolumeRow, services: tuple[ServiceRow, ...] = (service(),)) -> Changes:
    """Return all live rows at a time."""
    return Changes(read_at=read_at, live=volumes, gone=frozenset(), services=services, complete=True)


def promised_by(first: Report) -> PromisedCapacity:
    """Return the promised capacity after one read of the rows and one report."""
    found = PromisedCapacity(20.0, 60.0)
    found.apply_rows(rows(first.sent_at - 10))
    found.apply_report(first, 0.0)
    return found
