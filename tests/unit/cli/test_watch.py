# SPDX-License-Identifier: Apache-2.0
"""Tests of the repetition of commands."""

from collections.abc import Callable

import pytest

from tonnage.cli import watch


class Pauses:
    """Pauses, of which the last one is interrupted by Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def show() -> int:
    print("a table")
    return 0


def test_outputs_follow_each_other_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    pauses = Pauses(2)
    with pytest.raises(KeyboardInterrupt):
        watch.repeat(show, 5, pauses)
    assert capsys.readouterr().out == "a table\na table\n"
    assert pauses.seconds == [5, 5]


def test_a_terminal_is_cleared_when_the_next_output_is_complete(
    capsys: pytest.CaptureFixture[str], use_terminal: Callable[[], None]
) -> None:
    use_terminal()
    with pytest.raises(KeyboardInterrupt):
        watch.repeat(show, 5, Pauses(1))
    shown = capsys.readouterr().out
    assert shown.startswith("\x1b[H\x1b[2J")
    assert shown.endswith(", every 5 s\na table\n")
