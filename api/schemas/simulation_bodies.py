# SPDX-License-Identifier: Apache-2.0
"""The bodies of questions: how requests would be decided."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tonnage.api.http.fields import Key, Size, also
from tonnage.api.schemas.volume_bodies import CreateVolume, CreateVolumes, Migrate, Retype
from tonnage.capacity.arithmetic import Calculation

#: Most requests that one question can be about.
MAX_REQUESTS = 1000


class Growth(Struct):
    """A volume that is there and the size that it would get."""

    volume_id: Key
    new_size: Size


class ExtendVolume(Struct):
    """What asks how the growth of a volume would be decided."""

    extend: Growth


class Changes(Struct, forbid_unknown_fields=True):
    """The assumed changes, see :class:`tonnage.capacity.pools.hypothetical_pools.Changes`. Unknown keys are refused."""

    default_ratio: float | str | None = None
    ratios: dict[Key, float | str] = {}
    calculation: Calculation | None = None
    reserved_percentage: float | None = None
    reserved_percentages: dict[Key, float] = {}
    lost: list[Key] = []
    added: list[dict[str, Any]] = []


_ASKED = also(
    anyOf=[
        {"$ref": f"#/components/schemas/{kind}"}
        for kind in ("CreateVolume", "CreateVolumes", "ExtendVolume", "MigrateVolume", "RetypeVolume")
    ]
)


class WhatIf(Struct, forbid_unknown_fields=True):
    """``POST /scheduler-stats/what-if``. Each request is a body that ``explain`` takes.

    Those that are ``apart`` are alternatives, of which none sees what another would take.
    """

    requests: Annotated[list[Annotated[dict[str, Any], _ASKED]], Meta(min_length=1, max_length=MAX_REQUESTS)]
    changes: Changes = msgspec.field(default_factory=Changes)
    detail: bool = False
    apart: bool = False


class Retyping(Retype, kw_only=True):
    """A volume that is there and the type that it would get, as ``os-retype`` is told."""

    volume_id: Key


class RetypeVolume(Struct):
    """What asks how another type of a volume would be decided."""

    retype: Retyping


class Moving(Migrate, kw_only=True):
    """A volume that is there and where it would be moved, as ``os-migrate_volume`` is told."""

    volume_id: Key


class MigrateVolume(Struct):
    """What asks how the migration of a volume would be decided."""

    migrate: Moving


Question: TypeAlias = CreateVolume | CreateVolumes | ExtendVolume | MigrateVolume | RetypeVolume

#: What a question may be about, by the key that its body has.
ASKED: dict[str, type[Question]] = {
    "volume": CreateVolume,
    "volumes": CreateVolumes,
    "extend": ExtendVolume,
    "migrate": MigrateVolume,
    "retype": RetypeVolume,
}
