# SPDX-License-Identifier: Apache-2.0
"""``tonnage-scheduler``: the scheduler daemon."""

import contextlib
import enum
import gc
import queue
import sys

from cotyledon import types
from oslo_config import cfg

from tonnage.cli import setup, unknown_options
from tonnage.cli.daemons import workers
from tonnage.cli.daemons.reload import ConfigReloader
from tonnage.ledger.db import database, schema
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport
from tonnage.scheduler import settings
from tonnage.scheduler.service import SchedulerService

PROG = "tonnage-scheduler"


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

    def serve(self) -> None:
        """Schedule until :meth:`end` is called, then finish the accepted requests."""
        with contextlib.ExitStack() as cleanup:
            ledger = database.connect(self._conf)
            cleanup.callback(ledger.close)
            transport = rpc_transport.create(self._conf)
            cleanup.callback(transport.cleanup)
            scheduler = SchedulerService(self._conf, ledger, transport)
            scheduler.start()
            # Objects created so far are never garbage. Excluding them makes collections shorter.
            gc.freeze()
            cleanup.callback(scheduler.stop)
            self.started = True
            while self._signals.get() is _Signal.RELOAD:
                self._reloader.apply(scheduler)

    def end(self) -> None:
        """Finish the accepted requests and leave the other schedulers."""
        self._signals.put(_Signal.END)

    def reload(self) -> None:
        """Read the configuration again, in :meth:`serve`, because signals during this method would be lost."""
        self._signals.put(_Signal.RELOAD)


@setup.clean_exit(PROG)
def main() -> None:
    """Run the scheduler until SIGTERM or Ctrl-C."""
    conf, argv = cfg.CONF, sys.argv[1:]
    register = [rpc_options.register, settings.register, database.register]
    setup.configure(conf, argv, PROG, register)
    reloader = ConfigReloader(conf, lambda: setup.read_again(conf, argv, register))
    # Errors in the configuration are reported before a worker starts.
    settings.validate(conf)
    rpc_transport.create(conf).cleanup()
    unknown_options.warn(conf)
    ledger = database.connect(conf)
    schema.require_current(ledger.engine)
    ledger.close()
    rpc_transport.warn_if_local(conf)
    workers.run(conf, PROG, [(SchedulerWorker, (conf, reloader))], reloader.is_usable)
