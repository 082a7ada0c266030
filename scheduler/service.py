# SPDX-License-Identifier: Apache-2.0
"""The scheduler as a service: the manager and its RPC server, started and stopped in the right order."""

import logging
from dataclasses import replace

from oslo_config import cfg

from tonnage.extensions.announcements import announcer
from tonnage.extensions.compute import nova
from tonnage.extensions.placement import factory as placement
from tonnage.extensions.replay.decision_log import LogFile
from tonnage.ledger.db import schema
from tonnage.ledger.db.database import Database
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.clients.command_sender import AgentClient, CommandSender
from tonnage.scheduler.composition import Integrations
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.endpoints import SchedulerEndpoint
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.pool_selection import Rules

LOG = logging.getLogger(__name__)


class SchedulerService:
    """One scheduler with its RPC server. The database and the transport belong to the caller."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database, transport: rpc_transport.Transport) -> None:
        """Build all parts, so that an error in the configuration shows before any of them runs.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError`.
        """
        static, reloadable = settings.from_conf(conf), settings.reloadable(conf)
        schema.require_current(database.engine)
        static = replace(static, quotas=placement.quota_settings(conf, database))
        self._sender = CommandSender(AgentClient(transport))
        self._announcer = announcer.build(conf, database)
        self._log_file = LogFile(conf.decision_log) if conf.decision_log else None
        self._manager = SchedulerManager(
            static,
            database,
            self._sender,
            Rules(reloadable.filters, reloadable.weighers, reloadable.calculation),
            integrations=Integrations(self._log_file, nova.from_conf(conf), self._announcer, conf.metrics.enabled),
        )
        self._sync_thread = placement.create_sync_thread(conf, database, self._manager.membership)
        self._server = rpc_transport.server(
            transport, rpc_transport.TOPIC_SCHEDULER, static.host, SchedulerEndpoint(self._manager), self._manager
        )

    def start(self) -> None:
        """Load the ledger, listen, and ask the agents for reports."""
        self._manager.start()
        self._sender.start(self._manager)
        self._announcer.start()
        if self._sync_thread is not None:
            self._sync_thread.start()
        self._server.start()
        self._manager.ask_for_reports()
        LOG.info("Scheduler is ready")

    @property
    def failure(self) -> str | None:
        """The reason for which this scheduler has to end; None while there is none."""
        return self._manager.failure

    def reporting(self) -> set[str]:
        """Return the names of the backends that have reported to this scheduler since it started."""
        return self._manager.reporting()

    def change(self, conf: cfg.ConfigOpts) -> None:
        """Apply the options of another configuration that can change at runtime, all of them or none.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable values.
        """
        self._manager.change(replace(settings.reloadable(conf), announcements=announcer.load_config(conf)))

    def leave(self) -> None:
        """Tell the ledger that this scheduler ends."""
        self._manager.leave()

    def stop(self) -> None:
        """Accept no more requests, finish the accepted ones, and end."""
        self._server.stop()
        self._server.wait()
        self._manager.stop()
        if self._sync_thread is not None:
            self._sync_thread.stop()
        self._sender.stop()
        self._announcer.stop()
        if self._log_file is not None:
            self._log_file.close()
