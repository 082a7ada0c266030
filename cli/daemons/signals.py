# SPDX-License-Identifier: Apache-2.0
"""The signals of a daemon without worker processes: a thread reads them from a pipe.

Python calls a signal handler on the main thread, between any two steps of it. The main thread, or an earlier call of a
handler, may hold a lock at that moment. A handler that takes the same lock waits for ever, and ``Event.set()``,
``print()`` and logging take locks. So the handlers here do nothing. The interpreter writes the number of each signal to
a pipe, as it does for worker processes, where cotyledon reads it.
"""

import atexit
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from tonnage.cli.daemons import terminal

#: Seconds between two looks at whether the terminal was closed.
_POLL = 0.5

#: Bytes of one read. Each is the number of a signal.
_READ_SIZE = 4096

#: The end of the message of CPython (``Modules/signalmodule.c``) on a signal that arrived while it became ignored.
_IGNORED = "ignored due to race condition"


def handle(stop: Callable[[], object], reload: Callable[[], object] | None = None) -> None:
    """Call functions on signals from now on, on a thread of their own. Only the main thread may call this.

    ``stop`` is called on SIGTERM, on SIGINT, and when the terminal of the process was closed. It may be called several
    times. ``reload`` is called on any other SIGHUP. Without ``reload``, SIGHUP stops the process too, unless it is
    ignored, as under ``nohup``.
    """
    survives_hangup = terminal.survives_hangup()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if reload is not None or not survives_hangup:
        numbers.append(signal.SIGHUP)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # A full pipe holds thousands of signals that have not been read. One more would change nothing.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _do_nothing)
    ignore_at_exit()
    reader = _SignalReader(reading, None if survives_hangup else terminal.Terminal(), stop, reload or stop)
    threading.Thread(target=reader.run, name="signals", daemon=True).start()


def ignore_at_exit() -> None:
    """Ignore all signals that end the process once its work is done: the exit status is that of the work.

    Python gives the signals their default actions back before it has ended.

    A signal that arrives at the moment of the change is ignored too. Python reports it as an exception that it could
    not raise, with a traceback on standard error; such reports are dropped from now on.
    """
    atexit.register(_ignore)
    report = sys.unraisablehook

    def report_others(unraisable: "sys.UnraisableHookArgs") -> None:
        if not str(unraisable.exc_value).endswith(_IGNORED):
            report(unraisable)

    sys.unraisablehook = report_others


def _ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Handle a signal that the pipe receives."""


class _SignalReader:
    """The reader of the pipe. Without a ``terminal`` the end of the terminal stops nothing."""

    def __init__(
        self, pipe: int, terminal: terminal.Terminal | None, stop: Callable[[], object], reload: Callable[[], object]
    ) -> None:
        self._pipe = pipe
        self._terminal = terminal
        self._stop = stop
        self._reload = reload

    def run(self) -> None:
        """Call the functions until the process ends."""
        while True:
            readable, _, _ = select.select([self._pipe], [], [], None if self._terminal is None else _POLL)
            numbers = set(os.read(self._pipe, _READ_SIZE)) if readable else set()
            has_lost_terminal = self._lost_terminal(signal.SIGHUP in numbers)
            if has_lost_terminal or numbers & {signal.SIGTERM, signal.SIGINT}:
                self._stop()
            if signal.SIGHUP in numbers and not has_lost_terminal:
                self._reload()

    def _lost_terminal(self, is_told: bool) -> bool:
        """Return whether the terminal was closed since the last call.

        A closed terminal sends SIGHUP to the leader of its session only. A shell forwards it to its jobs, and these are
        told. Other leaders with this process in their own process group may not forward it: ``make``, for example,
        waits for the process to end.
        """
        if self._terminal is None or not (is_told or os.getpgrp() == os.getsid(0)) or not self._terminal.was_closed():
            return False
        self._terminal.detach()
        self._terminal = None
        return True
