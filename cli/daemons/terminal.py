# SPDX-License-Identifier: Apache-2.0
"""The terminal of a process, and its SIGHUP signals.

SIGHUP has two meanings. A process receives it when its terminal is closed, and should end. Operators send it to daemons
to make them read their configuration again. The two cases differ in whether the terminal still exists.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType


class Terminal:
    """The controlling terminal at the time of creation. Services of systemd, for example, have none."""

    def __init__(self) -> None:
        self._had_terminal = _has_terminal()
        self._descriptors = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def was_closed(self) -> bool:
        """Return whether the process had a terminal that has been closed since."""
        return self._had_terminal and not _has_terminal()

    def detach(self) -> None:
        """Redirect the terminal's file descriptors to /dev/null, because reads and writes fail on a closed terminal."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._descriptors:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


def handle_hangup(reload: Callable[[], object]) -> Callable[[], None]:
    """Install a handler of SIGHUP that ends the process if its terminal was closed, and otherwise calls ``reload``.

    The process ends as after SIGTERM. The returned function has to be called periodically, because a closed terminal
    sends SIGHUP to the leader of its session only. A shell forwards it to its jobs. Other leaders with this process in
    their own process group may not: ``make``, for example, waits for the process to end.
    """
    terminal = None if survives_hangup() else Terminal()

    def ends() -> bool:
        if terminal is None or not terminal.was_closed():
            return False
        terminal.detach()
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    def handle(number: int, frame: FrameType | None) -> None:
        if not ends():
            reload()

    def check_terminal() -> None:
        if os.getpgrp() == os.getsid(0):
            ends()

    signal.signal(signal.SIGHUP, handle)
    return check_terminal


def survives_hangup() -> bool:
    """Return whether SIGHUP is ignored, as under ``nohup``. Call it before :func:`handle_hangup`."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
