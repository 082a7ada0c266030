# SPDX-License-Identifier: Apache-2.0
"""Ends a server and removes its folder when the process that started it is gone, however that ended.

Usage: ``python watcher.py FOLDER``, with lines ``PID SIGNAL`` on standard input, one for each process that was started;
``PID 0`` says that it is gone with all of its group, whose number may then be somebody else's. When the input ends,
which it does even if its other end was killed, the processes are ended, the last one first.
"""

import contextlib
import os
import select
import shutil
import signal
import sys

PATIENCE = 20.0
"""Seconds that a process gets to end by itself before it is killed."""


def _end(process: int, group: int, number: int) -> None:
    """End the process and, once it is gone, what is left of its group. ``process`` is a pidfd: no other can be hit."""
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
        signal.signal(ignored, signal.SIG_IGN)  # a Ctrl-C is for the one who is watched
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
