# SPDX-License-Identifier: Apache-2.0
"""A process that serves the API: the application with its database and its way to the schedulers."""

from oslo_config import cfg

from tonnage.api import extender
from tonnage.api.app import build
from tonnage.api.auth import authentication
from tonnage.api.http.http_request import WsgiApp
from tonnage.api.http.server import Server
from tonnage.ledger.db import database as ledger_database
from tonnage.ledger.db import schema
from tonnage.ledger.inventory import heartbeats
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc import versions
from tonnage.rpc.scheduler_client import SchedulerClient


class ApiProcess:
    """Connects what the application needs. Make it after the last fork.

    ``address`` is where the process will listen, None if somebody else decides that.
    """

    def __init__(self, conf: cfg.ConfigOpts, address: str | None) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work."""
        authenticator = authentication.select(conf, address)
        self._database = ledger_database.connect(conf)
        schema.require_current(self._database.engine)
        self._transport = rpc_transport.create(conf)
        scheduler = scheduler_client(conf, self._database, self._transport)
        self.application: WsgiApp = build(conf, self._database, scheduler, authenticator)

    def extender(self, conf: cfg.ConfigOpts) -> Server | None:
        """Return a server of what kube-scheduler asks, if it is to; who made it starts and stops it.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work.
        """
        return extender.build(conf, self._database)

    def close(self) -> None:
        """Close the connections."""
        self._transport.cleanup()
        self._database.close()


def scheduler_client(
    conf: cfg.ConfigOpts, database: ledger_database.Database, transport: rpc_transport.Transport
) -> SchedulerClient:
    """Return a client that speaks as the schedulers do which the ledger knows of.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unknown ``[upgrade_levels] scheduler``.
    """

    def version() -> str:
        # What was known goes on, so there is nothing to wait for.
        with database.reading(patient=False) as session:
            return versions.least(heartbeats.rpc_versions(session, conf.service_down_time))

    return SchedulerClient(transport, versions.Remembered(version))
