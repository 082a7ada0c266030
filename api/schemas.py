# SPDX-License-Identifier: Apache-2.0
"""The bodies that requests may carry. Unknown keys are ignored, as clients of other releases send some."""

from typing import Annotated
from typing import Any
from typing import TypeAlias

import msgspec
from msgspec import Meta
from msgspec import Struct

from tonnage.capacity.units import MAX_SIZE_GB

Text: TypeAlias = Annotated[str, Meta(max_length=255)]
Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255)]
SpecKey: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. -]+$")]
Scalar: TypeAlias = str | int | float | bool | None
Hints: TypeAlias = dict[Key, Scalar | list[Scalar]]

#: Fields of a new volume that ask for what Tonnage does not do, and what that is.
_UNSUPPORTED = {
    "snapshot_id": "a volume from a snapshot",
    "source_volid": "a volume from another volume",
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


class NewVolume(Struct):
    """What is asked of a new volume."""

    size: Size
    name: Text | None = None
    description: Text | None = None
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    hints: Hints | None = msgspec.field(default=None, name="OS-SCH-HNT:scheduler_hints")
    snapshot_id: Any = None
    source_volid: Any = None
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


class CreateVolume(Struct):
    """``POST /volumes``. The hints may stand beside the volume or in it."""

    volume: NewVolume
    hints: Hints | None = msgspec.field(default=None, name="OS-SCH-HNT:scheduler_hints")


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

    status: Text


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


class ExtraSpecs(Struct):
    """``POST /types/{id}/extra_specs``."""

    extra_specs: dict[SpecKey, Text]


def _named(name: str) -> str:
    name = name.strip()
    if not name:
        raise ValueError("name is blank")
    return name
