# SPDX-License-Identifier: Apache-2.0
"""Processes of Tonnage's commands that the fork server starts, which takes a tenth of the time of a program's start."""

import atexit
import functools
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import BinaryIO

_SERVER = pathlib.Path(__file__).with_name("fork_server.py")


class ForkedProcess:
    """A process of the fork server, with the methods of :class:`subprocess.Popen` that tests need."""

    def __init__(self, pid: int, command: Sequence[str], pipe: int) -> None:
        self.pid, self.returncode = pid, None
        self._command, self._pipe = command, pipe

    returncode: int | None
    """The exit code, negative for a signal, once :meth:`poll` or :meth:`wait` has seen the end of the process."""

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code, or raise ``subprocess.TimeoutExpired``."""
        code = self._read(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(list(self._command), timeout)
        return code

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._pipe], [], [], timeout)[0]:
            self.returncode = int(os.read(self._pipe, 16))
            os.close(self._pipe)
        return self.returncode


class _ForkServer:
    """The connection to the fork server of this test process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, _SERVER, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._close)

    def start(self, command: Sequence[str], files: Sequence[BinaryIO]) -> ForkedProcess:
        """Start a command with these standard files."""
        ours, theirs = os.pipe()
        try:
            message = json.dumps([list(command), os.getcwd()]).encode()
            with self._lock:
                socket.send_fds(self._socket, [message], [*(file.fileno() for file in files), theirs])
                pid = int(self._socket.recv(32))
        finally:
            os.close(theirs)
        return ForkedProcess(pid, command, ours)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _fork_server() -> _ForkServer:
    return _ForkServer()


def start(command: Sequence[str], stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO) -> ForkedProcess:
    """Start one of Tonnage's commands in a session of its own."""
    return _fork_server().start(command, [stdin, stdout, stderr])
