# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests and answers about volume types and QoS specs."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tonnage.api.http.fields import Flag, Key, Named, SpecKey, Specs, Text, also, flag, some_of
from tonnage.api.schemas.response_bodies import Link
from tonnage.ledger.catalog.qos_specs import Consumer


class NewType(Struct):
    """What is asked of a new volume type."""

    name: Named
    description: Text | None = None
    extra_specs: Specs | None = None
    is_public: Flag = msgspec.field(default=True, name="os-volume-type-access:is_public")

    def __post_init__(self) -> None:
        self.name = self.name.strip()
        # Null is nothing said, and no word for private.
        self.is_public = self.is_public is None or flag("os-volume-type-access:is_public", self.is_public)


class CreateType(Struct):
    """``POST /types``."""

    volume_type: NewType


class TypeChanges(Struct):
    """What may be changed of a volume type."""

    name: Named | None = None
    description: Text | None = None
    is_public: Flag = None

    def __post_init__(self) -> None:
        if self.name is not None:
            self.name = self.name.strip()
        if self.is_public is not None:
            self.is_public = flag("is_public", self.is_public)
        if self.name is None and self.description is None and self.is_public is None:
            raise ValueError("expected at least one of name, description, is_public")


class UpdateType(Struct):
    """``PUT /types/{id}``."""

    volume_type: Annotated[TypeChanges, some_of("name", "description", "is_public")]


class ProjectAccess(Struct):
    """A project that may or may not use a type."""

    project: Key


#: What ``POST /types/{id}/action`` may be about.
TYPE_ACTIONS = {"addProjectAccess": ProjectAccess, "removeProjectAccess": ProjectAccess}


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


class TypeDetail(Struct, kw_only=True):
    """A volume type. Its extra specs, and the id of its QoS specs, are left out for who may not see them."""

    id: str
    name: str
    description: str | None
    is_public: bool
    access: bool = msgspec.field(name="os-volume-type-access:is_public")
    qos_specs_id: str | UnsetType | None = UNSET
    extra_specs: dict[str, str] | UnsetType = UNSET


class VolumeType(Struct):
    """One volume type."""

    volume_type: TypeDetail


class VolumeTypes(Struct):
    """A page of volume types."""

    volume_types: list[TypeDetail]
    volume_type_links: list[Link] | UnsetType = UNSET


class TypeAccess(Struct):
    """A project that may use a type."""

    volume_type_id: str
    project_id: str


class TypeAccessList(Struct):
    """The projects that may use a type."""

    volume_type_access: list[TypeAccess]


class ExtraSpecs(Struct):
    """The extra specs of a type."""

    extra_specs: dict[str, str]


class QosDetail(Struct):
    """What volumes of some types are to get."""

    id: str
    name: str
    consumer: str
    specs: dict[str, str]


class OneQosSpecs(Struct):
    """QoS specs."""

    qos_specs: QosDetail
    links: list[Link]


class SetQosSpecs(Struct):
    """The specs that were set."""

    qos_specs: dict[str, str]


class QosSpecsPage(Struct):
    """A page of QoS specs."""

    qos_specs: list[QosDetail]
    qos_specs_links: list[Link] | UnsetType = UNSET


class QosAssociation(Struct):
    """A type that QoS specs are for."""

    id: str
    name: str
    association_type: str = "volume_type"


class QosAssociations(Struct):
    """The types that QoS specs are for."""

    qos_associations: list[QosAssociation]
