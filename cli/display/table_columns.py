# SPDX-License-Identifier: Apache-2.0
"""The columns of tables: a text for people, and a value for programs.

The keys are stable, capacities are bytes as integers, times are in UTC as ISO 8601 has them, and null is unknown,
infinite or none.
"""

import datetime
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"

#: A spreadsheet takes a text that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key for programs, and its value in a row.

    A table has the column if it has a ``heading``; there it shows ``text``, which is the value if it is None, in lines
    of at most ``width`` characters. A terminal shows it in red where ``is_bad``. A column with the key ``""`` is for
    tables alone, and one that ``is_long`` is left out of lists unless they are long.
    """

    key: str
    value: Callable[[Any], Any]
    heading: str | None = None
    text: Callable[[Any], str] | None = None
    width: int | None = None
    is_bad: Callable[[Any], bool] | None = None
    is_long: bool = False

    @property
    def is_amount(self) -> bool:
        """Whether the values are capacities."""
        return self.key.endswith("_bytes")

    @property
    def label(self) -> str:
        """The heading in a table, including columns that a table has on request only."""
        return self.heading or self.key.removesuffix("_bytes").replace("_", " ") + (" GiB" if self.is_amount else "")

    def cell(self, row: Any) -> str:
        """Return the text in a table."""
        text = printable(value_text(self.value(row)) if self.text is None else self.text(row))
        if self.width is not None and len(text) > self.width:
            text = textwrap.fill(text, self.width)
        return f"{_RED}{text}{_PLAIN}" if self.is_bad is not None and self.is_bad(row) and _has_colours() else text

    def plain(self, row: Any) -> Any:
        """Return the value in a form that JSON and YAML can have."""
        return plain(self.value(row))


@dataclass(frozen=True, slots=True)
class Part:
    """A list that belongs to one object: its key for programs, its title, its columns and rows.

    ``empty`` is printed instead of a table without rows; a table has at most ``most`` rows. ``left_out`` is the number
    of rows that are missing in ``rows``, which a table without limit has. ``notes`` are printed below the table.
    """

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]
    empty: str
    most: int | None = None
    left_out: int = 0
    notes: Sequence[str] = ()

    @property
    def total(self) -> int:
        """The number of all rows."""
        return len(self.rows) + self.left_out


def capacity(key: str, gib: Callable[[Any], float | None], heading: str | None = None) -> Column:
    """Return a column of a capacity, from a function that returns it in GiB; None is unknown or infinite."""

    def value(row: Any) -> int | None:
        from tonnage.capacity import units

        amount = gib(row)
        return None if amount is None or not math.isfinite(amount) else round(amount * units.GIB)

    def text(row: Any) -> str:
        amount = gib(row)
        return "" if amount is None else f"{amount:,.2f}".rstrip("0").rstrip(".")

    return Column(f"{key}_bytes", value, None if heading is None else f"{heading} GiB", text)


def headed(columns: Sequence[Column], *, is_long: bool = True) -> list[Column]:
    """Return the columns that a table has if none are chosen."""
    return [column for column in columns if column.heading is not None and (is_long or not column.is_long)]


def sort(rows: list[Any], columns: Sequence[Column], *, descending: bool) -> list[Any]:
    """Return the rows in the order of some columns, the first of which counts most; unknown values are last."""
    for column in reversed(columns):
        rows_with_value = [row for row in rows if column.value(row) is not None]
        unknown = [row for row in rows if column.value(row) is None]
        rows = sorted(rows_with_value, key=column.value, reverse=descending) + unknown
    return rows


def whole(number: float | None) -> int | None:
    """Return the nearest whole number."""
    return None if number is None else round(number)


def age(seconds: float) -> str:
    """Return a time span as a person says it, in its largest unit: ``7 min``."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit or (seconds >= unit and unit == 60):
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds:.0f} s"


def size(gib: float) -> str:
    """Return a capacity in the unit that suits it: ``14.2 TiB``."""
    for factor, name in ((2**20, "PiB"), (2**10, "TiB")):
        if abs(gib) >= factor:
            return f"{gib / factor:.1f} {name}"
    return f"{gib:.2f}".rstrip("0").rstrip(".") + " GiB"


def json_text(value: Any) -> str:
    """Return the cell of an object: its JSON, empty for none."""
    return json.dumps(value) if value else ""


def _has_colours() -> bool:
    """Return whether standard output shows colours: a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plain(value: Any) -> Any:
    """Return a value that each format can have."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    return None if isinstance(value, float) and not math.isfinite(value) else value


def value_text(value: Any) -> str:
    """Return a value as a text for people, empty for None."""
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def yes_or_no(value: bool) -> str:
    """Return a flag as a word."""
    return "yes" if value else "no"


def printable(text: str) -> str:
    """Return a text without control characters, which could command the terminal or break the line."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def inert(value: Any) -> Any:
    """Return a value that commands no terminal, breaks no line, and that no spreadsheet takes for a formula."""
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return str(value).lower() if isinstance(value, bool) else value
