# SPDX-License-Identifier: Apache-2.0
"""``tonnage-scheduler``: the scheduler daemon."""

import contextlib
import sys
import threading

from cotyledon import types
from oslo_config import cfg

from tonnage.cli import setup
from tonnage.cli import workers
from tonnage.ledger import database
from tonnage.ledger import schema
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport
from tonnage.scheduler import settings
from tonnage.scheduler.service import SchedulerService

PROG = "tonnage-scheduler"


class SchedulerWorker(workers.Worker):
    """The process that schedules."""

    prog = PROG

    def __init__(self, worker_id: types.WorkerId, conf: cfg.ConfigOpts) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._ending = threading.Event()

    def serve(self) -> None:
        """Schedule until told to end; then finish what was accepted."""
        with contextlib.ExitStack() as cleanup:
            ledger = database.connect(self._conf)
            cleanup.callback(ledger.close)
            transport = rpc_transport.create(self._conf)
            cleanup.callback(transport.cleanup)
            scheduler = SchedulerService(self._conf, ledger, transport)
            scheduler.start()
            cleanup.callback(scheduler.stop)
            self._ending.wait()

    def terminate(self) -> None:
        """End gracefully."""
        self._ending.set()


@setup.clean_exit(PROG)
def main() -> None:
    """Run the scheduler until SIGTERM or Ctrl-C."""
    conf = cfg.CONF
    setup.configure(conf, sys.argv[1:], PROG, [rpc_options.register, settings.register, database.register])
    # What is wrong with the configuration is said here, before anything runs.
    settings.validate(conf)
    rpc_transport.create(conf).cleanup()
    ledger = database.connect(conf)
    schema.require_current(ledger.engine)
    ledger.close()
    workers.run(conf, PROG, [(SchedulerWorker, (conf,))])
