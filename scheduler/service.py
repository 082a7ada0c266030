# SPDX-License-Identifier: Apache-2.0
"""The scheduler as a service: the manager and its RPC server, started and stopped in the right order."""

import functools
import logging
import threading
from dataclasses import replace

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.ledger.db import schema
from tonnage.ledger.db.database import Database
from tonnage.quotas import usage_sources
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.clients.command_sender import AgentClient, CommandSender
from tonnage.rpc.scheduler_server import SchedulerServer
from tonnage.scheduler import endpoints
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.pool_selection import Rules

LOG = logging.getLogger(__name__)

#: Seconds between two looks at the decision thread while the scheduler stops.
_WATCH_PERIOD = 1.0


class SchedulerService:
    """One scheduler with its RPC server. The database and the transport belong to the caller."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database, transport: rpc_transport.Transport) -> None:
        """Build all parts, so that an error in the configuration shows before any of them runs.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError`.
        """
        static, reloadable = settings.from_conf(conf), settings.reloadable(conf)
        schema.require_current(database.engine, enabled_extensions.enabled(conf))
        self._sender = CommandSender(AgentClient(transport))
        self._ended = threading.Event()
        self._stop_watch = threading.Thread(target=self._abandon_stuck, name="stop", daemon=True)
        self._manager = SchedulerManager(
            replace(static, quotas=usage_sources.quota_settings(conf, database)),
            database,
            self._sender,
            Rules(reloadable.filters, reloadable.weighers, reloadable.calculation),
            builders={
                name: functools.partial(build, conf)
                for name, build in enabled_extensions.parts(conf, "scheduler").items()
            },
        )
        endpoint = endpoints.build(self._manager)
        self._server = SchedulerServer(transport, static.host, endpoint, self._manager)

    def start(self) -> None:
        """Load the ledger, listen, and ask the agents for reports."""
        self._manager.start()
        self._sender.start(self._manager)
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
        changes = [reload(conf) for reload in self._manager.extensions.reloads]
        self._manager.change(replace(settings.reloadable(conf), changes=changes))

    def leave(self) -> None:
        """Tell the ledger that this scheduler ends."""
        self._manager.leave()

    def stop(self) -> None:
        """Accept no more requests, finish the accepted ones, and end."""
        self.announce_stop()
        self._server.stop()
        self._server.wait()
        self._manager.stop()
        self._sender.stop()
        self._ended.set()

    def announce_stop(self) -> None:
        """Fail the requests that wait, from now on, as soon as a plug-in or the database holds up all decisions.

        Otherwise the callers would wait for them, and the process would wait for the callers.
        """
        if not self._stop_watch.is_alive():
            self._stop_watch.start()

    def _abandon_stuck(self) -> None:
        while not self._ended.wait(_WATCH_PERIOD) and not self._manager.abandon_stuck():
            pass
