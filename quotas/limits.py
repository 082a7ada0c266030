# SPDX-License-Identifier: Apache-2.0
"""Limits: what may be limited, for whom, and which limit counts.

Pure: no database, no configuration. GiB throughout; -1 stands for no limit.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: No limit.
UNLIMITED = -1

#: The class whose limits count for every project that has none of its own.
DEFAULT_CLASS = "default"


class Resource(enum.StrEnum):
    """What has a limit, as clients call it.

    Tonnage has no snapshots and backups; their limits are there because clients show and set them with the others.
    """

    VOLUMES = "volumes"
    GIGABYTES = "gigabytes"
    PER_VOLUME_GIGABYTES = "per_volume_gigabytes"
    SNAPSHOTS = "snapshots"
    BACKUPS = "backups"
    BACKUP_GIGABYTES = "backup_gigabytes"
    GROUPS = "groups"


#: What is counted.
COUNTED = (Resource.VOLUMES, Resource.GIGABYTES)

#: What is limited for each volume type as well, as ``gigabytes_<type>``.
PER_TYPE = (Resource.VOLUMES, Resource.GIGABYTES, Resource.SNAPSHOTS)


class Scope(NamedTuple):
    """What usage is counted for: a project, or in it what is one user's or of one volume type; empty is all of them."""

    project_id: str
    user_id: str = ""
    volume_type_id: str = ""


class Holder(enum.StrEnum):
    """Whose a limit is."""

    #: A project's, or in it one user's.
    PROJECT = "project"
    #: That of a class of projects.
    CLASS = "class"


@dataclass(frozen=True, slots=True)
class Item:
    """What one limit is of: a resource, of one volume type or of all."""

    resource: Resource
    volume_type_id: str = ""


class Place(NamedTuple):
    """Where a limit is set: for a project, for one user in it, or for a class."""

    holder: Holder
    name: str
    user_id: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that were set, and the defaults of the configuration for those that were not."""

    defaults: Mapping[Resource, int]
    rows: Mapping[Place, Mapping[Item, int]] = field(default_factory=dict)

    def default(self, item: Item) -> int:
        """Return the limit of a project that has none of its own: that of the class, else the option.

        A volume type has none unless one is set.
        """
        of_class = self.own(Place(Holder.CLASS, DEFAULT_CLASS), item)
        if of_class is not None:
            return of_class
        return UNLIMITED if item.volume_type_id else self.defaults.get(item.resource, UNLIMITED)

    def of_project(self, project_id: str, item: Item) -> int:
        """Return what counts for a project."""
        found = self.own(Place(Holder.PROJECT, project_id), item)
        return self.default(item) if found is None else found

    def of_user(self, project_id: str, user_id: str, item: Item) -> int:
        """Return what counts for one user in a project: a limit of his own, else the project's."""
        found = self.own(Place(Holder.PROJECT, project_id, user_id), item)
        return self.of_project(project_id, item) if found is None else found

    def own(self, place: Place, item: Item) -> int | None:
        """Return the limit that was set at a place, None if none was."""
        return self.rows.get(place, {}).get(item)

    def at(self, scope: Scope, resource: Resource) -> int:
        """Return what usage in a scope is held against: that of one user against a limit of his own alone."""
        item = Item(resource, scope.volume_type_id)
        if not scope.user_id:
            return self.of_project(scope.project_id, item)
        found = self.own(Place(Holder.PROJECT, scope.project_id, scope.user_id), item)
        return UNLIMITED if found is None else found


def items(type_ids: Iterable[str]) -> list[Item]:
    """Return all that may have a limit where there are these volume types."""
    return [
        *map(Item, Resource),
        *(Item(resource, type_id) for type_id in type_ids for resource in PER_TYPE),
    ]


def name(item: Item, type_names: Mapping[str, str]) -> str:
    """Return how clients call it. ``type_names`` are the names of volume types by their ids."""
    return f"{item.resource}_{type_names[item.volume_type_id]}" if item.volume_type_id else item.resource.value


def parse(text: str, type_ids: Mapping[str, str]) -> Item | None:
    """Return what clients call so, None if it is nothing. ``type_ids`` are the ids of volume types by their names."""
    if text in set(Resource):
        return Item(Resource(text))
    for resource in PER_TYPE:
        type_name = text.removeprefix(f"{resource}_")
        if type_name != text and type_name in type_ids:
            return Item(resource, type_ids[type_name])
    return None
