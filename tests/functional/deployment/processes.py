# SPDX-License-Identifier: Apache-2.0
"""Tonnage's commands as processes of their own."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psutil

from tests.functional.deployment import forks

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


def run_program(
    name: str, *arguments: str | pathlib.Path, given: str = "", environment: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a command, which must end by itself, with the text ``given`` as its input.

    The fork server runs it. With ``environment``, even an empty one, it is a program of its own, in the environment of
    the test with these additions.
    """
    command = [str(COMMANDS / name), *map(str, arguments)]
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        source.write(given.encode())
        source.seek(0)
        process = (
            forks.start(command, source, output, error)
            if environment is None
            else subprocess.Popen(command, stdin=source, stdout=output, stderr=error, env={**os.environ, **environment})
        )
        try:
            code = process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            raise
        output.seek(0)
        error.seek(0)
        return CommandResult(code, output.read().decode(), error.read().decode())


class Process:
    """One Tonnage command. Its output is appended to :attr:`log`, next to its configuration file, :attr:`conf`."""

    def __init__(self, name: str, conf: pathlib.Path) -> None:
        self.conf, self.log = conf, conf.with_name(f"{name}.log")
        self._command = [str(COMMANDS / f"tonnage-{name}"), "--config-file", str(conf)]
        self._process: subprocess.Popen[bytes] | forks.ForkedProcess | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> int:
        """Start the process and return its id. ``environment`` has the meaning of :func:`run_program`."""
        with self.log.open("ab") as log, open(os.devnull, "rb") as nothing:
            if environment is None:
                self._process = forks.start(self._command, nothing, log, log)
            else:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=nothing,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, **environment},
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
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole_group else os.kill)(self.pid, number)

    def request_stop(self, number: signal.Signals = signal.SIGTERM, *, whole_group: bool = False) -> None:
        """Send a signal three times, as ``make`` and a terminal do, which both pass Ctrl-C on."""
        for _ in range(3):
            self.send(number, whole_group=whole_group)

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
        process.request_stop()
        try:
            code = process.wait()
        except subprocess.TimeoutExpired:
            process.send(signal.SIGKILL)
            raise
    log = process.log.read_text(encoding="utf-8")
    assert code == 0, log
    assert "Traceback" not in log, log
