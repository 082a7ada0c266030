# SPDX-License-Identifier: Apache-2.0
"""Tests of bursts of signals, in processes that use the mechanisms of the daemons and nothing else."""

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from tonnage.cli.daemons import signals

#: The main thread waits for events, as those of ``tonnage-standalone`` and ``tonnage-api`` do.
ALONE = """
import threading
from tonnage.cli.daemons import signals

stopped, changed = threading.Event(), threading.Event()
signals.handle(stopped.set, changed.set)
tell("ready")
while True:
    if stopped.wait(0.0001):
        stopped.clear()
        tell("stopped")
    if changed.is_set():
        changed.clear()
        tell("reloaded")
"""

WITH_WORKER = """
import threading
from oslo_config import cfg
from tonnage.cli.daemons import workers

class Answering(workers.Worker):
    def __init__(self, worker_id):
        super().__init__(worker_id)
        self._ending = threading.Event()

    def serve(self):
        self.started = True
        tell("ready")
        self._ending.wait()

    def end(self):
        self._ending.set()

    def reload(self):
        tell("reloaded")

conf = cfg.ConfigOpts()
conf([], project="tonnage", default_config_files=[])
workers.run(conf, "answering", workers.WorkerPlan([workers.WorkerSpec("answering", Answering, ())]))
"""

#: The process must not outlive a killed test, which cannot end it.
_BEGIN = """
import os, threading

def end_with_the_test():
    os.read(0, 1)
    os._exit(1)

def tell(word):
    os.write(1, word.encode() + b"\\n")

threading.Thread(target=end_with_the_test, daemon=True).start()
"""


class Program:
    """A running program that writes a word when it has reacted to a signal."""

    def __init__(self, text: str) -> None:
        self._chance = random.Random(1)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _BEGIN + text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait_for(self, word: str) -> str:
        """Read until the program has written the word, and return all words of it."""
        assert self.process.stdout is not None
        words = ""
        while word not in words:
            assert select.select([self.process.stdout], [], [], 60)[0], f"no {word!r}: the process is deaf"
            words += os.read(self.process.stdout.fileno(), 1 << 16).decode() or "ended"
            assert not words.endswith("ended"), "the process has ended"
        return words

    def forget_words(self) -> None:
        """Read what the program has written so far."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0)[0]:
            os.read(self.process.stdout.fileno(), 1 << 16)

    def send(self, numbers: Sequence[signal.Signals]) -> None:
        """Send signals with pauses of some microseconds. The kernel merges those that are closer."""
        for number in numbers:
            os.kill(self.process.pid, number)
            for _ in range(self._chance.randrange(300)):
                pass


@contextlib.contextmanager
def running(text: str) -> Iterator[Program]:
    program = Program(text)
    with program.process:
        try:
            program.wait_for("ready")
            yield program
        finally:
            program.process.kill()


@pytest.mark.parametrize(
    ("numbers", "word", "last", "last_word"),
    [
        ([signal.SIGTERM] * 20, "stopped", signal.SIGHUP, "reloaded"),
        ([signal.SIGINT, signal.SIGTERM] * 10, "stopped", signal.SIGHUP, "reloaded"),
        ([signal.SIGHUP] * 20, "reloaded", signal.SIGTERM, "stopped"),
    ],
    ids=["terms", "ctrl-c", "hangups"],
)
def test_five_hundred_bursts_of_signals_leave_no_process_deaf(
    numbers: Sequence[signal.Signals], word: str, last: signal.Signals, last_word: str
) -> None:
    with running(ALONE) as program:
        for _ in range(500):
            program.forget_words()
            program.send(numbers)
            program.wait_for(word)
        # An answer may be to the burst before. This one cannot.
        program.send([last])
        program.wait_for(last_word)


def test_bursts_of_signals_leave_no_worker_deaf_and_end_it() -> None:
    with running(WITH_WORKER) as program:
        for _ in range(50):
            program.send([signal.SIGHUP] * 4)
        program.wait_for("reloaded")
        program.send([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
        assert program.process.wait(60) == 0


#: A change of the action of SIGHUP, in the middle of which its signals would be lost.
_TELL_CHANGES = """
import signal

change = signal.signal

def tell_change(number, action):
    if number == signal.SIGHUP and action == signal.SIG_IGN:
        tell("ignored")
    return change(number, action)

signal.signal = tell_change
"""


def test_hangups_are_not_ignored_while_the_workers_reload() -> None:
    with running(_TELL_CHANGES + WITH_WORKER) as program:
        program.send([signal.SIGHUP])
        assert "ignored" not in program.wait_for("reloaded")


class _Failing:
    """An object whose end fails: Python reports an exception that it could not raise."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __del__(self) -> None:
        raise OSError(self._message)


def test_a_signal_that_arrives_as_it_becomes_ignored_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    monkeypatch.setattr(signals.atexit, "register", lambda function: function)
    signals.ignore_at_exit()
    for message in ("Signal 15 ignored due to race condition", "another error"):
        _Failing(message)
    assert "race condition" not in (report := capsys.readouterr().err)
    assert "OSError: another error" in report
