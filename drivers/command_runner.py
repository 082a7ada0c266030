# SPDX-License-Identifier: Apache-2.0
"""The runner of external commands. It takes argument lists, enforces a time limit and never uses a shell."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence

#: Folders of administration programs; the search path of a service account often lacks them.
_PROGRAM_PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CommandFailed(Exception):
    """A command could not be started, timed out, or returned an error. ``message`` is its error text.

    ``missing`` is true if there is no such program, ``still_running`` if the command may still be running.
    """

    def __init__(self, message: str, missing: bool = False, still_running: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.missing = missing
        self.still_running = still_running


class CommandRunner:
    """Runs commands, each prefixed with the words of ``helper`` (``sudo -n``), for at most ``timeout`` seconds.

    After each of two signals a command that takes longer has ``end_timeout`` seconds to end. Thread-safe.
    """

    def __init__(self, helper: Sequence[str], timeout: float, end_timeout: float = 5.0) -> None:
        self._helper = helper
        self._timeout = timeout
        self._end_timeout = end_timeout
        # Processes that could not be ended. They are polled later, so that none stays a zombie.
        self._unended: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def run(self, command: Sequence[str]) -> str:
        """Return the output of the command. Raises :class:`CommandFailed`."""
        with self._lock:
            self._unended = [process for process in self._unended if process.poll() is None]
        # Files rather than pipes: a command that outlives its time limit must not die of writing to a closed pipe.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(  # noqa: S603 -- an argument list; the callers validate the names in it
                    [*self._helper, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd="/",
                    env={**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:{_PROGRAM_PATHS}"},
                    # A signal that ends the agent, such as Ctrl-C in its terminal, must not interrupt a change of the
                    # storage.
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
                    still_running=not ended,
                ) from None
            out.seek(0)
            err.seek(0)
            if code:
                raise CommandFailed(_error_text(err.read()) or f"{command[0]} ended with {code} and said nothing")
            return out.read().decode(errors="replace")

    def _end(self, process: subprocess.Popen[bytes]) -> bool:
        """End a command and its child processes; return whether that worked. It fails for a process of another user."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._end_timeout)
                return True
        with self._lock:
            self._unended.append(process)
        return False


def _error_text(err: bytes) -> str:
    """Return the error output of a command in one line, without its warnings unless there is nothing else."""
    lines = [line.strip() for line in err.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join([line for line in lines if not line.startswith("WARNING")] or lines)
