# SPDX-License-Identifier: Apache-2.0
"""The screen of ``tonnage top``, made with rich, which also respects ``NO_COLOR``."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tonnage.cli.overviews import formats, top
from tonnage.cli.overviews.pools import PoolRow
from tonnage.cli.overviews.top import Snapshot
from tonnage.cli.overviews.top_keys import Keys

#: Characters of a bar on a wide terminal.
_WIDTH = 20

#: Columns that a narrow terminal leaves out, the first one first.
_LEAVE_OUT_FIRST = ("in flight", "virtual left", "physical left")

#: More columns of characters than any table has.
_WIDE = 10_000

#: Shares from which on a bar is yellow, and red.
_MUCH, _FULL = 0.85, 0.95

#: Lines of the screen besides the rows of its tables: the header, the headings, the blank lines and the keys.
_FIXED = 11

#: Most operations on the screen.
_CLAIMS = 5

#: Seconds until the screen has the new size of a terminal.
_RESIZE_SECONDS = 0.5

_KEYS = "q ends, space updates now, up and down scroll"


class Screen:
    """The whole terminal. It shows snapshots until it is left. A failure is shown above the last snapshot."""

    def __init__(self, console: Console | None = None, keys: Keys | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keys = keys or Keys()
        self._last: Snapshot | None = None
        self._failure: str | None = None
        self._first = 0
        self._drawn = self._console.size

    def __enter__(self) -> Self:
        self._occupy()
        signal.signal(signal.SIGTERM, _end)
        signal.signal(signal.SIGTSTP, self._stop)
        return self

    def __exit__(self, *error: object) -> None:
        for number in (signal.SIGTERM, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        self._leave()

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self._last, self._failure = snapshot, None
        self._draw()

    def fail(self, message: str) -> None:
        """Show why there is no newer snapshot, with the last one."""
        self._failure = message
        self._draw()

    def wait(self, seconds: float) -> bool:
        """Follow the keys until the next update is due. Return False if the user has ended it."""
        due = time.monotonic() + seconds
        while (left := due - time.monotonic()) > 0:
            pressed = self._keys.read(min(left, _RESIZE_SECONDS))
            if "q" in pressed:
                return False
            if "space" in pressed:
                return True
            if pressed:
                self._scroll(pressed)
            elif self._console.size != self._drawn:
                self._draw()
        return True

    def _scroll(self, pressed: Sequence[str]) -> None:
        page = max(1, self._console.height // 2)
        steps = {"up": -1, "down": 1, "page up": -page, "page down": page}
        pools = 0 if self._last is None else len(self._last.pools)
        self._first = min(max(0, self._first + sum(steps[key] for key in pressed)), max(0, pools - 1))
        self._draw()

    def _draw(self) -> None:
        self._drawn = self._console.size
        height = self._drawn.height
        shown: list[RenderableType] = []
        if self._failure is not None:
            shown.append(Text(formats.printable(f"{self._failure}; tried again soon"), "bold red"))
            height -= 1
        if self._last is not None:
            shown.append(render(self._last, height, self._first))
        self._live.update(Group(*shown), refresh=True)

    def _occupy(self) -> None:
        self._live.start()
        self._keys.__enter__()

    def _leave(self) -> None:
        self._keys.__exit__()
        self._live.stop()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Give the terminal to the shell for as long as Ctrl-Z stops the process."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._occupy()
        self._draw()


def _end(number: int, frame: FrameType | None) -> None:
    """End the process so that the terminal is left as it was."""
    sys.exit(128 + number)


def render(snapshot: Snapshot, height: int, first: int = 0) -> RenderableType:
    """Return the screen of a terminal with so many lines, from the pool with the index ``first`` on.

    A small screen has fewer refusals and operations, and the terminal cuts off the rest.
    """
    claims, refusals = snapshot.claims[: min(_CLAIMS, height // 6)], snapshot.refusals[: height // 6]
    room = max(1, height - _FIXED - len(claims) - len(refusals))
    first = min(first, max(0, len(snapshot.pools) - room))
    shown = snapshot.pools[first : first + room]
    left_out = len(snapshot.pools) - len(shown)
    parts: list[RenderableType] = [_line(snapshot.line(), "bold"), Text(), _PoolTable(shown)]
    if left_out:
        above = f"{first} pool(s) are fuller; " if first else ""
        parts.append(_line(f"{above}{left_out - first} pool(s) more are less full, or down"))
    if claims:
        table = _table("operation", "state", "volume", "pool", "GiB", "age")
        for claim in claims:
            cells = (claim.verb, claim.state, claim.volume_id, claim.pool, str(claim.size_gb), formats.age(claim.age))
            table.add_row(*map(_text, cells))
        parts += [Text(), table]
        if len(snapshot.claims) > len(claims):
            parts.append(_line(f"{len(snapshot.claims) - len(claims)} operation(s) more are younger"))
    if refusals:
        table = _table("refused at (UTC)", "code")
        table.expand = True
        table.add_column("message", no_wrap=True, overflow="ellipsis", ratio=1)
        for refusal in refusals:
            table.add_row(*map(_text, (f"{refusal.refused_at:%m-%d %H:%M:%S}", refusal.code, refusal.message)))
        parts += [Text(), table]
    return Group(*parts, Text(), _line(_KEYS, "dim"))


class _PoolTable:
    """The table of pools. It has no figure that is cut off: a narrow terminal has shorter bars, then fewer columns."""

    def __init__(self, rows: Sequence[PoolRow]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table with the longest bars and the most columns that fit."""
        layouts = [(width, len(_LEAVE_OUT_FIRST)) for width in (_WIDTH, 10, 5)]
        layouts += [(5, kept) for kept in reversed(range(len(_LEAVE_OUT_FIRST)))]
        for width, kept in layouts:
            table = _pools(self._rows, width, set(_LEAVE_OUT_FIRST[len(_LEAVE_OUT_FIRST) - kept :]))
            if Measurement.get(console, options.update(max_width=_WIDE), table).maximum <= options.max_width:
                break
        yield table


def _pools(rows: Sequence[PoolRow], width: int, kept: set[str]) -> Table:
    """Return the table of pools with bars of ``width`` characters, of the columns to leave out with those ``kept``."""
    columns: dict[str, Callable[[PoolRow], Text]] = {
        "pool": lambda row: _text(row.pool.name),
        "physical": lambda row: _bar(top.shares(row)[0], width),
        "promised": lambda row: _bar(top.shares(row)[1], width),
        "in flight": lambda row: _text(formats.size(row.pool.in_flight_gb)),
        "physical left": lambda row: _text(_size(row.physical_left_gb)),
        "virtual left": lambda row: _text(_size(row.virtual_left_gb)),
        "state": lambda row: _text(row.state(), "" if row.up else "red"),
    }
    shown = [name for name in columns if name in kept or name not in _LEAVE_OUT_FIRST]
    table = _table(*shown)
    for row in rows:
        table.add_row(*(columns[name](row) for name in shown))
    return table


def _table(*headings: str) -> Table:
    """Return a table without borders, whose rows are one line each."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    return table


def _text(text: str, style: str = "") -> Text:
    """Return a text that is neither markup nor a command for the terminal."""
    return Text(formats.printable(text), style)


def _line(text: str, style: str = "") -> Text:
    return Text(formats.printable(text), style, no_wrap=True, overflow="ellipsis")


def _bar(share: float | None, width: int) -> Text:
    """Return a bar with the share in percent: a reader without colours or block characters has the number."""
    if share is None:
        return Text()
    full = round(min(max(share, 0.0), 1.0) * width)
    style = "red" if share >= _FULL else "yellow" if share >= _MUCH else "green"
    return Text.assemble(("\u2588" * full, style), ("\u2591" * (width - full), "dim"), f" {share:4.0%}")


def _size(gib: float | None) -> str:
    return "" if gib is None else formats.size(gib)
