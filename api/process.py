# SPDX-License-Identifier: Apache-2.0
"""A process of the API: the application with its connections to the database and to the message bus."""

import socket

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.http_request import WsgiApp
from tonnage.api.http.server import Server
from tonnage.api.monitoring import server as monitoring
from tonnage.ledger.db import database as ledger_database
from tonnage.ledger.db import schema
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient


class ApiProcess:
    """The application and its connections. Create it after the last fork.

    ``address`` is the address that the process listens on, None if another server decides it. ``bus`` is the ``bus`` of
    :func:`tonnage.rpc.transport.create`.
    """

    def __init__(self, conf: cfg.ConfigOpts, address: str | None, bus: socket.socket | None = None) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable configuration."""
        authenticator = authentication.select(conf, address)
        self._database = ledger_database.connect(conf)
        schema.require_current(self._database.engine, enabled_extensions.enabled(conf))
        self._transport = rpc_transport.create(conf, bus)
        client = SchedulerClient(self._transport, self._database.recent_time)
        self.application: WsgiApp = app.build(conf, self._database, client, authenticator)

    def further_servers(self, conf: cfg.ConfigOpts) -> list[Server]:
        """Return the servers beside the API: those of the enabled extensions and that of the metrics.

        The caller starts and stops them. Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable
        configuration.
        """
        listeners = [build(conf, self._database) for build in enabled_extensions.parts(conf, "listener").values()]
        metrics = monitoring.build(conf, self._database, "api_listen_port")
        return [server for server in (*listeners, metrics) if server is not None]

    def close(self) -> None:
        """Close the connections."""
        self._transport.cleanup()
        self._database.close()
