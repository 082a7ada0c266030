# SPDX-License-Identifier: Apache-2.0
"""The bodies that requests may carry. Unknown keys are ignored, as clients of other releases send some."""

from typing import Annotated
from typing import Any
from typing import TypeAlias

import msgspec
from msgspec import UNSET
from msgspec import Meta
from msgspec import Struct
from msgspec import UnsetType
from oslo_utils import strutils

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.rpc.messages import MigrationPolicy

_LONGEST = 255

Text: TypeAlias = Annotated[str, Meta(max_length=_LONGEST)]
Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=_LONGEST)]
SpecKey: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. -]+$")]
Scalar: TypeAlias = str | int | float | bool | None
Hints: TypeAlias = dict[Key, Scalar | list[Scalar]]

#: Most volumes that can be asked for at once.
MAX_AT_ONCE = 128

#: Most requests that one question can be about.
MAX_REQUESTS = 1000

#: Fields of a new volume that ask for what Tonnage does not do, and what that is.
_UNSUPPORTED = {
    "snapshot_id": "a volume from a snapshot",
    "imageRef": "a volume from an image",
    "image_id": "a volume from an image",
    "backup_id": "a volume from a backup",
    "consistencygroup_id": "a volume in a consistency group",
    "group_id": "a volume in a group",
    "multiattach": "a volume for several servers at once",
}


class Size(int):
    """A size in whole GiB, sent as a number or as digits."""

    @classmethod
    def parse(cls, value: Any) -> "Size":
        """Return the size. Raises :class:`ValueError`."""
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE_GB:
            raise ValueError(f"expected a whole number of GiB from 1 to {MAX_SIZE_GB}")
        return cls(value)


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
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    source_volid: Text | None = None
    snapshot_id: Any = None
    imageRef: Any = None  # noqa: N815  (the name on the wire)
    image_id: Any = None
    backup_id: Any = None
    consistencygroup_id: Any = None
    group_id: Any = None
    multiattach: Any = None

    def __post_init__(self) -> None:
        for name, what in _UNSUPPORTED.items():
            if getattr(self, name):
                raise ValueError(f"{name} is set, and {what} is not supported")
        if not self.source_volid and self.size is UNSET:
            raise ValueError("missing required field size")
        if not self.source_volid and self.size is None:
            raise ValueError(f"size is null: expected a whole number of GiB from 1 to {MAX_SIZE_GB}")


class CreateVolume(Hinted, kw_only=True):
    """``POST /volumes``. The hints may stand beside the volume or in it."""

    volume: NewVolume


class CreateVolumes(Hinted, kw_only=True):
    """``POST /volumes`` for several at once. Hints beside the list are for all of them."""

    volumes: Annotated[list[NewVolume], Meta(min_length=1, max_length=MAX_AT_ONCE)]


class Growth(Struct):
    """A volume that is there and the size that it would get."""

    volume_id: Key
    new_size: Size


class ExtendVolume(Struct):
    """What asks how the growth of a volume would be decided."""

    extend: Growth


class Changes(Struct, forbid_unknown_fields=True):
    """What would be different, see :class:`tonnage.capacity.changes.Changes`; unknown keys are slips of the pen."""

    default_ratio: float | str | None = None
    ratios: dict[Key, float | str] = {}
    calculation: Calculation | None = None
    reserved_percentage: float | None = None
    reserved_percentages: dict[Key, float] = {}
    lost: list[Key] = []
    added: list[dict[str, Any]] = []


class WhatIf(Struct, forbid_unknown_fields=True):
    """``POST /scheduler-stats/what-if``. Each request is a body that ``explain`` takes."""

    requests: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MAX_REQUESTS)]
    changes: Changes = msgspec.field(default_factory=Changes)
    detail: bool = False


class VolumeChanges(Struct):
    """What may be changed of a volume."""

    name: Text | None = None
    description: Text | None = None
    metadata: dict[Key, Text] | None = None


class UpdateVolume(Struct):
    """``PUT /volumes/{id}``."""

    volume: VolumeChanges


class Extend(Struct):
    """Action ``os-extend``."""

    new_size: Size


class ResetStatus(Struct):
    """Action ``os-reset_status``."""

    status: Text | None = None
    attach_status: Text | None = None
    migration_status: Text | None = None

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
    migration_policy: Text | None = None

    def __post_init__(self) -> None:
        if self.migration_policy not in (None, *MigrationPolicy):
            raise ValueError(f"migration_policy is {self.migration_policy!r}: expected {' or '.join(MigrationPolicy)}")


class Migrate(Struct):
    """Action ``os-migrate_volume``.

    A volume is always copied and always locked while it moves, so these flags make no difference.
    """

    host: Key | None = None
    cluster: Any = None
    force_host_copy: Any = False
    lock_volume: Any = False

    def __post_init__(self) -> None:
        _refuse_cluster(self.cluster)
        for name in ("force_host_copy", "lock_volume"):
            _flag(name, getattr(self, name))


class Manageable(Struct):
    """What is asked to be taken over. ``ref`` is its name on the storage, ``{"source-name": NAME}``."""

    host: Key
    ref: dict[str, Any] | str
    name: Text | None = None
    description: Text | None = None
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    bootable: Any = False
    cluster: Any = None

    def __post_init__(self) -> None:
        _refuse_cluster(self.cluster)
        if _flag("bootable", self.bootable):
            raise ValueError("bootable is true, and volumes to boot from are not supported")
        name = self.ref.get("source-name") if isinstance(self.ref, dict) else self.ref
        if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST:
            raise ValueError(
                f'ref names nothing: expected {{"source-name": NAME}}, the name 1 to {_LONGEST} characters long'
            )
        self.ref = name


class Manage(Struct):
    """``POST /manageable_volumes``."""

    volume: Manageable


class ServiceChange(Struct):
    """``PUT /os-services/{action}``. ``service`` is an old name for ``binary``."""

    host: Key
    binary: Text | None = None
    service: Text | None = None
    disabled_reason: Text | None = None

    def __post_init__(self) -> None:
        if not (self.binary or self.service):
            raise ValueError("missing required field binary")


class NewType(Struct):
    """What is asked of a new volume type."""

    name: Key
    description: Text | None = None
    extra_specs: dict[SpecKey, Text] | None = None
    is_public: bool = msgspec.field(default=True, name="os-volume-type-access:is_public")

    def __post_init__(self) -> None:
        self.name = _named(self.name)


class CreateType(Struct):
    """``POST /types``."""

    volume_type: NewType


class TypeChanges(Struct):
    """What may be changed of a volume type."""

    name: Key | None = None
    description: Text | None = None
    is_public: bool | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            self.name = _named(self.name)
        if self.name is None and self.description is None and self.is_public is None:
            raise ValueError("expected at least one of name, description, is_public")


class UpdateType(Struct):
    """``PUT /types/{id}``."""

    volume_type: TypeChanges


class ProjectAccess(Struct):
    """A project that may or may not use a type."""

    project: Key


class TypeAction(Struct):
    """``POST /types/{id}/action``."""

    add: ProjectAccess | None = msgspec.field(default=None, name="addProjectAccess")
    remove: ProjectAccess | None = msgspec.field(default=None, name="removeProjectAccess")

    def __post_init__(self) -> None:
        if (self.add is None) == (self.remove is None):
            raise ValueError("expected either addProjectAccess or removeProjectAccess")


class ExtraSpecs(Struct):
    """``POST /types/{id}/extra_specs``."""

    extra_specs: dict[SpecKey, Text]


def _flag(name: str, value: Any) -> bool:
    """Return what is true or false, sent as such or as a word. Raises :class:`ValueError`."""
    try:
        return False if value is None else bool(strutils.bool_from_string(value, strict=True))
    except ValueError:
        raise ValueError(f"{name} is neither true nor false") from None


def _refuse_cluster(cluster: object) -> None:
    if cluster:
        raise ValueError("cluster is set, and clusters are not supported: name a host")


def _named(name: str) -> str:
    name = name.strip()
    if not name:
        raise ValueError("name is blank")
    return name
