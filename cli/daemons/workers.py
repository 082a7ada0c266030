# SPDX-License-Identifier: Apache-2.0
"""Worker processes of a daemon, under cotyledon.

The parent only watches. Workers are forked, so whatever holds connections or threads is made in the worker.
"""

import logging
import multiprocessing
import os
import signal
import sys
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

#: Status of a worker that another attempt would not help, as in sysexits.h. It ends the daemon; a worker that dies of
#: anything else is started again.
HOPELESS = os.EX_CONFIG


class Worker(cotyledon.Service):
    """One worker process. Subclasses do their work in :meth:`serve` until :meth:`terminate` is called."""

    prog = "tonnage"

    def __init__(self, worker_id: types.WorkerId) -> None:
        super().__init__(worker_id)
        # Ctrl-C reaches every process of a terminal; the parent turns it into SIGTERM for the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def run(self) -> None:
        """Serve. What an operator has to put right is one line and the end of the daemon."""
        try:
            with setup.clean_exit(self.prog):
                self.serve()
        except SystemExit:
            sys.exit(HOPELESS)

    def serve(self) -> None:
        """Do the work; return when there is no more to do. Raises TonnageError if it cannot be done."""
        raise NotImplementedError


class _Manager(cotyledon.ServiceManager):
    """Ends gracefully on Ctrl-C as well, with its terminal, and with the daemon once a worker is hopeless.

    Any other SIGHUP is passed on to the workers if the configuration ``is_usable`` as it is in the files now.
    """

    def __init__(self, is_usable: Callable[[], bool]) -> None:
        outlives = terminal.outlives()
        super().__init__(mp_context=multiprocessing.get_context("fork"))
        # Where it could, the main process has left its terminal by now.
        self._terminal = None if outlives else terminal.Terminal()
        self.hopeless = False
        self._is_usable = is_usable
        self.register_hooks(on_dead_worker=self._on_dead_worker)

    def _on_dead_worker(self, service_id: types.ServiceId, worker_id: types.WorkerId, status: int) -> None:
        if status == HOPELESS:
            self.hopeless = True
            # Returns when the parent has begun to end, so the worker is not started again.
            self.shutdown()

    def _on_signal_received(self, sig: int) -> None:
        if sig == signal.SIGHUP and self._terminal is not None and self._terminal.has_gone():
            self._terminal.leave()
            sig = signal.SIGTERM
        # Workers that are started later have what the main process has read, so it reads nothing that they cannot use.
        if sig == signal.SIGHUP and not self._is_usable():
            return
        super()._on_signal_received(signal.SIGTERM if sig == signal.SIGINT else sig)


def run(
    conf: cfg.ConfigOpts,
    prog: str,
    workers: Sequence[tuple[type[Worker], tuple[Any, ...]]],
    is_usable: Callable[[], bool] = lambda: True,
) -> None:
    """Run one process for each worker, given as class and further arguments, until SIGTERM or Ctrl-C.

    On SIGHUP the configuration is read again if it ``is_usable``, and workers are asked to ``reload``. Those that do
    not know better end gracefully and are started again.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` after a worker gave up; it has said why.
    """
    manager = _Manager(is_usable)
    cotyledon.oslo_config_glue.setup(manager, conf)
    for worker, arguments in workers:
        manager.add(worker, args=arguments)
    try:
        manager.run()
    except SystemExit:
        if manager.hopeless:
            raise errors.ConfigurationError(f"{prog} has ended because of the error above") from None
        raise
