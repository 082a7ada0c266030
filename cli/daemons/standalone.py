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
from tonnage.cli.daemons.reload import Reloading
from tonnage.ledger.db import database
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.scheduler_client import SchedulerClient
from tonnage.scheduler import settings as scheduler_settings
from tonnage.scheduler.service import SchedulerService

LOG = logging.getLogger(__name__)

PROG = "tonnage-standalone"

#: Seconds that the backends get to report before it is said that one has not.
_PATIENCE = 30.0

_READY = """\
Tonnage is ready: {url}
{hints}
Ctrl-C stops it.
"""

#: What whoever is asked nothing can do at once.
_HINTS = """
Try:
  curl -s '{url}/v3/demo/scheduler-stats/get_pools?detail=true'
  curl -s {url}/v3/demo/volumes -H 'Content-Type: application/json' -d '{{"volume": {{"name": "first", "size": 2}}}}'
  curl -s {url}/v3/demo/volumes/detail
"""


@setup.clean_exit(PROG)
def main() -> None:
    """Run until a signal ends it."""
    conf, argv = cfg.CONF, sys.argv[1:]
    register = [
        rpc_options.register,
        scheduler_settings.register,
        agent_options.register,
        api_options.register,
        database.register,
    ]
    setup.configure(conf, argv, PROG, register)
    run(conf, Reloading(conf, lambda: setup.read_again(conf, argv, register)))


def run(conf: cfg.ConfigOpts, reloading: Reloading) -> None:
    """Start everything, wait for a signal or the end of its terminal, stop everything in the opposite order.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work.
    """
    _on_stop_signals(_end_at_once)
    changed = threading.Event()
    look_for_terminal = terminal.on_hangup(changed.set)
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
        # What another process holds, a backend or the port, is known before anything runs.
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
        # Last, so that whoever is answered finds everything else there.
        for server in (api, extender):
            if server is not None:
                server.start()
                cleanup.callback(server.stop)
        if _wait_for_reports(scheduler, agents, stopped):
            hints = _HINTS.format(url=api.url) if conf.auth_strategy == "noauth" else ""
            print(_READY.format(url=api.url, hints=hints), flush=True)
        failed = _watch(agents, stopped, changed, lambda: reloading.apply(scheduler), look_for_terminal)
        LOG.info("Stopping")
    if failed is not None:
        raise errors.TonnageError(failed)
    print("Tonnage has stopped", flush=True)


def _stop_all(agents: Sequence[BackendAgent]) -> None:
    """Stop agents side by side: each lets its operations end, and oslo.messaging takes a second or two."""
    with futures.ThreadPoolExecutor(max(1, len(agents)), thread_name_prefix="stop") as pool:
        list(pool.map(BackendAgent.stop, agents))


def _on_stop_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """End before anything was accepted. A bus that is not there would be waited for without end."""
    with contextlib.suppress(OSError):
        print(f"{PROG}: stopped before it was ready", file=sys.stderr, flush=True)
    os._exit(1)


def _wait_for_reports(scheduler: SchedulerService, agents: Sequence[BackendAgent], stopped: threading.Event) -> bool:
    """Wait until every backend has reported, so that the first request finds pools. Return False if stopped before."""
    waited = 0.0
    while missing := sorted({agent.backend for agent in agents} - scheduler.reporting()):
        if any(agent.failure for agent in agents):
            break
        if stopped.wait(0.05):
            return False
        waited += 0.05
        if waited > _PATIENCE:
            LOG.warning("No report yet of %s", ", ".join(missing))
            break
    return True


def _watch(
    agents: Sequence[BackendAgent],
    stopped: threading.Event,
    changed: threading.Event,
    reload: Callable[[], None],
    look_for_terminal: Callable[[], None],
) -> str | None:
    """Wait for a signal, or until a backend has failed; return what it said. Reload the configuration if it changed."""
    while not stopped.wait(0.5):
        look_for_terminal()
        if changed.is_set():
            changed.clear()
            reload()
        for agent in agents:
            if agent.failure is not None:
                return agent.failure
    return None
