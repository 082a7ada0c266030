# SPDX-License-Identifier: Apache-2.0
"""The WSGI application ``tonnage.api.wsgi:application``, for any WSGI server.

The import of this module reads the configuration and connects to the database and the message bus, so only a server
should import it. The configuration is ``tonnage.conf`` from the usual places, or the files in the environment variable
``TONNAGE_CONFIG_FILES``, separated as in ``PATH``. A server that forks must import the module after the fork (uWSGI:
``lazy-apps = true``; gunicorn: no ``--preload``).
"""

import os

from oslo_config import cfg
from oslo_log import log

from tonnage import __version__, enabled_extensions, log_records
from tonnage.api import options
from tonnage.api.http import middleware
from tonnage.api.http.http_request import WsgiApp
from tonnage.api.process import ApiProcess
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options

FILES = "TONNAGE_CONFIG_FILES"


def _application() -> WsgiApp:
    conf = cfg.CONF  # noqa: TID251  (this module takes the place of a main function)
    for register in (options.register, middleware.register, rpc_options.register, database_options.register):
        register(conf)
    enabled_extensions.register(conf)
    log.register_options(conf)
    files = [name for name in os.environ.get(FILES, "").split(os.pathsep) if name]
    conf([], project="tonnage", prog="tonnage-api", version=__version__, default_config_files=files or None)
    enabled_extensions.register_options(conf)
    log.setup(conf, "tonnage", __version__, fix_eventlet=False)
    log_records.install()
    return ApiProcess(conf, address=None).application


application = _application()
