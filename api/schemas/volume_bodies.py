# SPDX-License-Identifier: Apache-2.0
"""Request bodies for volumes."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tonnage.api.schemas.fields import (
    EMPTY_VALUES,
    MAX_LENGTH,
    AnyArguments,
    Body,
    FalseFlag,
    Flag,
    Hints,
    Key,
    Size,
    Text,
    Unsupported,
    at_least_one_of,
    json_schema,
    parse_flag,
    reject_cluster,
)
from tonnage.capacity import errors
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.ledger.catalog import volumes
from tonnage.rpc.messages import MigrationPolicy

#: Most new volumes in one request.
MAX_AT_ONCE = 128

#: Fields of a new volume for unsupported features, with the names of the features.
_UNSUPPORTED_FIELDS = {
    "imageRef": "a volume from an image",
    "image_id": "a volume from an image",
    "backup_id": "a volume from a backup",
    "consistencygroup_id": "a volume in a consistency group",
}


class Hinted(Body, kw_only=True):
    """A body with scheduler hints, under the long or the short key."""

    hints: Hints | None = msgspec.field(default=None, name="OS-SCH-HNT:scheduler_hints")
    short_hints: Hints | None = msgspec.field(default=None, name="scheduler_hints")

    def all_hints(self) -> Hints:
        """Return the hints under both keys."""
        return {**(self.short_hints or {}), **(self.hints or {})}


class NewVolume(Hinted, kw_only=True):
    """A new volume. The size is optional for a clone. There are no snapshots, so their ids are not found."""

    size: Size | UnsetType | None = UNSET
    name: Text | None = None
    description: Text | None = None
    display_name: Text | None = None
    display_description: Text | None = None
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    source_volid: Text | None = None
    snapshot_id: Unsupported = None
    imageRef: Unsupported = None  # noqa: N815  (the name on the wire)
    image_id: Unsupported = None
    backup_id: Unsupported = None
    consistencygroup_id: Unsupported = None
    group_id: Text | None = None
    multiattach: FalseFlag = None

    def __post_init__(self) -> None:
        _normalize_names(self)
        if self.snapshot_id not in EMPTY_VALUES:
            raise errors.NotFound(f"Snapshot {self.snapshot_id} could not be found.")
        for name, feature in _UNSUPPORTED_FIELDS.items():
            if getattr(self, name) not in EMPTY_VALUES:
                raise ValueError(f"{name} is set, and {feature} is not supported")
        if parse_flag("multiattach", self.multiattach):
            raise ValueError("multiattach is true, and volumes for several servers at once are not supported")
        if not self.source_volid and self.size is UNSET:
            raise ValueError("missing required field size")
        if not self.source_volid and self.size is None:
            raise ValueError(f"size is null: expected a whole number of GiB from 1 to {MAX_SIZE_GB}")

    def content(self, outer_hints: Hints) -> Mapping[str, Any]:
        """Return the content of the request: equal for bodies that say the same in other words.

        ``outer_hints`` are the hints outside of the volume's own object.
        """
        return {
            "size": int(self.size) if isinstance(self.size, Size) else None,
            "name": self.name,
            "description": self.description,
            "volume_type": self.volume_type or None,
            "availability_zone": self.availability_zone or None,
            "metadata": self.metadata or {},
            "source_volid": self.source_volid or None,
            "group_id": self.group_id or None,
            "hints": {**outer_hints, **self.all_hints()},
        }


#: A new volume has a size or a source volume.
_SIZED = json_schema(
    anyOf=[
        {"required": ["size"], "properties": {"size": {"type": ["integer", "string"]}}},
        {"required": ["source_volid"], "properties": {"source_volid": {"type": "string", "minLength": 1}}},
    ]
)


class CreateVolume(Hinted, kw_only=True):
    """``POST /volumes``. Hints may be in the body or in the object of the volume."""

    volume: Annotated[NewVolume, _SIZED]


class TolerantNewVolume(NewVolume, kw_only=True, forbid_unknown_fields=False):
    """A new volume before microversion 3.53, where Cinder ignores unknown keys."""


class TolerantCreateVolume(CreateVolume, kw_only=True):
    """``POST /volumes`` before microversion 3.53."""

    volume: TolerantNewVolume


class CreateVolumes(Hinted, kw_only=True):
    """``POST /volumes`` for several volumes. Hints in the body apply to all of them."""

    volumes: Annotated[list[Annotated[NewVolume, _SIZED]], Meta(min_length=1, max_length=MAX_AT_ONCE)]


class Described(Body, kw_only=True):
    """A body with a name and a description, each under one of two keys of the Block Storage API."""

    name: Text | None = None
    description: Text | None = None
    display_name: Text | None = None
    display_description: Text | None = None

    def __post_init__(self) -> None:
        _normalize_names(self)


class VolumeChanges(Described, kw_only=True):
    """The changes of a volume."""

    metadata: dict[Key, Text] | None = None


class UpdateVolume(Body):
    """``PUT /volumes/{id}``."""

    volume: VolumeChanges


class SetMetadata(Body):
    """``POST`` and ``PUT /volumes/{id}/metadata``."""

    metadata: dict[Key, Text]


class SetMetadataItem(Body):
    """``PUT /volumes/{id}/metadata/{key}``."""

    meta: Annotated[dict[Key, Text], Meta(min_length=1, max_length=1)]


class Extend(Body):
    """Action ``os-extend``."""

    new_size: Size


class ResetStatus(Body):
    """Action ``os-reset_status``."""

    status: Annotated[Text | None, json_schema(enum=[None, *volumes.SETTABLE_STATUSES])] = None
    attach_status: Annotated[Text | None, json_schema(enum=[None, "detached"])] = None
    migration_status: Annotated[Text | None, json_schema(enum=[None, "none"])] = None

    def __post_init__(self) -> None:
        if not (self.status or self.attach_status or self.migration_status):
            raise ValueError("expected at least one of status, attach_status, migration_status")
        if self.attach_status and self.attach_status.lower() != "detached":
            raise ValueError(f"attach_status is {self.attach_status!r}: expected detached, as nothing attaches volumes")
        if self.migration_status and self.migration_status.lower() != "none":
            raise ValueError(f"migration_status is {self.migration_status!r}: expected none")


class Retype(Body):
    """Action ``os-retype``."""

    new_type: Key
    migration_policy: Annotated[Text | None, json_schema(enum=[None, *MigrationPolicy])] = None

    def __post_init__(self) -> None:
        if self.migration_policy not in (None, *MigrationPolicy):
            raise ValueError(f"migration_policy is {self.migration_policy!r}: expected {' or '.join(MigrationPolicy)}")


class Migrate(Body):
    """Action ``os-migrate_volume``.

    A migration always copies the volume and locks it, so the flags make no difference.
    """

    host: Key | None = None
    cluster: Unsupported = None
    force_host_copy: Flag = False
    lock_volume: Flag = False

    def __post_init__(self) -> None:
        reject_cluster(self.cluster)
        for name in ("force_host_copy", "lock_volume"):
            parse_flag(name, getattr(self, name))


_REFERENCE = json_schema(
    oneOf=[
        {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH},
        {
            "type": "object",
            "required": ["source-name"],
            "properties": {"source-name": {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH}},
        },
    ]
)


class Manageable(Described, kw_only=True):
    """A volume to manage. ``ref`` is its name on the storage, ``{"source-name": NAME}``."""

    host: Key
    ref: Annotated[dict[str, Any] | str, _REFERENCE]
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    bootable: FalseFlag = False
    cluster: Unsupported = None

    def __post_init__(self) -> None:
        super().__post_init__()
        reject_cluster(self.cluster)
        if parse_flag("bootable", self.bootable):
            raise ValueError("bootable is true, and volumes to boot from are not supported")
        name = self.ref.get("source-name") if isinstance(self.ref, dict) else self.ref
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_LENGTH:
            raise ValueError(
                f'ref names nothing: expected {{"source-name": NAME}}, the name 1 to {MAX_LENGTH} characters long'
            )
        self.ref = name


class Manage(Body):
    """``POST /manageable_volumes``."""

    volume: Manageable


_ATTACHING = "attachments of volumes"
_BOOTING = "volumes to boot from"
_IMAGES = "images"

#: Actions of Cinder that Tonnage does not support, with the names of the features.
UNSUPPORTED_ACTIONS = {
    **dict.fromkeys(
        (
            "os-attach",
            "os-begin_detaching",
            "os-detach",
            "os-extend_volume_completion",
            "os-force_detach",
            "os-initialize_connection",
            "os-reserve",
            "os-roll_detaching",
            "os-terminate_connection",
            "os-unreserve",
            "os-update_readonly_flag",
        ),
        _ATTACHING,
    ),
    "os-set_bootable": _BOOTING,
    **dict.fromkeys(
        (
            "os-reimage",
            "os-set_image_metadata",
            "os-show_image_metadata",
            "os-unset_image_metadata",
            "os-volume_upload_image",
        ),
        _IMAGES,
    ),
    "os-migrate_volume_completion": "migrations by other services",
    "revert": "snapshots",
}

#: The actions of ``POST /volumes/{id}/action`` with the types of their arguments.
VOLUME_ACTIONS = {
    "os-extend": Extend,
    "os-force_delete": AnyArguments,
    "os-migrate_volume": Migrate,
    "os-reset_status": Annotated[ResetStatus, at_least_one_of("status", "attach_status", "migration_status")],
    "os-retype": Retype,
    "os-unmanage": AnyArguments,
    **dict.fromkeys(UNSUPPORTED_ACTIONS, AnyArguments),
}


def _normalize_names(sent: NewVolume | Described) -> None:
    """Set ``name`` and ``description``, stripped, from the keys that the client used."""
    name = sent.display_name if sent.name is None else sent.name
    description = sent.display_description if sent.description is None else sent.description
    sent.name = None if name is None else name.strip()
    sent.description = None if description is None else description.strip()
