# SPDX-License-Identifier: Apache-2.0
"""Request bodies for explanations and simulations of decisions."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tonnage.api.schemas.fields import Key, Size, json_schema
from tonnage.api.schemas.volume_bodies import CreateVolume, CreateVolumes, Migrate, Retype
from tonnage.capacity.arithmetic import Calculation

#: Most requests in one simulation.
MAX_REQUESTS = 1000


class ExtendArguments(Struct):
    """An existing volume and its new size in GiB."""

    volume_id: Key
    new_size: Size


class ExtendVolume(Struct):
    """The simulated extension of a volume."""

    extend: ExtendArguments


class Changes(Struct, forbid_unknown_fields=True):
    """Assumed changes, see :class:`tonnage.capacity.reports.hypothetical_pools.Changes`. Unknown keys are errors."""

    default_ratio: float | str | None = None
    ratios: dict[Key, float | str] = {}
    calculation: Calculation | None = None
    reserved_percentage: float | None = None
    reserved_percentages: dict[Key, float] = {}
    lost: list[Key] = []
    added: list[dict[str, Any]] = []


_REQUEST_SCHEMA = json_schema(
    anyOf=[
        {"$ref": f"#/components/schemas/{schema_name}"}
        for schema_name in ("CreateVolume", "CreateVolumes", "ExtendVolume", "MigrateVolume", "RetypeVolume")
    ]
)


class WhatIf(Struct, forbid_unknown_fields=True):
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


class RetypeVolume(Struct):
    """The simulated retype of a volume."""

    retype: RetypeArguments


class MigrateArguments(Migrate, kw_only=True):
    """An existing volume and the arguments of ``os-migrate_volume``."""

    volume_id: Key


class MigrateVolume(Struct):
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
