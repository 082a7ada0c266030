# SPDX-License-Identifier: Apache-2.0
"""Daemons that can be started, frozen and killed, and that are gone when whoever started them is."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import psutil

from tests.servers import base

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_WATCHER = pathlib.Path(base.__file__).with_name("watcher.py")
_PATIENCE = 60.0


class Folder:
    """A temporary folder, and the processes that work in it. However this process ends, they end and it is removed."""

    def __init__(self, keep: bool = False) -> None:
        self._keep = keep
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tonnage-torture-"))
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", _WATCHER, self.path], stdin=subprocess.PIPE, cwd="/", start_new_session=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keep:
            shutil.copytree(self.path, f"{self.path}-kept", symlinks=True)
            print(f"kept: {self.path}-kept", file=sys.stderr)
        assert self._watcher.stdin
        self._watcher.stdin.close()
        self._watcher.wait()

    def watch(self, pid: int) -> None:
        """Have a process killed at the end."""
        self._tell(pid, signal.SIGKILL)

    def forget(self, pid: int) -> None:
        """Note that a process and all of its group are gone: its id may soon be somebody else's."""
        self._tell(pid, 0)

    def _tell(self, pid: int, number: int) -> None:
        assert self._watcher.stdin
        with self._lock:
            self._watcher.stdin.write(b"%d %d\n" % (pid, number))
            self._watcher.stdin.flush()


class Daemon:
    """One daemon of Tonnage: a parent that only watches, and its worker processes."""

    def __init__(self, name: str, command: Sequence[str | pathlib.Path], folder: Folder) -> None:
        self.name = name
        self.log = folder.path / f"{name}.log"
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, with the code of this checkout."""
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
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def revive(self) -> None:
        """Start it again if it has ended, as a service manager would: one that finds no database at its start ends."""
        if self._process is not None and not self.running:
            self._folder.forget(self._process.pid)
            self.start()

    def kill(self) -> None:
        """SIGKILL to all of it at once, as when a machine fails."""
        if self._process is None:
            return
        family = self._family()
        _signal(family, signal.SIGKILL)
        base.wait_for(lambda: not any(_alive(process) for process in family), f"the end of {self.name}", _PATIENCE)
        self._process.wait(_PATIENCE)
        self._folder.forget(self._process.pid)
        self._process = None

    def kill_workers(self) -> None:
        """SIGKILL to those that do the work; the parent starts others."""
        _signal(self._family()[1:], signal.SIGKILL)

    def freeze(self) -> list[psutil.Process]:
        """SIGSTOP to those that do the work; return them for :meth:`thaw`."""
        workers = self._family()[1:]
        _signal(workers, signal.SIGSTOP)
        return workers

    @staticmethod
    def thaw(workers: Sequence[psutil.Process]) -> None:
        """SIGCONT to processes that were frozen and are still there."""
        _signal(workers, signal.SIGCONT)

    def _family(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        return []


def _alive(process: psutil.Process) -> bool:
    """Tell whether it runs. A worker whose parent has gone stays a zombie until init finds the time."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
