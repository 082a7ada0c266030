# SPDX-License-Identifier: Apache-2.0
"""``tonnage top``: lines without a terminal, and the screen of a terminal."""

import argparse
import dataclasses
import io
import math
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TextIO

import pytest
import sqlalchemy as sa
from rich.console import Console

from tests.unit.cli.overviews.test_commands import Ledger
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.cli import tonnage
from tonnage.cli.overviews import top
from tonnage.cli.overviews.top_keys import Keys
from tonnage.cli.overviews.top_table import Screen, render
from tonnage.ledger import models

#: Lines of a screen with room for one pool.
_LITTLE = 14

TONNAGE = pathlib.Path(sys.executable).with_name("tonnage")


@pytest.fixture
def made(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Ledger]:
    """A ledger with an operation under way and a refusal."""
    ledger = Ledger(f"sqlite:///{tmp_path}/tonnage.sqlite", capsys)
    ledger.world.create(4)
    ledger.world.create(60)
    yield ledger
    ledger.engine.dispose()


def arguments(line: str) -> argparse.Namespace:
    return tonnage.PROGRAM.parser("top").parse_args(["top", *line.split()])


def shown(snapshot: top.Snapshot, height: int = 40, **options: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=160, height=height, **options).print(render(snapshot, height))
    return file.getvalue()


def test_without_a_terminal_each_update_is_a_line(made: Ledger) -> None:
    lines = made.run("top --updates 2 --interval 0.1").splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "2 of 2 pool(s) up: total 30 GiB" in line
        assert "1 operation(s) under way, 1 refusal(s) in the last hour" in line


def test_the_fullest_pool_is_first_and_one_that_is_down_last(made: Ledger) -> None:
    made.world.settle()
    with made.engine.begin() as connection:
        fuller = sa.update(models.Pool).where(models.Pool.name == f"{BACKEND}#p1").values(free_capacity_gb=1)
        connection.execute(fuller)
    snapshot = top.take(made.world.database, 60)
    assert [row.pool.name for row in snapshot.pools] == [f"{BACKEND}#p1", f"{BACKEND}#p0"]
    physical, promised = top.shares(snapshot.pools[0])
    assert (physical, promised) == (0.9, None)
    assert top.shares(snapshot.pools[0]._replace(up=False)) == (None, None)


@pytest.mark.parametrize(("width", "left_out"), [(160, 0), (120, 0), (80, 1), (70, 2), (60, 3)])
def test_a_narrow_screen_leaves_columns_out_and_cuts_no_figure(made: Ledger, width: int, left_out: int) -> None:
    snapshot = top.take(made.world.database, 60)
    file = io.StringIO()
    Console(file=file, width=width, height=40).print(render(snapshot, 40))
    lines = file.getvalue().splitlines()
    heading = next(line for line in lines if line.startswith("pool "))
    row = next(line for line in lines if line.startswith(snapshot.pools[0].pool.name))
    optional = ("in flight", "virtual left", "physical left")
    assert [name in heading for name in optional] == [False] * left_out + [True] * (3 - left_out)
    assert "promised" in heading
    assert row.rstrip().endswith("up")
    assert "10%" in row
    assert "\N{HORIZONTAL ELLIPSIS}" not in heading + row


def test_the_screen_has_pools_operations_and_refusals(made: Ledger) -> None:
    snapshot = top.take(made.world.database, 60)
    text = shown(snapshot)
    for word in (f"{BACKEND}#p0", "physical left", "create", "pending", "no_capacity", "No pool for 60 GiB"):
        assert word in text
    assert "10%" in text or "10 %" in text
    assert "\x1b[" not in shown(snapshot, no_color=True).replace("\x1b[1m", "").replace("\x1b[2m", "")


def test_a_small_screen_leaves_out_the_least_full_pools(made: Ledger) -> None:
    snapshot = top.take(made.world.database, 60)
    assert "1 pool(s) more are less full, or down" in shown(snapshot, height=10)


def test_an_empty_ledger_says_so(made: Ledger) -> None:
    with made.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(present=False))
    assert "no backend has reported a pool" in top.take(made.world.database, 60).line()


def test_a_database_that_is_away_is_tried_again(
    made: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Any] = [errors.Unavailable("the database is away"), top.take(made.world.database, 60)]

    def take(*given: object) -> top.Snapshot:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, top.Snapshot)
        return answer

    monkeypatch.setattr(top, "take", take)
    parsed = arguments("--updates 2 --interval 0.1")
    assert parsed.run(made.conf, parsed) == 0
    output = capsys.readouterr()
    assert output.err == "tonnage: the database is away\n"
    assert "2 of 2 pool(s) up" in output.out


def test_the_screen_keeps_the_last_state_below_an_error(made: Ledger) -> None:
    file = io.StringIO()
    with Screen(Console(file=file, width=160, height=40, force_terminal=True)) as screen:
        screen.fail("the database is away")
        screen.show(top.take(made.world.database, 60))
        file.truncate(0)
        screen.fail("the database is away")
    assert "the database is away; tried again soon" in file.getvalue()
    assert f"{BACKEND}#p0" in file.getvalue()


def test_a_terminal_without_rich_is_told_how_to_install_it(
    made: Ledger, use_terminal: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal()
    monkeypatch.delitem(sys.modules, "tonnage.cli.overviews.top_table")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(errors.ConfigurationError, match=r"needs rich; .*install"):
        made.run("top --updates 1")


@pytest.mark.parametrize(("width", "height"), [(1, 1), (5, 2), (20, 5), (80, 24), (400, 200)])
def test_a_terminal_of_any_size_shows_no_more_than_it_has_lines(made: Ledger, width: int, height: int) -> None:
    made.world.create(*[1] * 8)
    file = io.StringIO()
    with Screen(Console(file=file, width=width, height=height, force_terminal=True, color_system=None)) as screen:
        screen.show(top.take(made.world.database, 60))
        drawn = file.getvalue().rpartition("\x1b[H")[2]
        assert len(drawn.splitlines()) == height
        screen.fail("the database is away")


def test_names_are_neither_markup_nor_commands_of_the_terminal(made: Ledger) -> None:
    snapshot = top.take(made.world.database, 60)
    name = "[/red]<script>\x1b[2J\n"
    [pool, *others] = snapshot.pools
    for refusal in snapshot.refusals:
        refusal.message = name
    snapshot = dataclasses.replace(
        snapshot,
        pools=[pool._replace(pool=pool.pool._replace(name=name)), *others],
        claims=[claim._replace(pool=name) for claim in snapshot.claims],
    )
    text = shown(snapshot)
    assert text.count("[/red]<script>\\x1b[2J\\n") == 3
    assert "\x1b" not in text


def test_an_infinite_capacity_has_no_share(made: Ledger) -> None:
    [row, *_] = top.take(made.world.database, 60).pools
    infinite = row._replace(pool=row.pool._replace(total_gb=math.inf, free_gb=math.inf, virtual_limit_gb=math.inf))
    assert top.shares(infinite) == (None, 0.0)
    assert top.shares(row._replace(pool=row.pool._replace(total_gb=None)))[0] is None
    assert top.shares(row._replace(pool=row.pool._replace(total_gb=0.0)))[0] is None


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    """The two ends of a terminal: the one of the user, and the one of the program."""
    user, program = pty.openpty()
    with os.fdopen(program) as stream:
        yield user, stream
    os.close(user)


def test_keys_are_read_one_by_one_and_the_terminal_is_left_as_it_was(terminal: tuple[int, TextIO]) -> None:
    user, stream = terminal
    before = termios.tcgetattr(stream)
    with Keys(stream) as keys:
        os.write(user, b"xq\x1b[B\x1bOA\x1b[6~ \x1b[1;5C")
        assert keys.read(30) == ["q", "down", "up", "page down", "space"]
        assert keys.read(0) == []
    assert termios.tcgetattr(stream) == before


def test_without_a_terminal_there_are_no_keys() -> None:
    with Keys(io.StringIO("q")) as keys:
        assert keys.read(0) == []


def test_keys_scroll_update_and_end(made: Ledger, terminal: tuple[int, TextIO]) -> None:
    user, stream = terminal
    file = io.StringIO()
    console = Console(file=file, width=160, height=_LITTLE, force_terminal=True, color_system=None)
    with Screen(console, Keys(stream)) as screen:
        screen.show(top.take(made.world.database, 60))
        assert "1 pool(s) more are less full, or down" in file.getvalue()
        os.write(user, b"jjjjk ")
        assert screen.wait(30)
        assert "1 pool(s) are fuller; 0 pool(s) more are less full" not in file.getvalue()
        os.write(user, b"\x1b[6~")
        assert screen.wait(1)
        assert "1 pool(s) are fuller" in file.getvalue()
        os.write(user, b"q")
        assert not screen.wait(30)
        assert screen.wait(0)


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    made: Ledger, use_terminal: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal()
    for kind in ("dumb", "unknown", ""):
        monkeypatch.setenv("TERM", kind)
        assert "2 of 2 pool(s) up" in made.run("top --updates 1")


class Program:
    """The program on a terminal of its own, with a number of columns and lines. A context manager."""

    def __init__(self, folder: pathlib.Path, columns: int, lines: int, *more: str, **environment: str) -> None:
        conf = folder / "tonnage.conf"
        conf.write_text(f"[database]\nconnection = sqlite:///{folder}/tonnage.sqlite\n")
        self.user, program = pty.openpty()
        termios.tcsetwinsize(program, (lines, columns))
        self.before = termios.tcgetattr(program)
        self._program = program
        given = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [TONNAGE, "--config-file", conf, "top", *more],
            stdin=program,
            stdout=program,
            stderr=program,
            env={**given, "TERM": "xterm", **environment},
            start_new_session=True,
        )
        self.output = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.user)
        os.close(self._program)

    def read_until(self, word: bytes) -> None:
        """Read the output until it has a word."""
        while word not in self.output:
            ready, _, _ = select.select([self.user], [], [], 60)
            assert ready, self.output
            self.output += os.read(self.user, 65536)

    def end(self) -> int:
        """Return the exit status. The terminal has to be as before."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None or select.select([self.user], [], [], 0)[0]:
            assert time.monotonic() < deadline, self.output
            if select.select([self.user], [], [], 0.05)[0]:
                self.output += os.read(self.user, 65536)
        assert termios.tcgetattr(self._program) == self.before
        assert self.output.count(b"\x1b[?1049h") == self.output.count(b"\x1b[?1049l") == 1
        assert b"Traceback" not in self.output
        return self.process.returncode


def test_the_program_fills_a_real_terminal_and_leaves_it(made: Ledger, tmp_path: pathlib.Path) -> None:
    with Program(tmp_path, 150, 40, "--updates", "2", "--interval", "0.1", NO_COLOR="1") as program:
        assert program.end() == 0
    assert f"{BACKEND}#p0".encode() in program.output
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", program.output)


def test_q_ends_the_program_on_a_tiny_terminal(made: Ledger, tmp_path: pathlib.Path) -> None:
    with Program(tmp_path, 20, 2, "--interval", "60") as program:
        program.read_until(b"2 of 2")
        os.write(program.user, b"q")
        assert program.end() == 0


def test_a_signal_ends_the_program_and_leaves_the_terminal_as_it_was(made: Ledger, tmp_path: pathlib.Path) -> None:
    with Program(tmp_path, 80, 24, "--interval", "60") as program:
        program.read_until(b"2 of 2")
        program.process.terminate()
        assert program.end() == 128 + signal.SIGTERM
