# SPDX-License-Identifier: Apache-2.0
"""``tonnage-agent``: the agent daemon, with one process for each enabled backend."""

import logging
import os
import signal
import sys
import threading

from cotyledon import types
from oslo_config import cfg

from tonnage import worker
from tonnage.agent import builder, options
from tonnage.agent.backend_agent import BackendAgent
from tonnage.capacity import errors
from tonnage.cli import setup, tls_verification, unknown_options
from tonnage.cli.daemons import reload, report_interval, workers
from tonnage.cli.daemons.backend_changes import BackendConfiguration
from tonnage.ledger.inventory import service_options
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport as rpc

LOG = logging.getLogger(__name__)

PROG = "tonnage-agent"


class BackendWorker(workers.Worker):
    """The worker process of one backend."""

    prog = PROG

    def __init__(
        self, worker_id: types.WorkerId, conf: cfg.ConfigOpts, configuration: BackendConfiguration, section: str
    ) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._configuration = configuration
        self._section = section
        self._agent: BackendAgent | None = None
        self._ending = False
        self._lock = threading.Lock()
        self._reload = worker.Worker("reload", self._take_over)
        self._reload.start()

    def serve(self) -> None:
        """Run the agent of the backend until it ends. After a drain, end the process."""
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
        if not self._ending:
            os.kill(os.getpid(), signal.SIGTERM)

    def end(self) -> None:
        with self._lock:
            self._ending = True
        if self._agent is not None:
            self._agent.stop()

    def reload(self) -> None:
        """Take over the current files, on a thread of its own, because signals during this method would be lost."""
        self._reload.wake()

    def _take_over(self) -> None:
        """Drain the backend if it is no longer enabled, restart if its options have changed, or else do nothing."""
        try:
            changes = self._configuration.changes()
        except setup.EXPECTED_ERRORS:
            # The files have changed again since the main process has read them; another signal will follow.
            return
        agent = self._agent
        if self._section in changes.removed and agent is not None:
            agent.drain()
        elif self._section in changes.changed or self._section in changes.removed:
            super().reload()


class _AgentPlan(workers.WorkerPlan):
    """A worker for each enabled backend."""

    def __init__(self, conf: cfg.ConfigOpts, configuration: BackendConfiguration) -> None:
        self._conf = conf
        self._configuration = configuration
        super().__init__(self._enabled())

    def reload(self) -> bool:
        """Take over changes of the enabled backends, completely or not at all."""
        changes = reload.attempt(self._configuration.usable_changes)
        if changes is None:
            return False
        self._configuration.adopt(changes)
        self.specs = self._enabled()
        reload.confirm(changes.conf)
        return True

    def _enabled(self) -> list[workers.WorkerSpec]:
        return [
            workers.WorkerSpec(section, BackendWorker, (self._conf, self._configuration, section))
            for section in self._configuration.enabled
        ]


@setup.clean_exit(PROG)
def main() -> None:
    """Run the agent until SIGTERM or Ctrl-C."""
    conf, argv = cfg.CONF, sys.argv[1:]
    register = (options.register, rpc_options.register, service_options.register)
    setup.configure(conf, argv, PROG, register)
    rpc.create(conf).cleanup()  # raises an error for an unusable address; opens no connection
    report_interval.check(conf, alone=False)
    configuration = BackendConfiguration(lambda: setup.read_again(conf, argv, register))
    unknown_options.warn(configuration.conf)
    tls_verification.warn(conf)
    rpc.warn_if_local(conf)
    workers.run(conf, PROG, _AgentPlan(conf, configuration))
