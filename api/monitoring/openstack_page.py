# SPDX-License-Identifier: Apache-2.0
"""The page ``/metrics/openstack``: the series of openstack-exporter about Cinder, for boards and alerts made for it.

Their names and units are not those that Prometheus recommends, so the page is separate, and off by default. No series
has the name of a volume.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import orm

from tonnage.api.monitoring.cached_page import CachedPage
from tonnage.api.monitoring.exposition import Page, labels, number_or_nan
from tonnage.api.schemas.service_bodies import CINDER_NAMES
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import capacity_figures
from tonnage.ledger.inventory.capacity_figures import PoolFigures, ReportedNames
from tonnage.ledger.locks import heartbeats, volume_usage
from tonnage.ledger.locks.heartbeats import ServiceRow
from tonnage.quotas import limits
from tonnage.quotas.limits import Item, Resource

#: The statuses that the exporter counts also if no volume has them.
_STATUSES = (
    *("creating", "available", "reserved", "attaching", "detaching", "in-use", "maintenance", "deleting"),
    *("awaiting-transfer", "error", "error_deleting", "backing-up", "restoring-backup", "error_backing-up"),
    *("error_restoring", "error_extending", "downloading", "uploading", "retyping", "extending"),
)
_PREFIX = "openstack_cinder"


class OpenStackPage(CachedPage):
    """Makes the page.

    A backend is down after ``down_time`` seconds of silence; its pools are left out. If there are more than
    ``max_pools`` pools, or more than ``max_projects`` projects with volumes, the page has none of them. ``defaults``
    are the limits of projects without limits of their own.
    """

    def __init__(
        self,
        database: Database,
        down_time: float,
        cache_time: float,
        max_pools: int,
        max_projects: int,
        defaults: Mapping[Resource, int],
    ) -> None:
        super().__init__(cache_time)
        self._database, self._down_time = database, down_time
        self._max_pools, self._max_projects, self._defaults = max_pools, max_projects, defaults

    def text(self, backend: str | None) -> bytes:
        """Return the page; with a backend, its services and pools alone."""
        page = Page()
        page.add_gauge(f"{_PREFIX}_up", "up", [("", 1)])
        with self._database.reading(snapshot=True, patient=False) as session:
            self._add_services(page, [row for row in heartbeats.load(session) if backend in (None, row.host)])
            pools = [pool for pool in capacity_figures.pools(session, backend=backend) if pool.up(self._down_time)]
            if len(pools) <= self._max_pools:
                _add_pools(page, pools, capacity_figures.reported_names(session))
            if backend is None:
                _add_volumes(page, capacity_figures.volumes_by_status(session))
                self._add_projects(page, session)
        return page.encode()

    def _add_services(self, page: Page, services: Iterable[ServiceRow]) -> None:
        states = [
            (
                labels(
                    adminState="enabled" if row.enabled else "disabled",
                    disabledReason=row.disabled_reason or "",
                    hostname=row.host,
                    service=CINDER_NAMES[row.binary],
                    uuid="",  # the exporter makes new ones up at each scrape, unless it is told not to
                    zone=row.availability_zone,
                ),
                row.up(self._down_time),
            )
            for row in services
        ]
        page.add_gauge(f"{_PREFIX}_agent_state", "agent_state", states)

    def _add_projects(self, page: Page, session: orm.Session) -> None:
        used = volume_usage.gigabytes_by_project(session, self._max_projects + 1)
        if len(used) > self._max_projects:
            return
        project_limits, gigabytes = limits.read(session, self._defaults, used), Item(Resource.GIGABYTES)
        named = {project: labels(tenant=project, tenant_id=project) for project in used}
        page.add_gauge(
            f"{_PREFIX}_limits_volume_max_gb",
            "limits_volume_max_gb",
            [(text, project_limits.of_project(project, gigabytes)) for project, text in named.items()],
        )
        page.add_gauge(
            f"{_PREFIX}_limits_volume_used_gb",
            "limits_volume_used_gb",
            [(text, used[project]) for project, text in named.items()],
        )


def _add_pools(page: Page, pools: Iterable[PoolFigures], names: Mapping[str, ReportedNames]) -> None:
    named = [
        (
            labels(
                name=pool.name,
                vendor_name=names[pool.name].vendor,
                volume_backend_name=names[pool.name].backend,
            ),
            pool,
        )
        for pool in pools
    ]
    free = [(text, number_or_nan(pool.free_gb)) for text, pool in named]
    page.add_gauge(f"{_PREFIX}_pool_capacity_free_gb", "pool_capacity_free_gb", free)
    total = [(text, number_or_nan(pool.total_gb)) for text, pool in named]
    page.add_gauge(f"{_PREFIX}_pool_capacity_total_gb", "pool_capacity_total_gb", total)


def _add_volumes(page: Page, by_status: Mapping[str, int]) -> None:
    page.add_gauge(f"{_PREFIX}_volumes", "volumes", [("", sum(by_status.values()))])
    page.add_gauge(f"{_PREFIX}_snapshots", "snapshots", [("", 0)])
    numbers = {**dict.fromkeys(_STATUSES, 0), **by_status}
    page.add_gauge(
        f"{_PREFIX}_volume_status_counter",
        "volume_status_counter",
        [(labels(status=status), number) for status, number in numbers.items()],
    )
