# SPDX-License-Identifier: Apache-2.0
"""Request and response bodies for services (schedulers and backends), zones, hosts and capabilities."""

import re
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tonnage.api.schemas.fields import (
    NOT_BLANK,
    Body,
    Key,
    Text,
    Unsupported,
    at_least_one_of,
    json_schema,
    reject_cluster,
)
from tonnage.capacity import errors
from tonnage.ledger.locks import heartbeats

#: The binaries by their names in Cinder.
SERVICE_NAMES = {"cinder-volume": heartbeats.AGENT, "cinder-scheduler": heartbeats.SCHEDULER}
CINDER_NAMES = {own: name for name, own in SERVICE_NAMES.items()}
_BINARIES = (heartbeats.AGENT, heartbeats.SCHEDULER)


_BINARY: TypeAlias = Annotated[Text | None, json_schema(minLength=1)]


def own_name(binary: str) -> str:
    """Return the name in Tonnage of a binary; an unknown one stays as it is."""
    return SERVICE_NAMES.get(binary, binary)


class ServiceChange(Body, kw_only=True):
    """``PUT /os-services/{action}``: a backend or a scheduler. ``service`` is an old name for ``binary``."""

    host: Key
    binary: _BINARY = None
    service: _BINARY = None
    cluster: Unsupported = None

    def __post_init__(self) -> None:
        reject_cluster(self.cluster)
        if not (self.binary or self.service):
            raise ValueError("missing required field binary")

    @property
    def reason(self) -> str | None:
        """The reason of the change: None, as this change does not take one."""
        return None

    @property
    def of_scheduler(self) -> bool:
        """Whether the service is a scheduler.

        Raises :class:`~tonnage.capacity.errors.NotFound` if it is neither a scheduler nor an agent.
        """
        binary = self.binary or self.service or ""
        if own_name(binary) not in _BINARIES:
            names = ", ".join((*SERVICE_NAMES, *_BINARIES))
            raise errors.NotFound(f"Service {binary} could not be found on host {self.host}: there are {names}.")
        return own_name(binary) == heartbeats.SCHEDULER


#: The body has the binary under the new key or under the old one.
SERVICE_NAMED = at_least_one_of("binary", "service")
_NO_SCHEDULER: TypeAlias = Annotated[
    Text | None, json_schema(**{"minLength": 1, "not": {"enum": [heartbeats.SCHEDULER, "cinder-scheduler"]}})
]


class ReasonedChange(ServiceChange, kw_only=True):
    """A change of a service with a reason."""

    disabled_reason: Text | None = None

    @property
    def reason(self) -> str | None:
        """The reason, None if there is none."""
        return (self.disabled_reason or "").strip() or None


class ServiceDrain(ReasonedChange, kw_only=True):
    """``PUT /os-services/drain``, for backends only."""

    binary: _NO_SCHEDULER = None
    service: _NO_SCHEDULER = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if own_name(self.binary or self.service or "") == heartbeats.SCHEDULER:
            raise ValueError("a scheduler has no volumes: only backends can be drained")


class ServiceHost(Body):
    """``PUT /os-services/freeze`` and others about replication: a backend. ``backend_id`` is a replica of it."""

    host: Key
    backend_id: Text | None = None
    cluster: Unsupported = None

    def __post_init__(self) -> None:
        reject_cluster(self.cluster)


class ServiceReason(ReasonedChange, kw_only=True):
    """``PUT /os-services/disable-log-reason``."""

    disabled_reason: Annotated[Text, json_schema(pattern=NOT_BLANK)]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.disabled_reason = self.disabled_reason.strip()
        if not re.search(NOT_BLANK, self.disabled_reason):
            raise ValueError("disabled_reason is missing: say why, or use disable")


class Drain(Struct, kw_only=True):
    """The progress of a drain: the volumes that are still on the backend, that move now, and that cannot at present.

    ``reasons`` are those of the first volumes that cannot move.
    """

    volumes: int
    moving: int
    cannot_move: int
    reasons: list[str]


class Service(Struct, kw_only=True):
    """A scheduler or a backend. Backends have the keys about replication too.

    ``draining``, ``drain`` and ``state_reason`` are shown since 3.72. ``state_reason`` tells why a backend is down, or
    why volumes go to others first; null if nothing does. ``drain`` is null unless the backend is draining.
    """

    binary: str
    host: str
    zone: str
    status: str
    state: str
    updated_at: str | None
    disabled_reason: str | None
    backend_state: str | UnsetType = UNSET
    cluster: str | UnsetType | None = UNSET
    replication_status: str | UnsetType = UNSET
    active_backend_id: str | UnsetType | None = UNSET
    frozen: bool | UnsetType = UNSET
    draining: bool | UnsetType = UNSET
    drain: Drain | UnsetType | None = UNSET
    state_reason: str | UnsetType | None = UNSET


class Services(Struct):
    """Schedulers and backends."""

    services: list[Service]


class ServiceChanged(Struct, kw_only=True):
    """The new state of a backend or a scheduler. ``draining`` is shown since 3.72."""

    host: str
    service: str
    binary: str
    status: str
    disabled: bool
    disabled_reason: str | UnsetType | None = UNSET
    draining: bool | UnsetType = UNSET


class Zone(Struct):
    """An availability zone; one without a backend that is up and enabled is not available."""

    zoneName: str  # noqa: N815  (the name on the wire)
    zoneState: dict[str, bool]  # noqa: N815


class Zones(Struct):
    """The availability zones."""

    availabilityZoneInfo: list[Zone]  # noqa: N815  (the name on the wire)


class HostDetail(Struct, kw_only=True):
    """A scheduler or a backend in the format of ``/os-hosts``."""

    host_name: str
    service: str
    zone: str
    status: str = msgspec.field(name="service-status")
    state: str = msgspec.field(name="service-state")
    last_update: str | None = msgspec.field(name="last-update")


class Hosts(Struct):
    """Schedulers and backends."""

    hosts: list[HostDetail]


class Usage(Struct, kw_only=True):
    """The volumes of a project on a backend. The figures are text, as in Cinder."""

    host: str
    project: str
    volume_count: str
    total_volume_gb: str
    snapshot_count: str = "0"
    total_snapshot_gb: str = "0"


class HostResource(Struct):
    """The usage of a host in total or by one project."""

    resource: Usage


class HostUsage(Struct):
    """The usage of a backend: in total, then by each project."""

    host: list[HostResource]


class Property(Struct):
    """The values of an extra spec that volume types can require: their type, and in ``enum`` the reported values."""

    title: str
    description: str = ""
    type: str = ""
    enum: list[Any] | UnsetType = UNSET
    default: Any = UNSET
    minimum: Any = UNSET
    maximum: Any = UNSET


class Capabilities(Struct, kw_only=True):
    """The capabilities of a backend. ``properties`` maps extra specs to the values that volume types can require."""

    namespace: str
    vendor_name: str | None
    volume_backend_name: str | None
    pool_name: str | None
    driver_version: str | None
    storage_protocol: str | None
    display_name: str | None
    description: str | None
    visibility: str | None
    replication_targets: list[str] = []
    properties: dict[str, Property]
