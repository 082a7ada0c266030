# SPDX-License-Identifier: Apache-2.0
"""How many groups a project may have. They are counted each time, so that there is nothing that could be wrong."""

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import groups
from tonnage.ledger.db.database import Database
from tonnage.quotas import limit_rows, usage_counters
from tonnage.quotas.limits import Holder, Item, Place, Resource, Scope
from tonnage.quotas.options import Settings
from tonnage.quotas.quota_budget import QuotaTaken


def create(database: Database, settings: Settings, wanted: groups.NewGroup) -> models.Group:
    """Add a group if its project may have one more.

    Raises :class:`~tonnage.capacity.errors.OverQuota`, and :class:`~tonnage.capacity.errors.NotFound` if one of its
    types has just been deleted.
    """
    try:
        return database.run(_create, settings, wanted)
    except QuotaTaken as taken:
        # The row that is locked is not there yet.
        database.run(usage_counters.make, taken.uncounted)
    return database.run(_create, settings, wanted)


def _create(session: orm.Session, settings: Settings, wanted: groups.NewGroup) -> models.Group:
    made = session.get(models.Group, wanted.id)
    if made is not None:  # the connection was lost after that had been committed
        return made
    project, user, item = wanted.project_id, wanted.user_id, Item(Resource.GROUPS)
    found = limit_rows.read(session, settings.defaults, {project})
    # Last the project's: that of no user would be taken for one of his own.
    limits = {user: found.own(Place(Holder.PROJECT, project, user), item), "": found.of_project(project, item)}
    limits = {of: limit for of, limit in limits.items() if limit is not None and limit >= 0}
    if limits:
        # Whoever else counts them for one more waits here.
        usage_counters.lock(session, [Scope(project)])
    for of, limit in limits.items():
        if limit is not None and groups.count(session, project, of) >= limit:
            raise errors.OverQuota(f"GroupLimitExceeded: Maximum number of groups allowed ({limit}) exceeded.")
    return groups.create(session, wanted)
