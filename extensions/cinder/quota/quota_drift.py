# SPDX-License-Identifier: Apache-2.0
"""The use of projects by the rows, beside the counters that Cinder's own quota driver goes by."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota import quota_usage
from tonnage.extensions.cinder.quota.quota_usage import Rules, Use

_U, _R, _T = tables.USAGES.c, tables.RESERVATIONS.c, tables.VOLUME_TYPES.c

#: Resources that every project has.
_GENERAL = ("volumes", "gigabytes", "snapshots", "backups", "backup_gigabytes", "groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """The use of a resource by a project, and Cinder's counters of it, None where Cinder has none.

    ``open_reservations`` is the sum of all reservations that Cinder has not ended, whether they count or not. Cinder
    counts anew before it uses the counter if ``is_counted_anew``.
    """

    project_id: str
    resource: str
    use: Use
    open_reservations: int
    counter_in_use: int | None
    counter_reserved: int | None
    is_counted_anew: bool

    @property
    def drift(self) -> int:
        """The excess of the counter of use over the rows."""
        return 0 if self.counter_in_use is None or self.is_counted_anew else self.counter_in_use - self.use.in_use

    @property
    def reserved_drift(self) -> int:
        """The excess of the counter of reservations over the reservations."""
        return 0 if self.counter_reserved is None else self.counter_reserved - self.open_reservations


def read(connection: sa.Connection, rules: Rules, project_id: str | None = None) -> Sequence[ResourceUse]:
    """Return the use of all resources that a project uses or that Cinder counts, by project and name.

    A resource of a volume type that is gone is left out: nobody goes by its counter.
    """
    types = {row.id: row.name for row in connection.execute(sa.select(_T.id, _T.name).where(_T.deleted == sa.false()))}
    names = {*_GENERAL, *(f"{part}_{name}" for part in quota_usage.TYPED for name in types.values())}
    in_use = quota_usage.by_project(connection, types, rules, project_id)
    usages = sa.select(_U.project_id, _U.resource, _U.in_use, _U.reserved, _U.until_refresh)
    reserved = sa.select(_R.project_id, _R.resource, sa.func.sum(_R.delta)).where(_R.delta > 0)
    usages, reserved = usages.where(_U.deleted == sa.false()), reserved.where(_R.deleted == sa.false())
    if project_id is not None:
        usages, reserved = usages.where(_U.project_id == project_id), reserved.where(_R.project_id == project_id)
    counters = {(row.project_id, row.resource): row for row in connection.execute(usages)}
    open_ones = {
        (project, resource): int(delta)
        for project, resource, delta in connection.execute(reserved.group_by(_R.project_id, _R.resource))
    }
    keys = counters.keys() | {(project, name) for project, uses in in_use.items() for name in uses}
    rows = []
    for project, resource in sorted(key for key in keys if key[1] in names):
        counter = counters.get((project, resource))
        rows.append(
            ResourceUse(
                project_id=project,
                resource=resource,
                use=in_use.get(project, {}).get(resource, Use()),
                open_reservations=open_ones.get((project, resource), 0),
                counter_in_use=None if counter is None else int(counter.in_use),
                counter_reserved=None if counter is None else int(counter.reserved),
                is_counted_anew=counter is not None
                and counter.until_refresh is not None
                and counter.until_refresh <= 1,
            )
        )
    return rows
