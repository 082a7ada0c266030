# SPDX-License-Identifier: Apache-2.0
"""``tonnage-scheduler``: the scheduler daemon. Any number of them may run side by side."""

import sys

import cotyledon
from cotyledon import oslo_config_glue
from cotyledon.types import WorkerId
from oslo_config import cfg

from tonnage.cli import setup
from tonnage.ledger import database
from tonnage.ledger import schema
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc_transport
from tonnage.scheduler import settings
from tonnage.scheduler.service import SchedulerService


class SchedulerWorker(cotyledon.Service):
    """The process that schedules. Connections are made here, after the fork."""

    name = "tonnage-scheduler"

    def __init__(self, worker_id: WorkerId, conf: cfg.ConfigOpts) -> None:
        super().__init__(worker_id)
        self._database = database.connect(conf)
        self._transport = rpc_transport.create(conf)
        self._service = SchedulerService(conf, self._database, self._transport)

    def run(self) -> None:
        """Start; the process then waits for its end."""
        self._service.start()

    def terminate(self) -> None:
        """Finish what was accepted and end."""
        self._service.stop()
        self._transport.cleanup()
        self._database.close()


def main() -> int:
    """Run until a signal ends it."""
    with setup.clean_exit("tonnage-scheduler"):
        conf = cfg.CONF
        setup.configure(
            conf, sys.argv[1:], "tonnage-scheduler", [rpc_options.register, settings.register, database.register]
        )
        # What is wrong with the configuration is said once, here, and not by every worker.
        settings.validate(conf)
        ledger = database.connect(conf)
        schema.require_current(ledger.engine)
        ledger.close()
        manager = cotyledon.ServiceManager()
        manager.add(SchedulerWorker, workers=1, args=(conf,))
        oslo_config_glue.setup(manager, conf)
        manager.run()
        return 0
