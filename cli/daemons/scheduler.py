# SPDX-License-Identifier: Apache-2.0
"""``tonnage-scheduler``: the scheduler daemon."""

import contextlib
import enum
import gc
import queue
import sys
from typing import TYPE_CHECKING

from cotyledon import types
from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.capacity import errors
from tonnage.cli import setup, tls_verification, unknown_options
from tonnage.cli.daemons import reload, workers
from tonnage.cli.daemons.scheduler_reload import ConfigReloader
from tonnage.ledger.db import database, durability, schema, text_columns
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.service import SchedulerService

PROG = "tonnage-scheduler"

#: Seconds between two looks at whether the scheduler has to end.
_POLL = 1.0

if TYPE_CHECKING:
    from tonnage.api.http.server import Server


class _Signal(enum.Enum):
    RELOAD = enum.auto()
    END = enum.auto()


class SchedulerWorker(workers.Worker):
    """The worker process of the scheduler."""

    prog = PROG

    def __init__(self, worker_id: types.WorkerId, conf: cfg.ConfigOpts, reloader: ConfigReloader) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._reloader = reloader
        self._signals: queue.SimpleQueue[_Signal] = queue.SimpleQueue()
        self._scheduler: SchedulerService | None = None

    def serve(self) -> None:
        """Schedule until :meth:`end` is called, then finish the accepted requests."""
        with contextlib.ExitStack() as cleanup:
            ledger = database.connect(self._conf)
            cleanup.callback(ledger.close)
            transport = rpc_transport.create(self._conf)
            cleanup.callback(transport.cleanup)
            metrics = _metrics_server(self._conf, ledger)
            if metrics is not None:
                metrics.listen()
                cleanup.callback(metrics.stop)
            scheduler = self._scheduler = SchedulerService(self._conf, ledger, transport)
            # Objects created until then are never garbage. Collections would only look at millions of them.
            gc.disable()
            scheduler.start()
            gc.freeze()
            gc.enable()
            cleanup.callback(scheduler.stop)
            if metrics is not None:
                metrics.start()
            self.started = True
            while self._next_signal(scheduler) is _Signal.RELOAD:
                if self._reloader.apply(scheduler):
                    reload.confirm(self._conf)

    def _next_signal(self, scheduler: SchedulerService) -> _Signal:
        """Wait for a signal. Raises ConfigurationError if the scheduler has to end without one."""
        while scheduler.failure is None:
            with contextlib.suppress(queue.Empty):
                return self._signals.get(timeout=_POLL)
        raise errors.ConfigurationError(scheduler.failure)

    def end(self) -> None:
        """Finish the accepted requests and leave the other schedulers."""
        self._signals.put(_Signal.END)

    def abandon_start(self) -> None:
        """Leave the other schedulers; the start may wait for the message bus without end."""
        if self._scheduler is not None:
            self._scheduler.leave()

    def reload(self) -> None:
        """Read the configuration again, in :meth:`serve`, because signals during this method would be lost."""
        self._signals.put(_Signal.RELOAD)


def _metrics_server(conf: cfg.ConfigOpts, ledger: database.Database) -> "Server | None":
    """Return the listener for Prometheus, None if metrics are disabled: then its HTTP server is not loaded either."""
    if not conf.metrics.enabled:
        return None
    from tonnage.api.monitoring import server

    return server.build(conf, ledger, "scheduler_listen_port")


class _SchedulerPlan(workers.WorkerPlan):
    """One worker, which reads the files again by itself."""

    def __init__(self, conf: cfg.ConfigOpts, reloader: ConfigReloader) -> None:
        super().__init__([workers.WorkerSpec(PROG, SchedulerWorker, (conf, reloader))])
        self._reloader = reloader

    def reload(self) -> bool:
        """Return whether a scheduler could start with the current files; log the error if it could not."""
        return self._reloader.is_usable()


@setup.clean_exit(PROG)
def main() -> None:
    """Run the scheduler until SIGTERM or Ctrl-C."""
    conf, argv = cfg.CONF, sys.argv[1:]
    register = [rpc_options.register, settings.register, database_options.register]
    setup.configure(conf, argv, PROG, register, with_extensions=True)
    reloader = ConfigReloader(conf, lambda: setup.read_again(conf, argv, register, with_extensions=True))
    # Errors in the configuration are reported before a worker starts.
    settings.validate(conf)
    rpc_transport.create(conf).cleanup()
    unknown_options.warn(conf)
    tls_verification.warn(conf)
    ledger = database.connect(conf)
    schema.require_current(ledger.engine, enabled_extensions.enabled(conf))
    durability.warn(ledger)
    text_columns.warn(ledger, enabled_extensions.enabled(conf))
    ledger.close()
    rpc_transport.warn_if_local(conf)
    workers.run(conf, PROG, _SchedulerPlan(conf, reloader))
