# SPDX-License-Identifier: Apache-2.0
"""Limits: the limited resources, the owners of limits, the order of precedence, and the rows in the ledger.

Sizes are GiB; -1 stands for no limit.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.locks import volume_usage

#: No limit.
UNLIMITED = -1

#: The class whose limits apply to every project without limits of its own.
DEFAULT_CLASS = "default"


class Resource(enum.StrEnum):
    """A resource that has a limit, under the name that clients use.

    Tonnage has no snapshots and backups; their limits exist because clients show and set them with the others.
    """

    VOLUMES = "volumes"
    GIGABYTES = "gigabytes"
    PER_VOLUME_GIGABYTES = "per_volume_gigabytes"
    SNAPSHOTS = "snapshots"
    BACKUPS = "backups"
    BACKUP_GIGABYTES = "backup_gigabytes"
    GROUPS = "groups"


#: Resources whose usage is counted.
COUNTED = (Resource.VOLUMES, Resource.GIGABYTES)

#: Resources that are limited for each volume type as well, as ``gigabytes_<type>``.
PER_TYPE = (Resource.VOLUMES, Resource.GIGABYTES, Resource.SNAPSHOTS)


class Scope(NamedTuple):
    """The scope of a usage figure: a project, and in it one user or one volume type; an empty field stands for all."""

    project_id: str
    user_id: str = ""
    volume_type_id: str = ""


class Holder(enum.StrEnum):
    """The category of the owner of a limit."""

    #: A project, or one user in it.
    PROJECT = "project"
    #: A class of projects.
    CLASS = "class"


@dataclass(frozen=True, slots=True)
class Item:
    """The subject of a limit: a resource, for one volume type or for all."""

    resource: Resource
    volume_type_id: str = ""


class LimitOwner(NamedTuple):
    """The owner of a limit: a project, one user in it, or a class."""

    holder: Holder
    name: str
    user_id: str = ""


#: The owner of the limits of every project without limits of its own.
_DEFAULT_OWNER = LimitOwner(Holder.CLASS, DEFAULT_CLASS)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that were set, and the defaults of the configuration for all others."""

    defaults: Mapping[Resource, int]
    rows: Mapping[LimitOwner, Mapping[Item, int]] = field(default_factory=dict)

    def default(self, item: Item) -> int:
        """Return the limit of a project without a limit of its own: that of the class, else that of the option.

        A volume type has no limit unless one is set.
        """
        return self._first(item, _DEFAULT_OWNER)

    def of_project(self, project_id: str, item: Item) -> int:
        """Return the limit that applies to a project: its own, else the default."""
        return self._first(item, LimitOwner(Holder.PROJECT, project_id), _DEFAULT_OWNER)

    def of_user(self, project_id: str, user_id: str, item: Item) -> int:
        """Return the limit that applies to one user in a project: the user's own, else the project's."""
        own = LimitOwner(Holder.PROJECT, project_id, user_id)
        return self._first(item, own, LimitOwner(Holder.PROJECT, project_id), _DEFAULT_OWNER)

    def own(self, owner: LimitOwner, item: Item) -> int | None:
        """Return the limit that was set for an owner, None if none was."""
        return self.rows.get(owner, {}).get(item)

    def at(self, scope: Scope, resource: Resource) -> int:
        """Return the limit for the usage in a scope; the usage of one user has only the user's own limit."""
        item = Item(resource, scope.volume_type_id)
        own = LimitOwner(Holder.PROJECT, scope.project_id, scope.user_id)
        return self.rows.get(own, {}).get(item, UNLIMITED) if scope.user_id else self._first(item, own, _DEFAULT_OWNER)

    def _first(self, item: Item, *owners: LimitOwner) -> int:
        """Return the limit of the first of these owners that has one, else the limit of the option."""
        for owner in owners:
            if (limit := self.rows.get(owner, {}).get(item)) is not None:
                return limit
        return UNLIMITED if item.volume_type_id else self.defaults.get(item.resource, UNLIMITED)


def items(type_ids: Iterable[str]) -> list[Item]:
    """Return all subjects of limits, given these volume types."""
    return [
        *map(Item, Resource),
        *(Item(resource, type_id) for type_id in type_ids for resource in PER_TYPE),
    ]


def name(item: Item, type_names: Mapping[str, str]) -> str:
    """Return the name that clients use for an item. ``type_names`` maps ids of volume types to names."""
    return f"{item.resource}_{type_names[item.volume_type_id]}" if item.volume_type_id else item.resource.value


def parse(text: str, type_ids: Mapping[str, str]) -> Item | None:
    """Return the item that clients call by that name, None if there is none.

    ``type_ids`` maps names of volume types to ids.
    """
    if text in set(Resource):
        return Item(Resource(text))
    for resource in PER_TYPE:
        type_name = text.removeprefix(f"{resource}_")
        if type_name != text and type_name in type_ids:
            return Item(resource, type_ids[type_name])
    return None


_ROW = models.table(models.QuotaLimit).c
_RESOURCES = {resource.value: resource for resource in Resource}

#: The statement is built once, as it is executed for each batch of requests.
_READ = Prepared(
    sa.select(_ROW.holder, _ROW.name, _ROW.user_id, _ROW.resource, _ROW.volume_type_id, _ROW.hard_limit).where(
        sa.or_(
            sa.and_(_ROW.holder == Holder.CLASS.value, _ROW.name == sa.bindparam("of_class")),
            sa.and_(_ROW.holder == Holder.PROJECT.value, _ROW.name.in_(sa.bindparam("of_projects", expanding=True))),
        )
    )
)


#: The resources that a volume takes.
_OF_VOLUMES = (*COUNTED, Resource.PER_VOLUME_GIGABYTES)
_ANY_OF_VOLUMES = Prepared(
    sa.select(sa.literal(1))
    .where(_ROW.hard_limit >= 0, _ROW.resource.in_([resource.value for resource in _OF_VOLUMES]))
    .limit(1)
)


def has_volume_limits(session: orm.Session, defaults: Mapping[Resource, int]) -> bool:
    """Return whether any limit applies to volumes. Without one a request for a volume needs no reservation."""
    if any(defaults.get(resource, UNLIMITED) >= 0 for resource in _OF_VOLUMES):
        return True
    return bool(_ANY_OF_VOLUMES.rows(session.connection(), {}))


def read(
    session: orm.Session,
    defaults: Mapping[Resource, int],
    project_ids: Collection[str],
    class_name: str = DEFAULT_CLASS,
) -> Limits:
    """Return the limits of projects and their users, and of a class. ``defaults`` are the limits of the options."""
    rows: dict[LimitOwner, dict[Item, int]] = {}
    parameters = {"of_class": class_name, "of_projects": sorted(project_ids)}
    for row in _READ.rows(session.connection(), parameters):
        rows.setdefault(LimitOwner(Holder(row[0]), row[1], row[2]), {})[Item(_RESOURCES[row[3]], row[4])] = int(row[5])
    # A copy: the configuration may change while the result is in use.
    return Limits(dict(defaults), rows)


_BACKEND = models.table(models.Backend).c
_LOCK_BACKENDS = sa.select(_BACKEND.id).order_by(_BACKEND.id).with_for_update()


def _wait_for_bookings(session: orm.Session) -> None:
    """Wait for the bookings that are under way: each holds the lock of a backend until its commit.

    In the global order of locks, these locks come after the locks of counters.
    """
    session.execute(_LOCK_BACKENDS)


def put(session: orm.Session, owner: LimitOwner, values: Mapping[Item, int]) -> None:
    """Set limits, and keep the other limits of that owner.

    It waits for the bookings that are under way: they were decided without these limits, and counters that are counted
    from now on have to include them.

    Raises oslo.db's ``DBDuplicateEntry`` if another transaction has just inserted the same limit.
    """
    limit = models.QuotaLimit
    for item in sorted(values, key=lambda item: (item.resource, item.volume_type_id)):
        key = (owner.holder.value, owner.name, owner.user_id, item.resource.value, item.volume_type_id)
        row = session.get(limit, key, with_for_update=True)
        if row is None:
            row = limit(
                holder=key[0], name=key[1], user_id=key[2], resource=key[3], volume_type_id=key[4], hard_limit=0
            )
            session.add(row)
        row.hard_limit = values[item]
        session.flush()
    _mark_for_recount(session, owner)
    _wait_for_bookings(session)


def remove(session: orm.Session, owner: LimitOwner) -> None:
    """Delete the limits of an owner; the limits of a project's users are deleted with the project's."""
    of_owner = [_ROW.holder == owner.holder.value, _ROW.name == owner.name]
    if owner.user_id:
        of_owner.append(_ROW.user_id == owner.user_id)
    session.execute(sa.delete(models.table(models.QuotaLimit)).where(*of_owner))
    _mark_for_recount(session, owner)
    # The limit that applies instead may be lower.
    _wait_for_bookings(session)


def _mark_for_recount(session: orm.Session, owner: LimitOwner) -> None:
    """Mark the counters for a recount: usage without a limit has not been counted."""
    if owner.holder is Holder.PROJECT:
        volume_usage.mark_for_recount(session, [owner.name])
    else:
        volume_usage.mark_all_for_recount(session)
