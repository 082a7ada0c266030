# SPDX-License-Identifier: Apache-2.0
"""The terminal of a process, and its SIGHUP signals.

SIGHUP has two meanings. A process receives it when its terminal is closed, and should end. Operators send it to daemons
to make them read their configuration again. The two cases differ in whether the terminal still exists.
"""

import os
import signal


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


def survives_hangup() -> bool:
    """Return whether SIGHUP is ignored, as under ``nohup``. Call it before a handler is set."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
