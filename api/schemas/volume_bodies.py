# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests about volumes."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tonnage.api.http import booleans
from tonnage.api.http.fields import (
    LONGEST,
    NOTHING,
    Anything,
    Flag,
    Hints,
    Key,
    Nothing,
    Size,
    Text,
    also,
    flag,
    refuse_cluster,
    some_of,
)
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.ledger.catalog import volumes
from tonnage.rpc.messages import MigrationPolicy

#: Most volumes that can be asked for at once.
MAX_AT_ONCE = 128

#: Fields of a new volume that ask for what Tonnage does not do, and what that is.
_UNSUPPORTED = {
    "snapshot_id": "a volume from a snapshot",
    "imageRef": "a volume from an image",
    "image_id": "a volume from an image",
    "backup_id": "a volume from a backup",
    "consistencygroup_id": "a volume in a consistency group",
    "multiattach": "a volume for several servers at once",
}


class Hinted(Struct, kw_only=True):
    """What may carry hints, under either name."""

    hints: Hints | None = msgspec.field(default=None, name="OS-SCH-HNT:scheduler_hints")
    short_hints: Hints | None = msgspec.field(default=None, name="scheduler_hints")

    def all_hints(self) -> Hints:
        """Return the hints, none if there are none."""
        return {**(self.short_hints or {}), **(self.hints or {})}


class NewVolume(Hinted, kw_only=True):
    """What is asked of a new volume. One from another volume need not say its size."""

    size: Size | UnsetType | None = UNSET
    name: Text | None = None
    description: Text | None = None
    display_name: Text | None = None
    display_description: Text | None = None
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    source_volid: Text | None = None
    snapshot_id: Nothing = None
    imageRef: Nothing = None  # noqa: N815  (the name on the wire)
    image_id: Nothing = None
    backup_id: Nothing = None
    consistencygroup_id: Nothing = None
    group_id: Text | None = None
    multiattach: Nothing = None

    def __post_init__(self) -> None:
        _settle(self)
        for name, what in _UNSUPPORTED.items():
            if getattr(self, name) not in NOTHING:
                raise ValueError(f"{name} is set, and {what} is not supported")
        if not self.source_volid and self.size is UNSET:
            raise ValueError("missing required field size")
        if not self.source_volid and self.size is None:
            raise ValueError(f"size is null: expected a whole number of GiB from 1 to {MAX_SIZE_GB}")


#: A volume says its size, or what it is a copy of.
_SIZED = also(
    anyOf=[
        {"required": ["size"], "properties": {"size": {"type": ["integer", "string"]}}},
        {"required": ["source_volid"], "properties": {"source_volid": {"type": "string", "minLength": 1}}},
    ]
)


class CreateVolume(Hinted, kw_only=True):
    """``POST /volumes``. The hints may stand beside the volume or in it."""

    volume: Annotated[NewVolume, _SIZED]


class CreateVolumes(Hinted, kw_only=True):
    """``POST /volumes`` for several at once. Hints beside the list are for all of them."""

    volumes: Annotated[list[Annotated[NewVolume, _SIZED]], Meta(min_length=1, max_length=MAX_AT_ONCE)]


class Described(Struct, kw_only=True):
    """What people call a volume and say of it, under either name that the Block Storage API has for that."""

    name: Text | None = None
    description: Text | None = None
    display_name: Text | None = None
    display_description: Text | None = None

    def __post_init__(self) -> None:
        _settle(self)


class VolumeChanges(Described, kw_only=True):
    """What may be changed of a volume."""

    metadata: dict[Key, Text] | None = None


class UpdateVolume(Struct):
    """``PUT /volumes/{id}``."""

    volume: VolumeChanges


class SetMetadata(Struct):
    """``POST`` and ``PUT /volumes/{id}/metadata``."""

    metadata: dict[Key, Text]


class SetMetadataItem(Struct):
    """``PUT /volumes/{id}/metadata/{key}``."""

    meta: Annotated[dict[Key, Text], Meta(min_length=1, max_length=1)]


class Extend(Struct):
    """Action ``os-extend``."""

    new_size: Size


class ResetStatus(Struct):
    """Action ``os-reset_status``."""

    status: Annotated[Text | None, also(enum=[None, *volumes.SETTABLE_STATUSES])] = None
    attach_status: Annotated[Text | None, also(enum=[None, "detached"])] = None
    migration_status: Annotated[Text | None, also(enum=[None, "none"])] = None

    def __post_init__(self) -> None:
        if not (self.status or self.attach_status or self.migration_status):
            raise ValueError("expected at least one of status, attach_status, migration_status")
        if self.attach_status and self.attach_status.lower() != "detached":
            raise ValueError(f"attach_status is {self.attach_status!r}: expected detached, as nothing attaches volumes")
        if self.migration_status and self.migration_status.lower() != "none":
            raise ValueError(f"migration_status is {self.migration_status!r}: expected none")


class Retype(Struct):
    """Action ``os-retype``."""

    new_type: Key
    migration_policy: Annotated[Text | None, also(enum=[None, *MigrationPolicy])] = None

    def __post_init__(self) -> None:
        if self.migration_policy not in (None, *MigrationPolicy):
            raise ValueError(f"migration_policy is {self.migration_policy!r}: expected {' or '.join(MigrationPolicy)}")


class Migrate(Struct):
    """Action ``os-migrate_volume``.

    A volume is always copied and always locked while it moves, so these flags make no difference.
    """

    host: Key | None = None
    cluster: Nothing = None
    force_host_copy: Flag = False
    lock_volume: Flag = False

    def __post_init__(self) -> None:
        refuse_cluster(self.cluster)
        for name in ("force_host_copy", "lock_volume"):
            flag(name, getattr(self, name))


_REFERENCE = also(
    oneOf=[
        {"type": "string", "minLength": 1, "maxLength": LONGEST},
        {
            "type": "object",
            "required": ["source-name"],
            "properties": {"source-name": {"type": "string", "minLength": 1, "maxLength": LONGEST}},
        },
    ]
)


class Manageable(Described, kw_only=True):
    """What is asked to be taken over. ``ref`` is its name on the storage, ``{"source-name": NAME}``."""

    host: Key
    ref: Annotated[dict[str, Any] | str, _REFERENCE]
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    bootable: Annotated[Any, also(enum=[value for value in booleans.VALUES if not booleans.parse(value)])] = False
    cluster: Nothing = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_cluster(self.cluster)
        if flag("bootable", self.bootable):
            raise ValueError("bootable is true, and volumes to boot from are not supported")
        name = self.ref.get("source-name") if isinstance(self.ref, dict) else self.ref
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST:
            raise ValueError(
                f'ref names nothing: expected {{"source-name": NAME}}, the name 1 to {LONGEST} characters long'
            )
        self.ref = name


class Manage(Struct):
    """``POST /manageable_volumes``."""

    volume: Manageable


#: What ``POST /volumes/{id}/action`` may be about.
VOLUME_ACTIONS = {
    "os-extend": Extend,
    "os-force_delete": Anything,
    "os-migrate_volume": Migrate,
    "os-reset_status": Annotated[ResetStatus, some_of("status", "attach_status", "migration_status")],
    "os-retype": Retype,
    "os-unmanage": Anything,
}


def _settle(sent: NewVolume | Described) -> None:
    """Have what a volume is called stand where it is looked for, by whichever name it was sent."""
    sent.name = _stripped(sent.name, sent.display_name)
    sent.description = _stripped(sent.description, sent.display_description)


def _stripped(*texts: str | None) -> str | None:
    """Return the first that is there."""
    return next((text.strip() for text in texts if text is not None), None)
