# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that a driver needs: as argument lists, with a time limit, and never through a shell."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence

#: How long, in seconds, a command may take to end once it was told to.
_GRACE = 5.0

#: Where administration programs lie; the search path of a service account often lacks it.
_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CommandFailed(Exception):
    """A command could not be run or ended badly. ``message`` is what it said.

    ``missing`` tells that there is no such program, ``unfinished`` that it may still be running.
    """

    def __init__(self, message: str, missing: bool = False, unfinished: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.missing = missing
        self.unfinished = unfinished


class Runner:
    """Runs commands, each after the words of ``helper`` (``sudo -n``), for at most ``timeout`` seconds. Thread-safe."""

    def __init__(self, helper: Sequence[str], timeout: float) -> None:
        self._helper = helper
        self._timeout = timeout
        # Those that could not be ended, kept until they have, so that none stays a zombie.
        self._left: list[subprocess.Popen[bytes]] = []
        self._guard = threading.Lock()

    def run(self, command: Sequence[str]) -> str:
        """Return what the command printed. Raises :class:`CommandFailed`."""
        with self._guard:
            self._left = [process for process in self._left if process.poll() is None]
        # Files rather than pipes: a command that outlives its time limit must not die of writing to nobody.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(  # noqa: S603 -- an argument list; names are checked by whoever makes it
                    [*self._helper, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd="/",
                    env={**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:{_FOLDERS}"},
                    # What ends the agent, a key of its terminal for one, must not interrupt a change of the storage.
                    start_new_session=True,
                )
            except OSError as error:
                raise CommandFailed(f"{error.filename}: {error.strerror}", missing=True) from error
            try:
                code = process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                ended = self._end(process)
                raise CommandFailed(
                    f"{command[0]} did not end within {self._timeout:g} s and was "
                    f"{'ended' if ended else 'left to itself'}",
                    unfinished=not ended,
                ) from None
            out.seek(0)
            err.seek(0)
            if code:
                raise CommandFailed(_said(err.read()) or f"{command[0]} ended with {code} and said nothing")
            return out.read().decode(errors="replace")

    def _end(self, process: subprocess.Popen[bytes]) -> bool:
        """End a command with what it started; tell whether that worked. It does not if it runs as somebody else."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
                return True
        with self._guard:
            self._left.append(process)
        return False


def _said(err: bytes) -> str:
    """Return what a command complained about in one line, without its warnings if there is more than those."""
    lines = [line.strip() for line in err.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join([line for line in lines if not line.startswith("WARNING")] or lines)
