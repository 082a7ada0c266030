# SPDX-License-Identifier: Apache-2.0
"""A snapshot for simulations that is read from the ledger, without a scheduler."""

import time

from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.scheduler.decisions.builtin_filters import BackendStateFilter
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.reports.cache_refresh import CacheRefresh
from tonnage.scheduler.settings import Mutable, Settings
from tonnage.scheduler.simulation.simulator import Snapshot


def read(database: Database, settings: Settings, mutable: Mutable) -> Snapshot:
    """Return the pools as a scheduler with these settings would see them after its start.

    Raises :class:`~tonnage.capacity.errors.Unavailable` if the database does not answer.
    """
    hosts = HostManager(mutable.default_ratio, mutable.calculation, settings.service_down_time)
    with database.reading(snapshot=True) as session:
        CacheRefresh(hosts, time.monotonic).refresh(session)
    hosts.update_statuses(time.monotonic())
    state = BackendStateFilter(settings.service_down_time)
    rules = Rules(
        FilterChain([state, *mutable.filters.filters], mutable.calculation), mutable.weighers, mutable.calculation
    )
    return Snapshot(hosts.table, rules, mutable.default_ratio, dict(hosts.entries), settings.availability_zone)
