# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.servers.base import wait_for
from tonnage.drivers.command_runner import CommandFailed, CommandRunner


def test_a_command_gets_its_literal_arguments_and_no_input() -> None:
    """No shell interprets them, and messages are in English."""
    program = "import sys, os; print(sys.argv[1:], sys.stdin.read(), os.environ['LC_ALL'])"
    output = CommandRunner([], 60).run([sys.executable, "-c", program, "a b", "$HOME", "; true", "*"])
    assert output == "['a b', '$HOME', '; true', '*']  C\n"


def test_the_helper_prefixes_the_command() -> None:
    assert CommandRunner(["env", "WORD=said"], 60).run(["sh", "-c", "echo $WORD"]) == "said\n"


def test_the_error_output_of_a_command_is_the_message() -> None:
    script = "echo '  WARNING: never mind' >&2; echo '  It is full.' >&2; echo '  Sorry.' >&2; exit 5"
    with pytest.raises(CommandFailed) as caught:
        CommandRunner([], 60).run(["sh", "-c", script])
    assert caught.value.message == "It is full.; Sorry."
    with pytest.raises(CommandFailed, match="WARNING: never mind"):
        CommandRunner([], 60).run(["sh", "-c", "echo WARNING: never mind >&2; false"])
    with pytest.raises(CommandFailed, match="sh ended with 3 and said nothing"):
        CommandRunner([], 60).run(["sh", "-c", "exit 3"])


def test_a_missing_program_is_reported() -> None:
    with pytest.raises(CommandFailed, match="no-such-program: No such file") as caught:
        CommandRunner([], 60).run(["no-such-program"])
    assert caught.value.missing


def test_a_command_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"

    class StartedPopen(subprocess.Popen[bytes]):
        """A process whose time limit starts once its child exists."""

        def wait(self, timeout: float | None = None) -> int:
            end = time.monotonic() + 60
            while timeout and not (pids.exists() and pids.read_text().endswith("\n")):
                assert time.monotonic() < end
                time.sleep(0.01)
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", StartedPopen)
    with pytest.raises(CommandFailed, match="was ended") as caught:
        CommandRunner([], 3).run(["sh", "-c", f"sleep 600 & echo $! >{pids}; wait"])
    assert not caught.value.still_running
    child = int(pids.read_text())
    wait_for(lambda: not _is_running(child), "the end of the child")


def _is_running(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_command_that_cannot_be_ended_is_left_to_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The commands of sudo run as root. Output after the time limit does not harm them."""
    go, done = tmp_path / "go", tmp_path / "done"

    def refuse(group: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    runner = CommandRunner([], 3, end_timeout=0.05)
    script = f"while [ ! -e {go} ]; do sleep 0.02; done; echo ended; echo >{done}"
    with pytest.raises(CommandFailed, match="was left to itself") as caught:
        runner.run(["sh", "-c", script])
    assert caught.value.still_running
    go.touch()
    runner._timeout = 60
    deadline = time.monotonic() + 120
    while not done.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # The next command collects the ended process.
    while runner._unended:
        assert time.monotonic() < deadline, "a zombie stays"
        assert runner.run(["echo", "said"]) == "said\n"


def test_a_signal_to_the_agent_does_not_end_a_command() -> None:
    group = int(CommandRunner([], 60).run([sys.executable, "-c", "import os; print(os.getpgrp())"]))
    assert group != os.getpgrp()
