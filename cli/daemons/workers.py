# SPDX-License-Identifier: Apache-2.0
"""Worker processes of a daemon, managed by cotyledon.

The parent process only supervises. Workers are forked, so each worker creates its own connections and threads.
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cotyledon
import cotyledon.oslo_config_glue
from cotyledon import types
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import setup
from tonnage.cli.daemons import signals, terminal

LOG = logging.getLogger(__name__)

#: Exit status of a worker after an error that a restart would not solve, from sysexits.h. It ends the daemon. A worker
#: with any other status is started again.
FATAL_STATUS = os.EX_CONFIG


class Worker(cotyledon.Service):
    """A worker process. Subclasses work in :meth:`serve` until :meth:`end` is called.

    cotyledon ends the process as soon as :meth:`terminate` has returned. :meth:`serve` sets ``started`` once it has
    work to finish. An end does not wait for a start, which may last as long as the message bus is away.
    """

    prog = "tonnage"

    def __init__(self, worker_id: types.WorkerId) -> None:
        super().__init__(worker_id)
        self.started = False
        self._ended = threading.Event()
        # Ctrl-C sends SIGINT to every process of a terminal. The parent sends SIGTERM to its workers instead.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def run(self) -> None:
        """Serve. An error that an operator has to solve ends the daemon with a message of one line."""
        try:
            with setup.clean_exit(self.prog):
                self.serve()
        except SystemExit:
            sys.exit(FATAL_STATUS)
        finally:
            self._ended.set()

    def terminate(self) -> None:
        """Stop gracefully: return once :meth:`serve` has returned. cotyledon limits the time."""
        self.end()
        if self.started:
            self._ended.wait()
        else:
            self.abandon_start()

    def serve(self) -> None:
        """Run the worker until its end. Raises TonnageError if it cannot run."""
        raise NotImplementedError

    def end(self) -> None:
        """Let :meth:`serve` finish the accepted work and return."""
        raise NotImplementedError

    def abandon_start(self) -> None:
        """Undo the part of a start that other processes see, because the process ends at once."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker process: its name, which is different for each, its class and the further arguments of the class."""

    name: str
    worker: type[Worker]
    arguments: tuple[Any, ...]


class WorkerPlan:
    """The worker processes of a daemon. Subclasses may change ``specs`` with the configuration files."""

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        self.specs = specs

    def reload(self) -> bool:
        """Take over the current configuration files; return False, after a log line, if they cannot be used."""
        return True


class _Manager(cotyledon.ServiceManager):
    """A manager that stops gracefully on Ctrl-C, when its terminal is closed, and after a worker's fatal error.

    After any other SIGHUP the plan decides. If it takes the configuration files over, the signal is forwarded to the
    workers, and those that are new in the plan are started. A worker that is no longer in the plan ends by itself, and
    is not started again.
    """

    def __init__(self, plan: WorkerPlan) -> None:
        survives_hangup = terminal.survives_hangup()
        super().__init__(mp_context=multiprocessing.get_context("fork"))
        # The base class has started a new session if possible. Then the main process has no terminal any more.
        self._terminal = None if survives_hangup else terminal.Terminal()
        self.failed = False
        self._plan = plan
        self._ids: dict[str, types.ServiceId] = {}
        self._planned: set[types.ServiceId] = set()
        self.register_hooks(on_dead_worker=self._on_dead_worker)
        self._add_planned()

    def _add_planned(self) -> None:
        # The supervising thread may be iterating over the services at this moment.
        self._services = self._services.copy()
        for spec in self._plan.specs:
            if spec.name not in self._ids:
                self._ids[spec.name] = self.add(spec.worker, args=spec.arguments)
        self._planned = {self._ids[spec.name] for spec in self._plan.specs}

    def _start_worker(self, service_id: types.ServiceId, worker_id: types.WorkerId) -> None:
        if service_id in self._planned:
            super()._start_worker(service_id, worker_id)

    def _on_dead_worker(self, service_id: types.ServiceId, worker_id: types.WorkerId, status: int) -> None:
        if status == FATAL_STATUS:
            self.failed = True
            # After this call the parent is stopping, so it does not start the worker again.
            self.shutdown()

    def _on_signal_received(self, sig: int) -> None:
        if sig == signal.SIGHUP and self._terminal is not None and self._terminal.was_closed():
            self._terminal.detach()
            sig = signal.SIGTERM
        # Later workers inherit the configuration of the main process, so it must not read an unusable one.
        if sig == signal.SIGHUP and not self._plan.reload():
            return
        if sig == signal.SIGHUP:
            # A worker that is no longer in the plan may end as soon as it gets the signal.
            self._planned &= {self._ids[spec.name] for spec in self._plan.specs if spec.name in self._ids}
        super()._on_signal_received(signal.SIGTERM if sig == signal.SIGINT else sig)
        if sig == signal.SIGHUP:
            self._add_planned()
            # As after the end of a worker, the supervising thread starts the workers that are missing.
            super()._on_signal_received(signal.SIGCHLD)

    def _reload(self) -> None:
        """Run the hooks, and forward SIGHUP to the workers alone.

        The base class sends it to the process group, which may hold other programs, and ignores SIGHUP meanwhile: a
        signal of that moment would be lost, and the files that it tells of would not be read.
        """
        self._run_hooks("reload")
        self._forktimes = []  # new workers start without a pause
        for processes in list(self._running_services.values()):
            for process in list(processes):
                if process.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGHUP)


def run(conf: cfg.ConfigOpts, prog: str, plan: WorkerPlan) -> None:
    """Run one process for each worker of the plan until SIGTERM or Ctrl-C.

    On SIGHUP the plan decides whether the configuration is read again, and then ``reload`` of the workers is called. By
    default a worker stops gracefully and is started again.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` after a worker's fatal error, which is logged before.
    """
    manager = _Manager(plan)
    signals.ignore_at_exit()
    cotyledon.oslo_config_glue.setup(manager, conf)
    try:
        manager.run()
    except SystemExit:
        if manager.failed:
            raise errors.ConfigurationError(f"{prog} has ended because of the error above") from None
        raise
