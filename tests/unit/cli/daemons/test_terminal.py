# SPDX-License-Identifier: Apache-2.0
"""Tests of SIGHUP: processes end with their terminal, and reload their configuration otherwise."""

import contextlib
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

PROGRAM = """
import ctypes, fcntl, os, signal, sys, termios, threading
from tonnage.cli.daemons import signals

def end_with(parent):
    # The parent may be killed, and cannot stop this process then.
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("it has gone already")

end_with(int(sys.argv[2]))
if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
# The setting must not be inherited from the process of the tests.
signal.signal(signal.SIGHUP, signal.SIG_IGN if "nohup" in sys.argv else signal.SIG_DFL)

def send(text):
    os.write(int(sys.argv[1]), text + b"\\n")

if "led" in sys.argv:
    # Like make, the parent leads the session and does not forward the signal.
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    leader = os.getpid()
    if os.fork():
        os.wait()
        sys.exit(0)
    end_with(leader)
stopped = threading.Event()
signals.handle(stopped.set, lambda: send(b"reloaded"))
send(b"ready")
stopped.wait()
print("this would fail on a terminal that has gone", flush=True)
send(b"ended")
"""


class Program:
    """A running test program. ``close_terminal`` closes its terminal, like the button of a terminal window."""

    def __init__(self, *arguments: str, with_terminal: bool) -> None:
        reading, writing = os.pipe()
        self._terminal, its_side = pty.openpty() if with_terminal else (None, os.open(os.devnull, os.O_RDWR))
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(writing), str(os.getpid()), *arguments],
            stdin=its_side,
            stdout=its_side,
            stderr=subprocess.DEVNULL,
            pass_fds=[writing],
            start_new_session=True,
        )
        os.close(writing)
        os.close(its_side)
        self._messages = os.fdopen(reading)
        assert self.read_message() == "ready"

    def read_message(self) -> str:
        return self._messages.readline().strip()

    def close_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def stop(self) -> None:
        self.close_terminal()
        self._messages.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


@contextlib.contextmanager
def program(*arguments: str, with_terminal: bool = True) -> Iterator[Program]:
    one = Program(*arguments, with_terminal=with_terminal)
    try:
        yield one
    finally:
        one.stop()


def test_a_process_reloads_on_sighup_and_ends_when_its_terminal_is_closed() -> None:
    with program() as one:
        one.process.send_signal(signal.SIGHUP)
        assert one.read_message() == "reloaded"
        one.close_terminal()
        assert one.read_message() == "ended"
        assert one.process.wait(30) == 0


@pytest.mark.parametrize(("arguments", "with_terminal"), [(["nohup"], True), ([], False)])
def test_a_process_without_a_terminal_or_under_nohup_continues(arguments: list[str], with_terminal: bool) -> None:
    with program(*arguments, with_terminal=with_terminal) as one:
        one.close_terminal()
        if not with_terminal:
            one.process.send_signal(signal.SIGHUP)
        assert one.read_message() == "reloaded"
        assert one.process.poll() is None


def test_a_process_ends_with_its_terminal_if_its_session_leader_keeps_the_signal() -> None:
    with program("led") as one:
        one.close_terminal()
        assert one.read_message() == "ended"
        assert one.process.wait(30) == 0


@pytest.mark.parametrize("arguments", [[], ["led"]])
def test_the_test_programs_end_when_the_tests_are_killed(arguments: list[str]) -> None:
    starter = f"""
import sys
from tests.unit.cli.daemons import test_terminal
with test_terminal.program(*{arguments!r}, with_terminal=False) as one:
    print(one.process.pid, flush=True)
    sys.stdin.read()
"""
    root = pathlib.Path(__file__).parents[4]
    with subprocess.Popen(
        [sys.executable, "-c", starter], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        leader = int(started.stdout.readline())
        others = pathlib.Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        assert len(others) == len(arguments)
        watched = [os.pidfd_open(each) for each in (leader, *map(int, others))]
        try:
            started.kill()
            for each in watched:
                assert select.select([each], [], [], 30)[0]
        finally:
            for each in watched:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(each, signal.SIGKILL)
                os.close(each)
