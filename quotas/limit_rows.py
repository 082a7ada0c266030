# SPDX-License-Identifier: Apache-2.0
"""Limits in the ledger's database."""

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.catalog import volume_usage
from tonnage.quotas.limits import COUNTED, DEFAULT_CLASS, UNLIMITED, Holder, Item, Limits, Place, Resource

_ROW = models.table(models.QuotaLimit).c
_RESOURCES = {each.value: each for each in Resource}

#: The statement is built once, as it is executed for each batch of requests.
_READ = sa.select(_ROW.holder, _ROW.name, _ROW.user_id, _ROW.resource, _ROW.volume_type_id, _ROW.hard_limit).where(
    sa.or_(
        sa.and_(_ROW.holder == Holder.CLASS.value, _ROW.name == sa.bindparam("of_class")),
        sa.and_(_ROW.holder == Holder.PROJECT.value, _ROW.name.in_(sa.bindparam("of_projects", expanding=True))),
    )
)


#: The resources that a volume takes.
_OF_VOLUMES = (*COUNTED, Resource.PER_VOLUME_GIGABYTES)
_ANY_OF_VOLUMES = (
    sa.select(sa.literal(1))
    .where(_ROW.hard_limit >= 0, _ROW.resource.in_([each.value for each in _OF_VOLUMES]))
    .limit(1)
)


def has_volume_limits(session: orm.Session, defaults: Mapping[Resource, int]) -> bool:
    """Tell whether any limit applies to volumes. Without one a request for a volume needs no reservation."""
    if any(defaults.get(each, UNLIMITED) >= 0 for each in _OF_VOLUMES):
        return True
    return session.connection().execute(_ANY_OF_VOLUMES).first() is not None


def read(
    session: orm.Session,
    defaults: Mapping[Resource, int],
    project_ids: Collection[str],
    class_name: str = DEFAULT_CLASS,
) -> Limits:
    """Return the limits of projects and their users, and of a class. ``defaults`` are the limits of the options."""
    rows: dict[Place, dict[Item, int]] = {}
    parameters = {"of_class": class_name, "of_projects": sorted(project_ids)}
    for row in session.connection().execute(_READ, parameters):
        resource = _RESOURCES.get(row[3])
        if resource is not None:  # else it is a resource of a later release
            rows.setdefault(Place(Holder(row[0]), row[1], row[2]), {})[Item(resource, row[4])] = int(row[5])
    # A copy: the configuration may change while the result is in use.
    return Limits(dict(defaults), rows)


def put(session: orm.Session, place: Place, values: Mapping[Item, int]) -> None:
    """Set limits, and keep the other limits of that place.

    Raises oslo.db's ``DBDuplicateEntry`` if another transaction has just inserted the same limit.
    """
    limit = models.QuotaLimit
    for item in sorted(values, key=lambda item: (item.resource, item.volume_type_id)):
        key = (place.holder.value, place.name, place.user_id, item.resource.value, item.volume_type_id)
        row = session.get(limit, key, with_for_update=True)
        if row is None:
            row = limit(
                holder=key[0], name=key[1], user_id=key[2], resource=key[3], volume_type_id=key[4], hard_limit=0
            )
            session.add(row)
        row.hard_limit = values[item]
        session.flush()
    _mark_for_recount(session, place)


def remove(session: orm.Session, place: Place) -> None:
    """Delete the limits of a place; the limits of a project's users are deleted with the project's."""
    of_place = [_ROW.holder == place.holder.value, _ROW.name == place.name]
    if place.user_id:
        of_place.append(_ROW.user_id == place.user_id)
    session.execute(sa.delete(models.table(models.QuotaLimit)).where(*of_place))
    _mark_for_recount(session, place)


def _mark_for_recount(session: orm.Session, place: Place) -> None:
    """Mark the counters for a recount: usage without a limit has not been counted."""
    if place.holder is Holder.PROJECT:
        volume_usage.mark_for_recount(session, [place.name])
    else:
        volume_usage.mark_all_for_recount(session)
