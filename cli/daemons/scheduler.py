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
from tonnage.cli.daemons.reload import Reloading
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
    """The process that schedules."""

    prog = PROG

    def __init__(self, worker_id: types.WorkerId, conf: cfg.ConfigOpts, reloading: Reloading) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._reloading = reloading
        self._signals: queue.SimpleQueue[_Signal] = queue.SimpleQueue()

    def serve(self) -> None:
        """Schedule until told to end; then finish what was accepted."""
        with contextlib.ExitStack() as cleanup:
            ledger = database.connect(self._conf)
            cleanup.callback(ledger.close)
            transport = rpc_transport.create(self._conf)
            cleanup.callback(transport.cleanup)
            scheduler = SchedulerService(self._conf, ledger, transport)
            scheduler.start()
            # What a scheduler starts with stays. Looking through it for garbage, while decisions wait, is in vain.
            gc.freeze()
            cleanup.callback(scheduler.stop)
            while self._signals.get() is _Signal.RELOAD:
                self._reloading.apply(scheduler)

    def terminate(self) -> None:
        """End gracefully."""
        self._signals.put(_Signal.END)

    def reload(self) -> None:
        """Read the configuration again. It is done in :meth:`serve`: what signals while this runs is not heard."""
        self._signals.put(_Signal.RELOAD)


@setup.clean_exit(PROG)
def main() -> None:
    """Run the scheduler until SIGTERM or Ctrl-C."""
    conf, argv = cfg.CONF, sys.argv[1:]
    register = [rpc_options.register, settings.register, database.register]
    setup.configure(conf, argv, PROG, register)
    reloading = Reloading(conf, lambda: setup.read_again(conf, argv, register))
    # What is wrong with the configuration is said here, before anything runs.
    settings.validate(conf)
    rpc_transport.create(conf).cleanup()
    unknown_options.warn(conf)
    ledger = database.connect(conf)
    schema.require_current(ledger.engine)
    ledger.close()
    rpc_transport.warn_if_local(conf)
    workers.run(conf, PROG, [(SchedulerWorker, (conf, reloading))], reloading.is_usable)
