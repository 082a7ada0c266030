# SPDX-License-Identifier: Apache-2.0
"""Worker processes of a daemon, managed by cotyledon.

The parent process only supervises. Workers are forked, so each worker creates its own connections and threads.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cotyledon
import cotyledon.oslo_config_glue
from cotyledon import types
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import setup
from tonnage.cli.daemons import terminal

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

    def serve(self) -> None:
        """Run the worker until its end. Raises TonnageError if it cannot run."""
        raise NotImplementedError

    def end(self) -> None:
        """Let :meth:`serve` finish the accepted work and return."""
        raise NotImplementedError


class _Manager(cotyledon.ServiceManager):
    """A manager that stops gracefully on Ctrl-C, when its terminal is closed, and after a worker's fatal error.

    It forwards any other SIGHUP to the workers if ``is_usable`` accepts the current configuration files.
    """

    def __init__(self, is_usable: Callable[[], bool]) -> None:
        survives_hangup = terminal.survives_hangup()
        super().__init__(mp_context=multiprocessing.get_context("fork"))
        # The base class has started a new session if possible. Then the main process has no terminal any more.
        self._terminal = None if survives_hangup else terminal.Terminal()
        self.failed = False
        self._is_usable = is_usable
        self.register_hooks(on_dead_worker=self._on_dead_worker)

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
        if sig == signal.SIGHUP and not self._is_usable():
            return
        super()._on_signal_received(signal.SIGTERM if sig == signal.SIGINT else sig)


def run(
    conf: cfg.ConfigOpts,
    prog: str,
    workers: Sequence[tuple[type[Worker], tuple[Any, ...]]],
    is_usable: Callable[[], bool] = lambda: True,
) -> None:
    """Run one process for each worker until SIGTERM or Ctrl-C. ``workers`` has their classes and further arguments.

    On SIGHUP the configuration is read again if ``is_usable`` returns True, and ``reload`` of the workers is called. By
    default a worker stops gracefully and is started again.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` after a worker's fatal error, which is logged before.
    """
    manager = _Manager(is_usable)
    cotyledon.oslo_config_glue.setup(manager, conf)
    for worker, arguments in workers:
        manager.add(worker, args=arguments)
    try:
        manager.run()
    except SystemExit:
        if manager.failed:
            raise errors.ConfigurationError(f"{prog} has ended because of the error above") from None
        raise
