# SPDX-License-Identifier: Apache-2.0
"""``tonnage-agent``: the agent daemon, with one process for each enabled backend."""

import logging
import sys
import threading

from cotyledon import types
from oslo_config import cfg

from tonnage.agent import builder, options
from tonnage.agent.backend_agent import BackendAgent
from tonnage.capacity import errors
from tonnage.cli import setup, unknown_options
from tonnage.cli.daemons import report_interval, workers
from tonnage.ledger.inventory import service_options
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc

LOG = logging.getLogger(__name__)

PROG = "tonnage-agent"


class BackendWorker(workers.Worker):
    """The worker process of one backend."""

    prog = PROG

    def __init__(self, worker_id: types.WorkerId, conf: cfg.ConfigOpts, section: str) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._section = section
        self._agent: BackendAgent | None = None
        self._ending = False
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Run the agent of the backend until it ends."""
        transport = rpc.create(self._conf)
        with self._lock:
            if self._ending:
                return
            self._agent = agent = builder.build_one(self._conf, transport, self._section)
            agent.start()
        LOG.info("Backend %s is being served", agent.backend)
        self.started = True
        agent.wait()
        if agent.failure is not None:
            raise errors.Conflict(agent.failure)

    def end(self) -> None:
        """Stop the agent gracefully."""
        with self._lock:
            self._ending = True
        if self._agent is not None:
            self._agent.stop()


@setup.clean_exit(PROG)
def main() -> None:
    """Run the agent until SIGTERM or Ctrl-C."""
    conf = cfg.CONF
    setup.configure(
        conf, sys.argv[1:], PROG, register=(options.register, rpc_options.register, service_options.register)
    )
    rpc.create(conf).cleanup()  # raises an error for an unusable address; opens no connection
    report_interval.check(conf, alone=False)
    sections = builder.validate(conf)
    unknown_options.warn(conf)
    rpc.warn_if_local(conf)
    workers.run(conf, PROG, [(BackendWorker, (conf, section)) for section in sections])
