# SPDX-License-Identifier: Apache-2.0
"""Tonnage's commands as processes of their own."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psutil

#: The folder of the installed commands.
COMMANDS = pathlib.Path(sys.executable).parent

#: Seconds until a process that was asked to end must have ended.
_END_TIMEOUT = 90.0


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command that ended by itself."""

    code: int
    output: str
    error: str


class Process:
    """One Tonnage command. Its output is appended to :attr:`log`, next to its configuration file."""

    def __init__(self, name: str, conf: pathlib.Path) -> None:
        self.log = conf.with_name(f"{name}.log")
        self._command = [COMMANDS / f"tonnage-{name}", "--config-file", conf]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> int:
        """Start the process and return its id. ``environment`` is added to that of the test."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=None if environment is None else {**os.environ, **environment},
            )
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def ending(self) -> str:
        """The exit code as a phrase for a log; empty while the process runs."""
        return "" if self._process is None or self.running else f", ended with {self._process.returncode}"

    @property
    def pid(self) -> int:
        """The process id of the last start."""
        assert self._process is not None
        return self._process.pid

    def send(self, number: signal.Signals, *, whole_group: bool = False) -> None:
        """Send a signal to the process or, as a terminal does on Ctrl-C, to its workers as well."""
        (os.killpg if whole_group else os.kill)(self.pid, number)

    def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        assert self._process is not None
        return self._process.wait(_END_TIMEOUT)

    def tree(self) -> list[psutil.Process]:
        """Return the process, then its workers; nothing if it does not run."""
        if not self.running:
            return []
        process = psutil.Process(self.pid)
        return [process, *process.children(recursive=True)]

    def reap(self) -> None:
        """Collect the exit code of a process that was killed."""
        if self._process is not None:
            self._process.wait(_END_TIMEOUT)


@contextlib.contextmanager
def run_process(name: str, conf: pathlib.Path) -> Iterator[Process]:
    """Run ``tonnage-<name>``. On SIGTERM it must end with exit code 0, and its log must show no traceback."""
    process = Process(name, conf)
    process.start()
    try:
        yield process
    finally:
        process.send(signal.SIGTERM)
        try:
            code = process.wait()
        except subprocess.TimeoutExpired:
            process.send(signal.SIGKILL)
            raise
    log = process.log.read_text(encoding="utf-8")
    assert code == 0, log
    assert "Traceback" not in log, log
