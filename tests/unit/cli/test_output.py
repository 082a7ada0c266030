# SPDX-License-Identifier: Apache-2.0
"""Standard output and error of commands."""

import contextlib
import os
import subprocess
import sys

import pytest

from tonnage.cli import output

PRINTS = """
import sys
from tonnage.capacity import errors
from tonnage.cli import setup

@setup.clean_exit("tonnage-test")
def main():
    sys.stdin.read()
    if sys.argv[1] == "much":
        print("x" * 10**6)
    else:
        print("x")
    if sys.argv[1] == "fails":
        raise errors.NotFound("nothing there")

main()
"""


@pytest.mark.parametrize(
    ("output", "buffered", "error"),
    [
        ("much", True, ""),
        ("little", True, ""),
        ("little", False, ""),
        ("fails", True, "tonnage-test: nothing there\n"),
    ],
)
def test_a_command_exits_quietly_after_its_reader_is_gone(output: str, buffered: bool, error: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PRINTS, output],
        env={**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert process.communicate(timeout=60) == (None, error)
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("ascii", "caf? ???? x"), ("latin-1", "caf\xe9 ???? x"), ("utf-8", "caf\xe9 \u0442\u0435\u0441\u0442 x")],
)
def test_a_terminal_without_a_character_gets_question_marks(encoding: str, text: str) -> None:
    program = PRINTS.replace('print("x")', 'print("caf\\xe9 \\u0442\\u0435\\u0441\\u0442 x")')
    done = subprocess.run(
        [sys.executable, "-c", program, "little"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode(encoding) == f"{text}\n"


def test_a_full_disk_is_reported_on_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PRINTS, "little"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, "tonnage-test: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a\n  b\tc "), "a b c"),
        (ValueError(), "ValueError"),
        (KeyError(" "), "' '"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    ],
)
def test_an_error_is_one_line(error: Exception, line: str) -> None:
    assert output.one_line(error) == line


def test_a_closed_terminal_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stderr", stream)
    output.print_error("tonnage: away")
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_a_pipe_is_closed_when_its_reader_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert not output.is_closed()
        os.close(reader)
        assert output.is_closed()
        monkeypatch.setattr(sys, "stdout", None)
        assert not output.is_closed()


def test_a_process_without_standard_output_has_nothing_to_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with output.flushed("tonnage-test"):
        pass
