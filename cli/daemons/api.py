# SPDX-License-Identifier: Apache-2.0
"""``tonnage-api``: the REST API on the built-in server. Any WSGI server can run ``tonnage.api.wsgi`` instead."""

import contextlib
import logging
import sys
import threading

from oslo_config import cfg

from tonnage.api import options
from tonnage.api.http import middleware
from tonnage.api.http.server import ApiServer
from tonnage.api.process import ApiProcess
from tonnage.cli import setup, tls_verification, unknown_options
from tonnage.cli.daemons import signals
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport

LOG = logging.getLogger(__name__)


def main() -> int:
    """Serve until a signal."""
    with setup.clean_exit("tonnage-api"):
        conf = cfg.CONF
        register = [options.register, middleware.register, rpc_options.register, database_options.register]
        setup.configure(conf, sys.argv[1:], "tonnage-api", register, with_extensions=True)
        return run(conf)


def run(conf: cfg.ConfigOpts) -> int:
    """Serve until SIGINT, SIGTERM, SIGHUP or the end of the terminal, and finish the accepted requests.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable options.
    """
    stopped = threading.Event()
    signals.handle(stopped.set)
    with contextlib.ExitStack() as cleanup:
        process = ApiProcess(conf, conf.osapi_volume_listen)
        cleanup.callback(process.close)
        unknown_options.warn(conf)
        tls_verification.warn(conf)
        servers = [ApiServer(conf, process.application), *process.further_servers(conf)]
        for server in servers:
            server.listen()
            cleanup.callback(server.stop)
        for server in servers:
            server.start()
        rpc_transport.warn_if_local(conf)
        stopped.wait()
        LOG.info("Stopping")
    return 0
