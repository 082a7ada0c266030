# SPDX-License-Identifier: Apache-2.0
"""Request and response bodies for volume types and QoS specs."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tonnage.api.schemas.fields import (
    Body,
    Flag,
    Key,
    Name,
    SpecKey,
    Specs,
    Text,
    at_least_one_of,
    json_schema,
    parse_flag,
)
from tonnage.api.schemas.response_bodies import Link
from tonnage.ledger.catalog.qos_specs import Consumer


class NewType(Body):
    """A new volume type. ``encryption`` is answered with 501, before the type is created."""

    name: Name
    description: Text | None = None
    extra_specs: Specs | None = None
    encryption: Any = None
    is_public: Flag = msgspec.field(default=True, name="os-volume-type-access:is_public")

    def __post_init__(self) -> None:
        self.name = self.name.strip()
        # Null means the default, not private.
        self.is_public = self.is_public is None or parse_flag("os-volume-type-access:is_public", self.is_public)


class CreateType(Body):
    """``POST /types``."""

    volume_type: NewType


class TypeChanges(Body):
    """The changes of a volume type."""

    name: Name | None = None
    description: Text | None = None
    is_public: Flag = None

    def __post_init__(self) -> None:
        if self.name is not None:
            self.name = self.name.strip()
        if self.is_public is not None:
            self.is_public = parse_flag("is_public", self.is_public)
        if self.name is None and self.description is None and self.is_public is None:
            raise ValueError("expected at least one of name, description, is_public")


class UpdateType(Body):
    """``PUT /types/{id}``."""

    volume_type: Annotated[TypeChanges, at_least_one_of("name", "description", "is_public")]


class ProjectAccess(Body):
    """A project that gets access to a type or loses it."""

    project: Key


#: The actions of ``POST /types/{id}/action`` with the types of their arguments.
TYPE_ACTIONS = {"addProjectAccess": ProjectAccess, "removeProjectAccess": ProjectAccess}


class SetExtraSpecs(Body):
    """``POST /types/{id}/extra_specs``."""

    extra_specs: Specs


_CONSUMER = {"enum": list(Consumer)}


class UpdateQosSpecs(Body):
    """``PUT /qos-specs/{id}``: specs, and the key ``consumer`` if the consumer changes."""

    qos_specs: Annotated[dict[SpecKey, Text], json_schema(properties={"consumer": _CONSUMER})]

    def __post_init__(self) -> None:
        consumers = list(Consumer)
        if self.qos_specs.get("consumer", consumers[0]) not in consumers:
            raise ValueError(f"consumer is {self.qos_specs['consumer']!r}: expected {', '.join(consumers)}")

    @property
    def consumer(self) -> Consumer | None:
        """The side that enforces the specs, None if the body does not have it."""
        return Consumer(self.qos_specs["consumer"]) if "consumer" in self.qos_specs else None

    @property
    def specs(self) -> dict[str, str]:
        """The specs, without the name and the consumer."""
        return {key: value for key, value in self.qos_specs.items() if key not in ("name", "consumer")}


class CreateQosSpecs(UpdateQosSpecs):
    """``POST /qos-specs``: specs and the key ``name``."""

    qos_specs: Annotated[
        dict[SpecKey, Text],
        json_schema(
            required=["name"], properties={"name": {"type": "string", "pattern": r"\S"}, "consumer": _CONSUMER}
        ),
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            raise ValueError("missing required field name")

    @property
    def name(self) -> str:
        """The name of the QoS specs."""
        return self.qos_specs.get("name", "").strip()


class QosKeys(Body):
    """``PUT /qos-specs/{id}/delete_keys``."""

    keys: list[Key]


class TypeDetail(Struct, kw_only=True):
    """A volume type. Its extra specs and the id of its QoS specs are missing for users without the right to see them.

    As in Cinder, a created or changed type has no ``qos_specs_id``, and a changed one no
    ``os-volume-type-access:is_public``.
    """

    id: str
    name: str
    description: str | None
    is_public: bool
    access: bool | UnsetType = msgspec.field(default=UNSET, name="os-volume-type-access:is_public")
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
    """QoS specs of volume types."""

    id: str
    name: str
    consumer: str
    specs: dict[str, str]


class OneQosSpecs(Struct):
    """QoS specs with links."""

    qos_specs: QosDetail
    links: list[Link]


class SetQosSpecs(Struct):
    """The new specs."""

    qos_specs: dict[str, str]


class QosSpecsPage(Struct):
    """A page of QoS specs."""

    qos_specs: list[QosDetail]
    qos_specs_links: list[Link] | UnsetType = UNSET


class QosAssociation(Struct):
    """A volume type of QoS specs."""

    id: str
    name: str
    association_type: str = "volume_type"


class QosAssociations(Struct):
    """The volume types of QoS specs."""

    qos_associations: list[QosAssociation]
