# SPDX-License-Identifier: Apache-2.0
"""``tonnage-standalone``: scheduler, agent and REST API in one process, for one machine."""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from types import FrameType

from oslo_config import cfg

from tonnage.agent import builder as agent_builder
from tonnage.agent import options as agent_options
from tonnage.agent.backend_agent import BackendAgent
from tonnage.api import extender as extender_app
from tonnage.api import options as api_options
from tonnage.api.app import build
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer
from tonnage.capacity import errors
from tonnage.cli import setup, unknown_options
from tonnage.cli.daemons import report_interval, terminal
from tonnage.cli.daemons.reload import ConfigReloader
from tonnage.ledger.db import database
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.scheduler_client import SchedulerClient
from tonnage.scheduler import settings as scheduler_settings
from tonnage.scheduler.service import SchedulerService

LOG = logging.getLogger(__name__)

PROG = "tonnage-standalone"

#: Seconds to wait for the first report of each backend before a warning.
_REPORT_TIMEOUT = 30.0

_READY = """\
Tonnage is ready: {url}
{hints}
Ctrl-C stops it.
"""

#: Example calls, shown if the API needs no credentials.
_HINTS = """
Try:
  curl -s '{url}/v3/demo/scheduler-stats/get_pools?detail=true'
  curl -s {url}/v3/demo/volumes -H 'Content-Type: application/json' -d '{{"volume": {{"name": "first", "size": 2}}}}'
  curl -s {url}/v3/demo/volumes/detail
"""


@setup.clean_exit(PROG)
def main() -> None:
    """Run until a signal."""
    conf, argv = cfg.CONF, sys.argv[1:]
    register = [
        rpc_options.register,
        scheduler_settings.register,
        agent_options.register,
        api_options.register,
        database.register,
    ]
    setup.configure(conf, argv, PROG, register)
    run(conf, ConfigReloader(conf, lambda: setup.read_again(conf, argv, register)))


def run(conf: cfg.ConfigOpts, reloader: ConfigReloader) -> None:
    """Start all services, wait for a signal or the end of the terminal, and stop them in reverse order.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable options.
    """
    _on_stop_signals(_end_at_once)
    changed = threading.Event()
    poll_terminal = terminal.handle_hangup(changed.set)
    with contextlib.ExitStack() as cleanup:
        report_interval.check(conf, alone=True)
        authenticator = authentication.select(conf, conf.osapi_volume_listen)
        ledger = database.connect(conf)
        cleanup.callback(ledger.close)
        transport = rpc_transport.create(conf)
        cleanup.callback(transport.cleanup)
        scheduler = SchedulerService(conf, ledger, transport)
        agents = agent_builder.build(conf, transport)
        application = build(
            conf,
            ledger,
            SchedulerClient(transport),
            authenticator,
            with_identity=conf.auth_strategy == "noauth",
        )
        api = ApiServer(conf, application)
        extender = extender_app.build(conf, ledger)
        # Conflicts with other processes about a backend or a port are detected before the services start.
        agent_builder.validate(conf)
        unknown_options.warn(conf)
        for server in (api, extender):
            if server is not None:
                server.listen()
                cleanup.callback(server.stop)
        scheduler.start()
        cleanup.callback(scheduler.stop)
        stopped = threading.Event()
        _on_stop_signals(lambda number, frame: stopped.set())
        started: list[BackendAgent] = []
        cleanup.callback(_stop_all, started)
        for agent in agents:
            agent.start()
            started.append(agent)
        # Started last, because requests need all other services.
        for server in (api, extender):
            if server is not None:
                server.start()
                cleanup.callback(server.stop)
        if _wait_for_reports(scheduler, agents, stopped):
            hints = _HINTS.format(url=api.url) if conf.auth_strategy == "noauth" else ""
            print(_READY.format(url=api.url, hints=hints), flush=True)
        failed = _watch(agents, stopped, changed, lambda: reloader.apply(scheduler), poll_terminal)
        LOG.info("Stopping")
    if failed is not None:
        raise errors.TonnageError(failed)
    print("Tonnage has stopped", flush=True)


def _stop_all(agents: Sequence[BackendAgent]) -> None:
    """Stop the agents in parallel. Each waits for its operations, and oslo.messaging takes a second or two."""
    with futures.ThreadPoolExecutor(max(1, len(agents)), thread_name_prefix="stop") as pool:
        list(pool.map(BackendAgent.stop, agents))


def _on_stop_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """Exit immediately during the start. A graceful end could wait forever for an unreachable bus."""
    with contextlib.suppress(OSError):
        print(f"{PROG}: stopped before it was ready", file=sys.stderr, flush=True)
    os._exit(1)


def _wait_for_reports(scheduler: SchedulerService, agents: Sequence[BackendAgent], stopped: threading.Event) -> bool:
    """Wait for a report of every backend, so that the first request finds pools. Return False after a stop signal."""
    waited = 0.0
    while missing := sorted({agent.backend for agent in agents} - scheduler.reporting()):
        if any(agent.failure for agent in agents):
            break
        if stopped.wait(0.05):
            return False
        waited += 0.05
        if waited > _REPORT_TIMEOUT:
            LOG.warning("No report yet of %s", ", ".join(missing))
            break
    return True


def _watch(
    agents: Sequence[BackendAgent],
    stopped: threading.Event,
    changed: threading.Event,
    reload: Callable[[], None],
    poll_terminal: Callable[[], None],
) -> str | None:
    """Wait for a stop signal or the failure of a backend. Return the message of the failure, None after a signal.

    Reload the configuration when ``changed`` is set.
    """
    while not stopped.wait(0.5):
        poll_terminal()
        if changed.is_set():
            changed.clear()
            reload()
        for agent in agents:
            if agent.failure is not None:
                return agent.failure
    return None
