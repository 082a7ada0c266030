# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.servers.base import wait_for
from tonnage.drivers import command_runner
from tonnage.drivers.command_runner import CommandFailed, Runner


def test_a_command_gets_its_arguments_as_they_are_and_no_input() -> None:
    """No shell looks at them, and messages are in English."""
    program = "import sys, os; print(sys.argv[1:], sys.stdin.read(), os.environ['LC_ALL'])"
    said = Runner([], 60).run([sys.executable, "-c", program, "a b", "$HOME", "; true", "*"])
    assert said == "['a b', '$HOME', '; true', '*']  C\n"


def test_the_helper_goes_before_the_command() -> None:
    assert Runner(["env", "WORD=said"], 60).run(["sh", "-c", "echo $WORD"]) == "said\n"


def test_what_a_command_complains_about_is_the_message() -> None:
    script = "echo '  WARNING: never mind' >&2; echo '  It is full.' >&2; echo '  Sorry.' >&2; exit 5"
    with pytest.raises(CommandFailed) as caught:
        Runner([], 60).run(["sh", "-c", script])
    assert caught.value.message == "It is full.; Sorry."
    with pytest.raises(CommandFailed, match="WARNING: never mind"):
        Runner([], 60).run(["sh", "-c", "echo WARNING: never mind >&2; false"])
    with pytest.raises(CommandFailed, match="sh ended with 3 and said nothing"):
        Runner([], 60).run(["sh", "-c", "exit 3"])


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(CommandFailed, match="no-such-program: No such file") as caught:
        Runner([], 60).run(["no-such-program"])
    assert caught.value.missing


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"

    class Begun(subprocess.Popen[bytes]):
        """Its time runs once the child is there."""

        def wait(self, timeout: float | None = None) -> int:
            end = time.monotonic() + 60
            while timeout and not (pids.exists() and pids.read_text().endswith("\n")):
                assert time.monotonic() < end
                time.sleep(0.01)
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Begun)
    with pytest.raises(CommandFailed, match="was ended") as caught:
        Runner([], 3).run(["sh", "-c", f"sleep 600 & echo $! >{pids}; wait"])
    assert not caught.value.unfinished
    child = int(pids.read_text())
    wait_for(lambda: not _lives(child), "the end of what it has started")


def _lives(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_command_that_cannot_be_ended_is_left_to_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """sudo's commands run as root. What they write when nobody waits any more does no harm to them."""
    go, done = tmp_path / "go", tmp_path / "done"

    def refuse(group: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    monkeypatch.setattr(command_runner, "_GRACE", 0.05)
    runner = Runner([], 3)
    script = f"while [ ! -e {go} ]; do sleep 0.02; done; echo ended; echo >{done}"
    with pytest.raises(CommandFailed, match="was left to itself") as caught:
        runner.run(["sh", "-c", script])
    assert caught.value.unfinished
    go.touch()
    runner._timeout = 60
    deadline = time.monotonic() + 120
    while not done.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # The next command collects what has ended.
    while runner._left:
        assert time.monotonic() < deadline, "a zombie stays"
        assert runner.run(["echo", "said"]) == "said\n"


def test_what_ends_the_agent_does_not_end_a_command() -> None:
    group = int(Runner([], 60).run([sys.executable, "-c", "import os; print(os.getpgrp())"]))
    assert group != os.getpgrp()
