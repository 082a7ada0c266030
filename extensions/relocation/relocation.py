# SPDX-License-Identifier: Apache-2.0
"""A cloud with the planner and the executor of its plans, by a configuration and an account."""

import dataclasses
import datetime
import logging
import time
from collections.abc import Callable

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.moves import options as move_options
from tonnage.extensions.moves.execution.plan_executor import Clocks, PlanExecutor
from tonnage.extensions.moves.plan_start import PlanStarter
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.records import plan_records, plan_retention
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.relocation import plan_choices, relocation_options
from tonnage.extensions.relocation.cinder_client import CinderClient
from tonnage.extensions.relocation.cinder_mover import CinderMover
from tonnage.extensions.relocation.cloud_planner import CloudPlanner
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.observers.extension_events import ExtensionEvents
from tonnage.scheduler.requests.pool_selection import Rules

LOG = logging.getLogger(__name__)

#: Seconds between two deletions of plans that ended long ago.
_PURGE_SECONDS = 60.0

#: Most seconds between two looks while Cinder, Keystone or the database is away.
_LONGEST_PAUSE = 60.0


class Relocation:
    """The plans of a cloud. Without a ``database`` plans are made, but not carried out."""

    def __init__(self, conf: cfg.ConfigOpts, client: CinderClient, database: Database | None) -> None:
        section = conf[move_options.GROUP.name]
        own = conf[relocation_options.GROUP.name]
        rules, default_ratio = rules_of(conf)
        self.client, self._database = client, database
        self._poll_interval: float = own.poll_interval
        self._timeout: float = section.no_progress_timeout
        self._retention_days: int = section.retention_days
        self._limits = Limits(**{field.name: section[field.name] for field in dataclasses.fields(Limits)})
        self._interval: float = own.report_interval
        self.planner = CloudPlanner(client, rules, default_ratio, own.report_interval, database)
        self._events = ExtensionEvents()

    @property
    def database(self) -> Database:
        """The database with the plans."""
        if self._database is None:
            raise errors.ConfigurationError("plans are carried out with a database: set [database] connection")
        return self._database

    def preview(self, query: PlanQuery) -> MovePlan:
        """Return a plan that is not carried out. With a database its outcome names the plans that keep it from that."""
        return self.planner.plan_beside(query, {}) if self._database is None else self.starter().preview(query)

    def starter(self) -> PlanStarter:
        """Return the starter of plans."""
        return PlanStarter(self.database, self.planner, self._limits, self._events, plan_choices.MOVER)

    def executor(self) -> PlanExecutor:
        """Return the executor of plans."""
        mover = CinderMover(self.client, self.database, self.planner.figures, self._interval)
        clocks = Clocks(local=datetime.datetime.now, monotonic=time.monotonic)
        return PlanExecutor(self.database, self.planner, mover, self._timeout, clocks, self._events)

    def require_own_plans(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if a plan of another cloud has not ended."""
        for plan in self.database.read(plan_records.open_plans, plan_choices.MOVER):
            cloud = plan_choices.read(plan.mover_options or {}).cloud
            if cloud != self.client.cloud:
                raise errors.ConfigurationError(
                    f"plan {plan.id} in the database is one of the cloud at {cloud}, and the account is one of "
                    f"{self.client.cloud}: take that cloud, or a database for each cloud"
                )

    def run(self, is_over: Callable[[], bool], sleep: Callable[[float], object] = time.sleep) -> None:
        """Carry plans out until ``is_over`` returns true. While Cinder or the database is away, it waits."""
        executor = self.executor()
        pause, next_purge = self._poll_interval, 0.0
        while True:
            try:
                executor.work()
                if time.monotonic() >= next_purge:
                    self.database.run(plan_retention.purge, self._retention_days)
                    next_purge = time.monotonic() + _PURGE_SECONDS
                if is_over():
                    return
                pause = self._poll_interval
            except errors.Unavailable as error:
                LOG.warning("Plans wait: %s", error.message)
                pause = min(_LONGEST_PAUSE, 2 * pause)
            sleep(pause)


def rules_of(conf: cfg.ConfigOpts) -> tuple[Rules, float | str]:
    """Return the rules of a configuration, with the filter that a scheduler always has, and the default ratio."""
    decisions = settings.reloadable(conf)
    filters = [BackendStateFilter(conf.service_down_time), *decisions.filters.filters]
    rules = Rules(FilterChain(filters, decisions.calculation), decisions.weighers, decisions.calculation)
    return rules, decisions.default_ratio
