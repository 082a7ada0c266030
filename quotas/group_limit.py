# SPDX-License-Identifier: Apache-2.0
"""The limit on the number of groups. Groups are counted for each request, so no counter can be wrong."""

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import groups
from tonnage.ledger.db.database import Database
from tonnage.quotas import limits, reservations
from tonnage.quotas.limits import Holder, Item, LimitOwner, Resource, Scope
from tonnage.quotas.options import Settings
from tonnage.quotas.quota_check import QuotaChanged


def create(database: Database, settings: Settings, new_group: groups.NewGroup) -> models.Group:
    """Add a group if the limits of its project and its user permit.

    Raises :class:`~tonnage.capacity.errors.OverQuota`, and :class:`~tonnage.capacity.errors.NotFound` if one of its
    types has just been deleted.
    """
    try:
        return database.run(_create, settings, new_group)
    except QuotaChanged as error:
        # The counter row that serves as the lock does not exist yet.
        database.run(reservations.insert_missing, error.missing_counters)
    return database.run(_create, settings, new_group)


def _create(session: orm.Session, settings: Settings, new_group: groups.NewGroup) -> models.Group:
    committed = session.get(models.Group, new_group.id)
    if committed is not None:  # the connection was lost after the commit
        return committed
    project, user, item = new_group.project_id, new_group.user_id, Item(Resource.GROUPS)
    project_limits = limits.read(session, settings.defaults, {project})
    # The project's limit comes last: it replaces an entry of a request without a user.
    of_group = {
        user: project_limits.own(LimitOwner(Holder.PROJECT, project, user), item),
        "": project_limits.of_project(project, item),
    }
    of_group = {owner: limit for owner, limit in of_group.items() if limit is not None and limit >= 0}
    if of_group:
        # Transactions that count the groups of this project wait for each other here.
        reservations.lock(session, [Scope(project)])
    for owner, limit in of_group.items():
        if limit is not None and groups.count(session, project, owner) >= limit:
            raise errors.OverQuota(f"GroupLimitExceeded: Maximum number of groups allowed ({limit}) exceeded.")
    return groups.create(session, new_group)
