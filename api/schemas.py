# SPDX-License-Identifier: Apache-2.0
"""The bodies that requests may carry. Unknown keys are ignored, as clients of other releases send some.

Bodies are checked by these types, and the OpenAPI document is made of them. What a type cannot say is said twice, side
by side: in ``__post_init__``, and as JSON Schema in :func:`also`.
"""

import re
from typing import Annotated
from typing import Any
from typing import ClassVar
from typing import TypeAlias

import msgspec
from msgspec import UNSET
from msgspec import Meta
from msgspec import Struct
from msgspec import UnsetType

from tonnage.api import flags
from tonnage.capacity import request
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.ledger import services
from tonnage.ledger import volumes
from tonnage.ledger.qos_specs import Consumer
from tonnage.rpc.messages import MigrationPolicy

_LONGEST = 255


def also(**schema: Any) -> Meta:
    """Return what is to be said of a type beside what it says itself, as JSON Schema."""
    return Meta(extra_json_schema=schema)


def some_of(*names: str) -> Meta:
    """Say that of these fields at least one is not null."""
    given = {"type": ["string", "boolean", "integer"]}
    return also(anyOf=[{"required": [name], "properties": {name: given}} for name in names])


Text: TypeAlias = Annotated[str, Meta(max_length=_LONGEST)]
Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=_LONGEST)]
SpecKey: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. -]+$")]
Scalar: TypeAlias = str | int | float | bool | None
#: A field for what Tonnage does not do: nothing can be said in it.
_NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})
Nothing: TypeAlias = Annotated[Any, also(enum=list(_NOTHING))]
Flag: TypeAlias = Annotated[Any, also(enum=list(flags.VALUES))]
Named: TypeAlias = Annotated[str, Meta(min_length=1, max_length=_LONGEST, pattern=r"\S")]
Hints: TypeAlias = dict[Key, Scalar | list[Scalar]]

#: Of ``provisioning:type`` only some values can be meant.
Specs: TypeAlias = Annotated[
    dict[SpecKey, Text], also(properties={request.PROVISIONING_SPEC: {"enum": list(request.Provisioning)}})
]

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
    "multiattach": "a volume for several servers at once",
}


_DIGITS = re.compile("^[1-9][0-9]{0,8}$")


class Size(int):
    """A size in whole GiB, sent as a number or as digits."""

    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_SIZE_GB},
            {"type": "string", "pattern": _DIGITS.pattern},
        ]
    }

    @classmethod
    def parse(cls, value: Any) -> "Size":
        """Return the size. Raises :class:`ValueError`."""
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON does not tell 3.0 from 3
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
    snapshot_id: Nothing = None
    imageRef: Nothing = None  # noqa: N815  (the name on the wire)
    image_id: Nothing = None
    backup_id: Nothing = None
    consistencygroup_id: Nothing = None
    group_id: Text | None = None
    multiattach: Nothing = None

    def __post_init__(self) -> None:
        for name, what in _UNSUPPORTED.items():
            if getattr(self, name) not in _NOTHING:
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


_ASKED = also(
    anyOf=[
        {"$ref": f"#/components/schemas/{kind}"}
        for kind in ("CreateVolume", "CreateVolumes", "ExtendVolume", "MigrateVolume", "RetypeVolume")
    ]
)


class WhatIf(Struct, forbid_unknown_fields=True):
    """``POST /scheduler-stats/what-if``. Each request is a body that ``explain`` takes."""

    requests: Annotated[list[Annotated[dict[str, Any], _ASKED]], Meta(min_length=1, max_length=MAX_REQUESTS)]
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


class SetMetadata(Struct):
    """``POST`` and ``PUT /volumes/{id}/metadata``."""

    metadata: dict[Key, Text]


class SetMetadataItem(Struct):
    """``PUT /volumes/{id}/metadata/{key}``."""

    meta: Annotated[dict[Key, Text], Meta(min_length=1, max_length=1)]


#: The arguments of an action that takes none: whatever is sent.
Anything: TypeAlias = Any


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
        _refuse_cluster(self.cluster)
        for name in ("force_host_copy", "lock_volume"):
            _flag(name, getattr(self, name))


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


_REFERENCE = also(
    oneOf=[
        {"type": "string", "minLength": 1, "maxLength": _LONGEST},
        {
            "type": "object",
            "required": ["source-name"],
            "properties": {"source-name": {"type": "string", "minLength": 1, "maxLength": _LONGEST}},
        },
    ]
)


class Manageable(Struct):
    """What is asked to be taken over. ``ref`` is its name on the storage, ``{"source-name": NAME}``."""

    host: Key
    ref: Annotated[dict[str, Any] | str, _REFERENCE]
    name: Text | None = None
    description: Text | None = None
    volume_type: Text | None = None
    availability_zone: Text | None = None
    metadata: dict[Key, Text] | None = None
    bootable: Annotated[Any, also(enum=[value for value in flags.VALUES if not flags.parse(value)])] = False
    cluster: Nothing = None

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


#: What Cinder calls the same.
SERVICE_NAMES = {"cinder-volume": services.AGENT, "cinder-scheduler": services.SCHEDULER}

_BINARIES = (services.AGENT, services.SCHEDULER)
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
        return SERVICE_NAMES.get(asked, asked) == services.SCHEDULER


#: A change names what it is about by the new name or by the old one.
SERVICE_NAMED = some_of("binary", "service")


_BACKEND: TypeAlias = Annotated[Text | None, also(enum=[None, services.AGENT, "cinder-volume"])]


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

    disabled_reason: Annotated[Text, also(pattern=r"\S")]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.disabled_reason = self.disabled_reason.strip()
        if not self.disabled_reason:
            raise ValueError("disabled_reason is missing: say why, or use disable")


class NewType(Struct):
    """What is asked of a new volume type."""

    name: Named
    description: Text | None = None
    extra_specs: Specs | None = None
    is_public: bool = msgspec.field(default=True, name="os-volume-type-access:is_public")

    def __post_init__(self) -> None:
        self.name = self.name.strip()


class CreateType(Struct):
    """``POST /types``."""

    volume_type: NewType


class TypeChanges(Struct):
    """What may be changed of a volume type."""

    name: Named | None = None
    description: Text | None = None
    is_public: bool | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            self.name = self.name.strip()
        if self.name is None and self.description is None and self.is_public is None:
            raise ValueError("expected at least one of name, description, is_public")


class UpdateType(Struct):
    """``PUT /types/{id}``."""

    volume_type: Annotated[TypeChanges, some_of("name", "description", "is_public")]


class ProjectAccess(Struct):
    """A project that may or may not use a type."""

    project: Key


#: What ``POST /volumes/{id}/action`` may be about.
VOLUME_ACTIONS = {
    "os-extend": Extend,
    "os-force_delete": Anything,
    "os-migrate_volume": Migrate,
    "os-reset_status": Annotated[ResetStatus, some_of("status", "attach_status", "migration_status")],
    "os-retype": Retype,
    "os-unmanage": Anything,
}

#: What ``POST /types/{id}/action`` may be about.
TYPE_ACTIONS = {"addProjectAccess": ProjectAccess, "removeProjectAccess": ProjectAccess}

#: ``PUT /types/{id}/extra_specs/{key}``.
OneSpec: TypeAlias = Annotated[
    dict[SpecKey, Text],
    Meta(min_length=1, max_length=1),
    also(properties={request.PROVISIONING_SPEC: {"enum": list(request.Provisioning)}}),
]


class SetExtraSpecs(Struct):
    """``POST /types/{id}/extra_specs``."""

    extra_specs: Specs


_CONSUMER = {"enum": list(Consumer)}


class UpdateQosSpecs(Struct):
    """``PUT /qos-specs/{id}``: specs, and among them, if it changes, the ``consumer``."""

    qos_specs: Annotated[dict[SpecKey, Text], also(properties={"consumer": _CONSUMER})]

    def __post_init__(self) -> None:
        known = list(Consumer)
        if self.qos_specs.get("consumer", known[0]) not in known:
            raise ValueError(f"consumer is {self.qos_specs['consumer']!r}: expected {', '.join(known)}")

    @property
    def consumer(self) -> Consumer | None:
        """Who sees to the specs."""
        return Consumer(self.qos_specs["consumer"]) if "consumer" in self.qos_specs else None

    @property
    def specs(self) -> dict[str, str]:
        """The specs themselves."""
        return {key: value for key, value in self.qos_specs.items() if key not in ("name", "consumer")}


class CreateQosSpecs(UpdateQosSpecs):
    """``POST /qos-specs``: the same with a ``name``."""

    qos_specs: Annotated[
        dict[SpecKey, Text],
        also(required=["name"], properties={"name": {"type": "string", "pattern": r"\S"}, "consumer": _CONSUMER}),
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            raise ValueError("missing required field name")

    @property
    def name(self) -> str:
        """What they are called."""
        return self.qos_specs.get("name", "").strip()


class QosKeys(Struct):
    """``PUT /qos-specs/{id}/delete_keys``."""

    keys: list[Key]


def _flag(name: str, value: Any) -> bool:
    """Return what is true or false, sent as such or as a word. Raises :class:`ValueError`."""
    try:
        return flags.parse(value)
    except ValueError as error:
        raise ValueError(f"{name} is {error}") from None


def _refuse_cluster(cluster: object) -> None:
    if cluster not in _NOTHING:
        raise ValueError("cluster is set, and clusters are not supported: name a host")
