# SPDX-License-Identifier: Apache-2.0
"""Request and response bodies for groups and group types."""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tonnage.api.schemas.fields import (
    AnyArguments,
    Body,
    Flag,
    Key,
    Name,
    SpecKey,
    Text,
    at_least_one_of,
    json_schema,
    parse_flag,
)
from tonnage.api.schemas.response_bodies import Link
from tonnage.api.schemas.type_bodies import TypeChanges
from tonnage.ledger.catalog import groups

_SEPARATED = ","

Specs: TypeAlias = dict[SpecKey, Text]

#: ``PUT /group_types/{id}/group_specs/{key}``.
OneSpec: TypeAlias = Annotated[Specs, Meta(min_length=1, max_length=1)]


class NewGroup(Body, kw_only=True):
    """A new group. Types are ids or names."""

    group_type: Key
    volume_types: Annotated[list[Key], Meta(min_length=1), json_schema(uniqueItems=True)]
    name: Text | None = None
    description: Text | None = None
    availability_zone: Text | None = None

    def __post_init__(self) -> None:
        if len(set(self.volume_types)) < len(self.volume_types):
            raise ValueError("volume_types names a type twice")


class CreateGroup(Body):
    """``POST /groups``."""

    group: NewGroup


class GroupChanges(Body, kw_only=True):
    """The changes of a group. Volumes are ids separated by commas."""

    name: Text | None = None
    description: Text | None = None
    add_volumes: str | None = None
    remove_volumes: str | None = None

    def __post_init__(self) -> None:
        if all(value is None for value in (self.name, self.description, self.add_volumes, self.remove_volumes)):
            raise ValueError("expected at least one of name, description, add_volumes, remove_volumes")


class UpdateGroup(Body):
    """``PUT /groups/{id}``."""

    group: Annotated[GroupChanges, at_least_one_of("name", "description", "add_volumes", "remove_volumes")]


class DeleteGroup(Body):
    """Action ``delete``."""

    delete_volumes: Flag = msgspec.field(default=False, name="delete-volumes")

    def __post_init__(self) -> None:
        self.delete_volumes = parse_flag("delete-volumes", self.delete_volumes)


class ResetGroup(Body):
    """Action ``reset_status``."""

    status: Annotated[Text, json_schema(enum=list(groups.SETTABLE_STATUSES))]


#: Actions of Cinder that Tonnage does not support.
UNSUPPORTED_ACTIONS = (
    "disable_replication",
    "enable_replication",
    "failover_replication",
    "list_replication_targets",
)

#: The actions of ``POST /groups/{id}/action`` with the types of their arguments.
GROUP_ACTIONS = {
    "delete": DeleteGroup,
    "reset_status": ResetGroup,
    **dict.fromkeys(UNSUPPORTED_ACTIONS, AnyArguments),
}


class NewGroupType(Body):
    """A new group type."""

    name: Name
    description: Text | None = None
    is_public: Flag = True
    group_specs: Specs | None = None

    def __post_init__(self) -> None:
        self.name = self.name.strip()
        # Null means the default, not private.
        self.is_public = self.is_public is None or parse_flag("is_public", self.is_public)


class CreateGroupType(Body):
    """``POST /group_types``."""

    group_type: NewGroupType


class GroupTypeChanges(TypeChanges):
    """The changes of a group type."""


class UpdateGroupType(Body):
    """``PUT /group_types/{id}``."""

    group_type: Annotated[GroupTypeChanges, at_least_one_of("name", "description", "is_public")]


class SetGroupSpecs(Body):
    """``POST /group_types/{id}/group_specs``, and its response."""

    group_specs: Specs


class GroupSummary(Struct, kw_only=True):
    """A group without details."""

    id: str
    name: str | None


class GroupDetail(GroupSummary, kw_only=True):
    """A group. Its types are ids. ``volumes`` is present if ``list_volume`` is true."""

    status: str
    description: str | None
    availability_zone: str | None
    created_at: str | None
    group_type: str
    volume_types: list[str]
    group_snapshot_id: str | UnsetType | None = UNSET
    source_group_id: str | UnsetType | None = UNSET
    volumes: list[str] | UnsetType = UNSET
    replication_status: str | UnsetType | None = UNSET
    project_id: str | UnsetType = UNSET


class OneGroupSummary(Struct):
    """A created group."""

    group: GroupSummary


class OneGroup(Struct):
    """One group."""

    group: GroupDetail


class GroupSummaries(Struct):
    """A page of groups without details."""

    groups: list[GroupSummary]
    group_links: list[Link] | UnsetType = UNSET


class GroupDetails(Struct):
    """A page of groups."""

    groups: list[GroupDetail]
    group_links: list[Link] | UnsetType = UNSET


class GroupTypeDetail(Struct, kw_only=True):
    """A group type. Its specs are missing for users who may not see them."""

    id: str
    name: str
    description: str | None
    is_public: bool
    group_specs: dict[str, str] | UnsetType = UNSET


class OneGroupType(Struct):
    """One group type."""

    group_type: GroupTypeDetail


class GroupTypes(Struct):
    """A page of group types."""

    group_types: list[GroupTypeDetail]
    group_type_links: list[Link] | UnsetType = UNSET


def split_ids(text: str | None) -> list[str]:
    """Return the volume ids in a text, in lower case."""
    return [volume_id.strip().lower() for volume_id in (text or "").split(_SEPARATED) if volume_id.strip()]
