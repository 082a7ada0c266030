# SPDX-License-Identifier: Apache-2.0
"""Daemons that can be started, stopped with SIGSTOP and killed, and that end together with this process."""

import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import Sequence

import psutil
from process_folder import ProcessFolder

from tests.servers import base

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PATIENCE = 60.0


class Daemon:
    """One daemon of Tonnage: a parent process that only supervises, and its workers."""

    def __init__(self, name: str, command: Sequence[str | pathlib.Path], folder: ProcessFolder) -> None:
        self.name = name
        self.log = folder.path / f"{name}.log"
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon with the code of this checkout."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )
        self._folder.watch(self._process.pid)

    @property
    def running(self) -> bool:
        """Whether the daemon was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def revive(self) -> None:
        """Start the daemon again if it has ended, as a service manager would. Without a database a daemon ends."""
        if self._process is not None and not self.running:
            self._folder.forget(self._process.pid)
            self.start()

    def kill(self) -> None:
        """Send SIGKILL to all processes at once, as if the machine failed."""
        if self._process is None:
            return
        family = self._family()
        _signal(family, signal.SIGKILL)
        base.wait_for(lambda: not any(_alive(process) for process in family), f"the end of {self.name}", _PATIENCE)
        self._process.wait(_PATIENCE)
        self._folder.forget(self._process.pid)
        self._process = None

    def kill_workers(self) -> None:
        """Send SIGKILL to the workers; the parent starts new ones."""
        _signal(self._family()[1:], signal.SIGKILL)

    def freeze(self) -> list[psutil.Process]:
        """Send SIGSTOP to the workers; return them for :meth:`thaw`."""
        workers = self._family()[1:]
        _signal(workers, signal.SIGSTOP)
        return workers

    @staticmethod
    def thaw(workers: Sequence[psutil.Process]) -> None:
        """Send SIGCONT to the stopped workers that still exist."""
        _signal(workers, signal.SIGCONT)

    def _family(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        return []


def _alive(process: psutil.Process) -> bool:
    """Return whether the process runs. A worker without a parent stays a zombie until init removes it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
