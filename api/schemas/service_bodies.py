# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests and answers about schedulers and backends, where they are and what they can do."""

import re
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tonnage.api.http.fields import VISIBLE, Key, Text, also, some_of
from tonnage.ledger.inventory import heartbeats

#: What Cinder calls the same.
SERVICE_NAMES = {"cinder-volume": heartbeats.AGENT, "cinder-scheduler": heartbeats.SCHEDULER}
_BINARIES = (heartbeats.AGENT, heartbeats.SCHEDULER)
_BINARY: TypeAlias = Annotated[Text | None, also(enum=[None, *_BINARIES, *SERVICE_NAMES])]


class ServiceChange(Struct, kw_only=True):
    """``PUT /os-services/{action}``: of a backend or a scheduler. ``service`` is an old name for ``binary``."""

    host: Key
    binary: _BINARY = None
    service: _BINARY = None
    disabled_reason: Text | None = None

    def __post_init__(self) -> None:
        if not (self.binary or self.service):
            raise ValueError("missing required field binary")
        for asked in (self.binary, self.service):
            if asked and SERVICE_NAMES.get(asked, asked) not in _BINARIES:
                raise ValueError(f"binary is {asked!r}: expected {' or '.join(_BINARIES)}")

    @property
    def of_scheduler(self) -> bool:
        """Whether it is about a scheduler."""
        asked = self.binary or self.service or ""
        return SERVICE_NAMES.get(asked, asked) == heartbeats.SCHEDULER


#: A change names what it is about by the new name or by the old one.
SERVICE_NAMED = some_of("binary", "service")
_BACKEND: TypeAlias = Annotated[Text | None, also(enum=[None, heartbeats.AGENT, "cinder-volume"])]


class ServiceDrain(ServiceChange, kw_only=True):
    """``PUT /os-services/drain``: of a backend alone."""

    binary: _BACKEND = None
    service: _BACKEND = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of_scheduler:
            raise ValueError("a scheduler has no volumes: only backends can be drained")


class ServiceReason(ServiceChange, kw_only=True):
    """``PUT /os-services/disable-log-reason``: the same with a reason."""

    disabled_reason: Annotated[Text, also(pattern=VISIBLE)]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.disabled_reason = self.disabled_reason.strip()
        if not re.search(VISIBLE, self.disabled_reason):
            raise ValueError("disabled_reason is missing: say why, or use disable")


class Service(Struct, kw_only=True):
    """A scheduler or a backend. ``draining`` is ours."""

    binary: str
    host: str
    zone: str
    status: str
    state: str
    updated_at: str | None
    disabled_reason: str | None
    draining: bool | UnsetType = UNSET
    backend_state: str | UnsetType = UNSET


class Services(Struct):
    """Schedulers and backends."""

    services: list[Service]


class ServiceChanged(Struct, kw_only=True):
    """What a backend or a scheduler is now."""

    host: str
    service: str
    binary: str
    status: str
    disabled: bool
    draining: bool
    disabled_reason: str | UnsetType | None = UNSET


class Zone(Struct):
    """An availability zone; one without a backend that is up and enabled is not available."""

    zoneName: str  # noqa: N815  (the name on the wire)
    zoneState: dict[str, bool]  # noqa: N815


class Zones(Struct):
    """The availability zones."""

    availabilityZoneInfo: list[Zone]  # noqa: N815  (the name on the wire)


class HostDetail(Struct, kw_only=True):
    """A scheduler or a backend, as the older call shows it."""

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
    """One of the projects."""

    resource: Usage


class HostUsage(Struct):
    """What volumes there are on a backend: in all, then of each project."""

    host: list[HostResource]


class Property(Struct):
    """What volume types can ask for by an extra spec: the type of its value, and in ``enum`` those that there are."""

    title: str
    description: str = ""
    type: str = ""
    enum: list[Any] | UnsetType = UNSET
    default: Any = UNSET
    minimum: Any = UNSET
    maximum: Any = UNSET


class Capabilities(Struct, kw_only=True):
    """What a backend is, and what volume types can ask of it: ``properties`` by extra specs."""

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
