# SPDX-License-Identifier: Apache-2.0
"""The terminal that a process was started from.

SIGHUP has two meanings. It is what processes get when their terminal is closed, and should end with it; and it is what
daemons are sent to read their configuration again. They are told apart by whether the terminal is still there.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType


class Terminal:
    """The controlling terminal of this moment; what systemd has started, say, has none."""

    def __init__(self) -> None:
        self._was_there = _is_there()
        self._descriptors = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def has_gone(self) -> bool:
        """Tell whether there was one that has been closed since."""
        return self._was_there and not _is_there()

    def leave(self) -> None:
        """Have nothing more read from it or written to it, which would fail once it has gone."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._descriptors:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


def on_hangup(reload: Callable[[], object]) -> Callable[[], None]:
    """On SIGHUP have the process end as by SIGTERM if its terminal was closed, else ``reload``.

    Returns what should be called now and then: a closed terminal is told to whoever leads its session. A shell passes
    that on to its jobs. Others, who have this process in their own group, may not: ``make`` waits for it to end.
    """
    terminal = None if outlives() else Terminal()

    def ends() -> bool:
        if terminal is None or not terminal.has_gone():
            return False
        terminal.leave()
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


def outlives() -> bool:
    """Tell whether the process is to outlive its terminal, as under ``nohup``; true only before SIGHUP is handled."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
