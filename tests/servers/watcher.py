# SPDX-License-Identifier: Apache-2.0
"""A program that ends a server and removes its folder when the process that started the server ends for any reason.

Usage: ``python watcher.py FOLDER``, with a line ``PID SIGNAL`` on standard input for each started process. ``PID 0``
means that the process has ended with its group, whose number may be reused. When the input ends, which happens even if
the writer is killed, the processes are ended, the last one first.
"""

import contextlib
import os
import select
import shutil
import signal
import sys

PATIENCE = 20.0
"""Seconds until a process that does not end by itself is killed."""


def _end(process: int, group: int, number: int) -> None:
    """End the process and then the rest of its group. ``process`` is a pidfd, so no other process can be hit."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, number)
    if not select.select([process], [], [], PATIENCE)[0]:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], PATIENCE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # a Ctrl-C is meant for the watched process
    started: list[tuple[int, int, int]] = []
    for line in sys.stdin:
        pid, number = map(int, line.split())
        if number == 0:
            for process, _, _ in [one for one in started if one[1] == pid]:
                os.close(process)
            started = [one for one in started if one[1] != pid]
            continue
        with contextlib.suppress(ProcessLookupError):
            started.append((os.pidfd_open(pid), pid, number))
    for process, pid, number in reversed(started):
        _end(process, pid, number)
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
