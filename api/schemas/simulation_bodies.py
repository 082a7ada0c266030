# SPDX-License-Identifier: Apache-2.0
"""Request bodies for explanations and simulations of decisions."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tonnage.api.schemas.fields import Body, Key, Size, json_schema
from tonnage.api.schemas.volume_bodies import CreateVolume, CreateVolumes, Migrate, Retype
from tonnage.capacity.arithmetic import Calculation

#: Most requests in one simulation.
MAX_REQUESTS = 1000


class ExtendArguments(Body):
    """An existing volume and its new size in GiB."""

    volume_id: Key
    new_size: Size


class ExtendVolume(Body):
    """The simulated extension of a volume."""

    extend: ExtendArguments


class Changes(Body):
    """The assumed changes, see :class:`tonnage.capacity.reports.hypothetical_pools.Changes`."""

    default_ratio: float | str | None = None
    ratios: dict[Key, float | str] = msgspec.field(default_factory=dict)
    calculation: Calculation | None = None
    reserved_percentage: float | None = None
    reserved_percentages: dict[Key, float] = msgspec.field(default_factory=dict)
    lost: list[Key] = msgspec.field(default_factory=list)
    added: list[dict[str, Any]] = msgspec.field(default_factory=list)


_REQUEST_SCHEMA = json_schema(
    anyOf=[
        {"$ref": f"#/components/schemas/{schema_name}"}
        for schema_name in ("CreateVolume", "CreateVolumes", "ExtendVolume", "MigrateVolume", "RetypeVolume")
    ]
)


class WhatIf(Body):
    """``POST /scheduler-stats/what-if``. Each request has the format of a body of ``explain``.

    If ``apart`` is true, the requests are alternatives: each is decided as if the others did not exist.
    """

    requests: Annotated[list[Annotated[dict[str, Any], _REQUEST_SCHEMA]], Meta(min_length=1, max_length=MAX_REQUESTS)]
    changes: Changes = msgspec.field(default_factory=Changes)
    detail: bool = False
    independent: bool = msgspec.field(default=False, name="apart")


class RetypeArguments(Retype, kw_only=True):
    """An existing volume and the arguments of ``os-retype``."""

    volume_id: Key


class RetypeVolume(Body):
    """The simulated retype of a volume."""

    retype: RetypeArguments


class MigrateArguments(Migrate, kw_only=True):
    """An existing volume and the arguments of ``os-migrate_volume``."""

    volume_id: Key


class MigrateVolume(Body):
    """The simulated migration of a volume."""

    migrate: MigrateArguments


RequestBody: TypeAlias = CreateVolume | CreateVolumes | ExtendVolume | MigrateVolume | RetypeVolume

#: The types of bodies with a request to explain or to simulate, by their key.
REQUEST_BODIES: dict[str, type[RequestBody]] = {
    "volume": CreateVolume,
    "volumes": CreateVolumes,
    "extend": ExtendVolume,
    "migrate": MigrateVolume,
    "retype": RetypeVolume,
}
