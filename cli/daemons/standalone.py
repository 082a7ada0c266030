# SPDX-License-Identifier: Apache-2.0
"""``tonnage-standalone``: scheduler, agent and REST API started by one command, for one machine."""

import contextlib
import logging
import os
import pathlib
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from cotyledon import oslo_config_glue
from oslo_config import cfg

from tonnage import enabled_extensions, plugin
from tonnage.agent import options as agent_options
from tonnage.api import options as api_options
from tonnage.api.http import middleware
from tonnage.api.monitoring import server as monitoring
from tonnage.capacity import errors
from tonnage.cli import output, setup, tls_verification, unknown_options
from tonnage.cli.daemons import report_interval, signals
from tonnage.cli.daemons.api_process import StandaloneApi
from tonnage.cli.daemons.backend_changes import BackendConfiguration
from tonnage.cli.daemons.backend_threads import BackendThreads
from tonnage.cli.daemons.reload import attempt, confirm
from tonnage.cli.daemons.scheduler_reload import ConfigReloader
from tonnage.cli.rest import connection_arguments
from tonnage.ledger.db import database, durability, text_columns
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport
from tonnage.scheduler.configuration import settings as scheduler_settings
from tonnage.scheduler.service import SchedulerService

LOG = logging.getLogger(__name__)

PROG = "tonnage-standalone"

#: Seconds to wait for the first report of each backend before a warning.
_REPORT_TIMEOUT = 30.0

#: Seconds for which requests wait for these reports at most. Later ones are served by the figures of before the start.
_FIRST_REPORTS = 2.0

_READY = """\
Tonnage is ready: {url}
{pages}{hints}
Ctrl-C stops it.
"""

#: Example commands, shown if the API needs no credentials.
_HINTS = """
Try in a second terminal, in the same folder:
  {command} pools{option}
  {command} create 1 --name first{option}
  {command} explain 100{option}
"""


def _hints(url: str) -> str:
    """Return the example commands in the words that reach the API at this URL."""
    program = pathlib.Path(sys.argv[0]).absolute().with_name("tonnage")
    is_on_path = shutil.which("tonnage") == str(program)
    folder = pathlib.Path.cwd()
    if program.is_relative_to(folder):
        program = program.relative_to(folder)
    # A configuration in a usual folder would come before the default address.
    is_default = url == connection_arguments.DEFAULT_URL and not cfg.find_config_files(setup.PROJECT)
    return _HINTS.format(
        command="tonnage" if is_on_path else shlex.quote(str(program)), option="" if is_default else f" --url {url}"
    )


def _web_pages(conf: cfg.ConfigOpts, url: str) -> str:
    """Return a line for each web page of the enabled extensions."""
    paths = [declaration.web_page for declaration in enabled_extensions.enabled(conf).values() if declaration.web_page]
    return "".join(f"Its web page is {url}{path}\n" for path in paths)


@dataclass(frozen=True, slots=True)
class Services:
    """The services of the standalone."""

    scheduler: SchedulerService
    backends: BackendThreads
    api: StandaloneApi

    @property
    def failure(self) -> str | None:
        """The reason for which the standalone has to end; None while all services run."""
        return self.scheduler.failure or self.backends.failure or self.api.failure


@dataclass(frozen=True, slots=True)
class Reload:
    """The take-over of changed configuration files."""

    reloader: ConfigReloader
    configuration: BackendConfiguration

    def apply(self, services: Services) -> None:
        """Apply the current files, completely or not at all."""
        changes = attempt(self.configuration.usable_changes)
        if changes is not None and self.reloader.apply(services.scheduler):
            services.api.reload()
            self.configuration.adopt(changes)
            confirm(changes.conf)
            services.backends.change(changes)


@setup.clean_exit(PROG)
def main() -> None:
    """Run until a signal."""
    conf, argv = cfg.CONF, sys.argv[1:]
    register = [
        rpc_options.register,
        scheduler_settings.register,
        agent_options.register,
        api_options.register,
        middleware.register,
        database_options.register,
        _register,
    ]
    setup.configure(conf, argv, PROG, register, with_extensions=True)
    run(conf, lambda: setup.read_again(conf, argv, register, with_extensions=True))


def _register(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(oslo_config_glue.service_opts)


def run(conf: cfg.ConfigOpts, read: Callable[[], cfg.ConfigOpts]) -> None:
    """Start all services, wait for a signal or the end of the terminal, and stop them in reverse order.

    ``read`` returns the current content of the files of ``conf``.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable options.
    """
    report_interval.check(conf, alone=True)
    enabled_extensions.check(conf)
    api = StandaloneApi(conf)
    started, stopped, changed = threading.Event(), threading.Event(), threading.Event()
    signals.handle(lambda: stopped.set() if started.is_set() else _end_at_once(), changed.set)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(api.close)
        ledger = database.connect(conf)
        cleanup.callback(ledger.close)
        transport = rpc_transport.create(conf)
        cleanup.callback(transport.cleanup)
        scheduler = SchedulerService(conf, ledger, transport)
        # Backends have a configuration of their own: each change of it restarts a backend and needs no other restart.
        configuration = BackendConfiguration(read, agent_options.COMMON)
        backends = BackendThreads(configuration, transport)
        metrics = monitoring.build(conf, ledger, "scheduler_listen_port")
        unknown_options.warn(configuration.conf)
        tls_verification.warn(conf)
        durability.warn(ledger)
        text_columns.warn(ledger, enabled_extensions.enabled(conf))
        # A conflict with another process about a port is detected before the services start.
        api.listen()
        if metrics is not None:
            metrics.listen()
            cleanup.callback(metrics.stop)
        scheduler.start()
        cleanup.callback(scheduler.stop)
        started.set()
        cleanup.callback(backends.stop)
        backends.start()
        # Started last, because requests need all other services, and the first one pools of the enabled backends.
        services = Services(scheduler, backends, api)
        _wait_for_reports(services, stopped, _FIRST_REPORTS)
        if metrics is not None:
            metrics.start()
        api.start(stopped)
        cleanup.callback(api.stop)
        missing = _wait_for_reports(services, stopped, _REPORT_TIMEOUT)
        if not stopped.is_set() and services.failure is None:
            if missing:
                LOG.warning("No report yet of %s", ", ".join(missing))
            hints = _hints(api.url) if conf.auth_strategy == "noauth" else ""
            print(_READY.format(url=api.url, pages=_web_pages(conf, api.url), hints=hints), flush=True)
        failed = _watch(stopped, changed, services, Reload(ConfigReloader(conf, read), configuration))
        LOG.info("Stopping")
        _limit_stop(conf.graceful_shutdown_timeout)
        scheduler.announce_stop()
    if failed is not None:
        raise errors.TonnageError(failed)
    print("Tonnage has stopped", flush=True)


def _end_at_once() -> None:
    """Exit immediately during the start. A graceful end could wait forever for an unreachable bus."""
    output.print_error(f"{PROG}: stopped before it was ready")
    os._exit(1)


def _limit_stop(timeout: int) -> None:
    """End the process ``timeout`` seconds from now if something holds up its stop; with 0 never.

    The threads on which plug-ins run cannot be ended, and Python waits for them. cotyledon ends the other daemons so.
    """
    if timeout:
        limit = threading.Timer(timeout, _end_unfinished, (timeout,))
        limit.daemon = True
        limit.start()


def _end_unfinished(timeout: int) -> None:
    plugins = sorted({name for thread in threading.enumerate() if (name := plugin.running_in(thread)) is not None})
    obstacles = f": {', '.join(plugins)} has not returned" if plugins else ""
    LOG.error("Ending before all work is done, after graceful_shutdown_timeout = %d s%s", timeout, obstacles)
    os._exit(1)


def _wait_for_reports(services: Services, stopped: threading.Event, timeout: float) -> list[str]:
    """Wait at most ``timeout`` seconds for a report of every backend whose storage can be used; return the others.

    A stop signal or the failure of a service ends it.
    """
    deadline = time.monotonic() + timeout
    while missing := sorted(services.backends.names - services.scheduler.reporting()):
        if services.failure is not None or time.monotonic() > deadline or stopped.wait(0.05):
            break
    return missing


def _watch(stopped: threading.Event, changed: threading.Event, services: Services, reload: Reload) -> str | None:
    """Wait for a stop signal or the failure of a service. Return its message, None after a signal.

    Reload the configuration when ``changed`` is set.
    """
    while not stopped.wait(0.5):
        if changed.is_set():
            changed.clear()
            reload.apply(services)
        if (failure := services.failure) is not None:
            return failure
    return None
