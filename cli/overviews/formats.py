# SPDX-License-Identifier: Apache-2.0
"""Formats of overviews: a table for people; JSON, YAML, CSV or bare values for programs.

The options have the names of OpenStack's clients. The keys are stable, capacities are bytes as integers, times are in
UTC as ISO 8601 has them, and null is unknown, infinite or none.

The libraries of a format are imported when it is written, so that ``--help`` does not wait for them.
"""

import argparse
import csv
import datetime
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FORMATS = ("table", "json", "yaml", "value", "csv")

#: Seconds between two rounds of ``--watch``: usual, least and most.
WATCH_SECONDS = 2.0
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 86400

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"

#: A spreadsheet takes a text that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key for programs, and its value in a row.

    A table has the column if it has a ``heading``; there it shows ``text``, which is the value if it is None, in lines
    of at most ``width`` characters. A terminal shows it in red where ``is_bad``.
    """

    key: str
    value: Callable[[Any], Any]
    heading: str | None = None
    text: Callable[[Any], str] | None = None
    width: int | None = None
    is_bad: Callable[[Any], bool] | None = None

    @property
    def label(self) -> str:
        """The heading in a table, including columns that a table has on request only."""
        return self.heading or self.key.removesuffix("_bytes").replace("_", " ") + (
            " GiB" if self.key.endswith("_bytes") else ""
        )

    def cell(self, row: Any) -> str:
        """Return the text in a table."""
        text = printable(_text(self.value(row)) if self.text is None else self.text(row))
        return f"{_RED}{text}{_PLAIN}" if self.is_bad is not None and self.is_bad(row) and _has_colours() else text


@dataclass(frozen=True, slots=True)
class Part:
    """A list that belongs to one object: its key for programs, its title, its columns and rows.

    ``empty`` is printed instead of a table without rows; a table has at most ``most`` rows. ``left_out`` is the number
    of rows that are missing in ``rows``, which a table without limit has.
    """

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]
    empty: str
    most: int | None = None
    left_out: int = 0

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


def add_options(parser: argparse.ArgumentParser, columns: Sequence[Column]) -> None:
    """Add the options of the format, the columns and the order."""
    keys = list(dict.fromkeys(column.key for column in columns))
    group = parser.add_argument_group("output", f"columns: {', '.join(keys)}")
    group.add_argument("-f", "--format", choices=FORMATS, default="table", help="format (default: table)")
    group.add_argument(
        "-c", "--column", action="append", choices=keys, metavar="COLUMN", help="show this column; can be repeated"
    )
    group.add_argument(
        "--sort-column", action="append", choices=keys, metavar="COLUMN", help="sort by this column; can be repeated"
    )
    group.add_argument("--sort-descending", action="store_true", help="sort from the largest to the smallest")
    add_watch(group)


def add_options_of_one(parser: argparse.ArgumentParser, columns: Sequence[Column]) -> None:
    """Add the options of the format and the columns for one object."""
    keys = [column.key for column in columns]
    group = parser.add_argument_group("output", f"columns: {', '.join(keys)}")
    group.add_argument("-f", "--format", choices=FORMATS, default="table", help="format (default: table)")
    group.add_argument(
        "-c", "--column", action="append", choices=keys, metavar="COLUMN", help="show this column; can be repeated"
    )
    add_watch(group)


def add_watch(parser: Any) -> None:
    """Add the option to repeat the output."""
    parser.add_argument(
        "--watch",
        nargs="?",
        const=WATCH_SECONDS,
        type=seconds,
        metavar="SECONDS",
        help=f"repeat it until Ctrl-C (default: every {WATCH_SECONDS:g} seconds)",
    )


def seconds(text: str) -> float:
    """Parse the pause between two updates, in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not _LEAST_SECONDS <= number <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a number of seconds from {_LEAST_SECONDS} to {_MOST_SECONDS}"
        )
    return number


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


def show(arguments: argparse.Namespace, columns: Sequence[Column], rows: Iterable[Any], empty: str) -> None:
    """Print rows as the options say. ``empty`` is printed instead of a table without rows."""
    by_key = {column.key: column for column in columns}
    for key in (*(arguments.column or ()), *(arguments.sort_column or ())):
        if key not in by_key:
            from tonnage.cli import setup

            raise setup.UsageError(f"there is no column {key} here: the columns are {', '.join(by_key)}")
    rows = _sorted(list(rows), columns, arguments.sort_column or (), descending=arguments.sort_descending)
    chosen = [by_key[key] for key in arguments.column or ()]
    if arguments.format == "table":
        _show_table(chosen or _headed(columns), rows, empty)
        return
    _write(arguments.format, chosen or columns, rows)


def show_one(arguments: argparse.Namespace, columns: Sequence[Column], row: Any, parts: Sequence[Part]) -> None:
    """Print one object as the options say, with its parts unless the columns are chosen."""
    by_key = {column.key: column for column in columns}
    chosen = [by_key[key] for key in arguments.column or ()]
    parts = () if chosen else parts
    chosen = chosen or list(columns)
    if arguments.format == "table":
        _show_fields(chosen, row)
        for part in parts:
            print(f"\n{part.title}: {part.total if part.rows else part.empty}")
            if part.rows:
                _show_table(_headed(part.columns), part.rows[: part.most], "")
            if part.most is not None and part.total > part.most:
                print(f"{part.total - part.most} more: --rows 0 shows all")
    elif arguments.format in ("json", "yaml"):
        fields = {column.key: _plain(column.value(row)) for column in chosen}
        fields |= {part.key: [_fields(part.columns, part_row) for part_row in part.rows] for part in parts}
        _DUMPERS[arguments.format](fields)
    else:
        _write(arguments.format, chosen, [row])


def _write(form: str, columns: Sequence[Column], rows: Iterable[Any]) -> None:
    if form in _DUMPERS:
        _DUMPERS[form]([_fields(columns, row) for row in rows])
        return
    keys = [column.key for column in columns]
    _WRITERS[form](keys, [[_plain(column.value(row)) for column in columns] for row in rows])


def _fields(columns: Sequence[Column], row: Any) -> dict[str, Any]:
    return {column.key: _plain(column.value(row)) for column in columns}


def _headed(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that a table has if none are chosen."""
    return [column for column in columns if column.heading is not None]


def _sorted(rows: list[Any], columns: Sequence[Column], keys: Sequence[str], *, descending: bool) -> list[Any]:
    """Return the rows in the order of some columns, the first of which counts most; unknown values are last."""
    by_key = {column.key: column for column in columns}
    for key in reversed(keys):
        value = by_key[key].value
        rows_with_value = [row for row in rows if value(row) is not None]
        rows = sorted(rows_with_value, key=value, reverse=descending) + [row for row in rows if value(row) is None]
    return rows


def _show_table(columns: Sequence[Column], rows: Sequence[Any], empty: str) -> None:
    if not rows:
        print(empty)
        return
    import prettytable

    table = prettytable.PrettyTable([column.label for column in columns])
    table.align = "l"
    for column in columns:
        if column.key.endswith("_bytes"):
            table.align[column.label] = "r"
        if column.width is not None:
            table.max_width[column.label] = column.width
    for row in rows:
        table.add_row([column.cell(row) for column in columns])
    print(table)


def _show_fields(columns: Sequence[Column], row: Any) -> None:
    import prettytable

    table = prettytable.PrettyTable(["field", "value"])
    table.align = "l"
    for column in columns:
        if cell := column.cell(row):
            table.add_row([column.label, cell])
        if column.width is not None:
            table.max_width["value"] = column.width
    print(table)


def _has_colours() -> bool:
    """Return whether standard output shows colours: a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _dump_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def _dump_yaml(document: Any) -> None:
    import yaml

    print(yaml.safe_dump(document, sort_keys=False), end="")


def _show_values(keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    for row in rows:
        print(*("None" if value is None else printable(_text(value)) for value in row))


def _show_csv(keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(keys)
    for row in rows:
        writer.writerow([_inert(value) for value in row])


_WRITERS: dict[str, Callable[[Sequence[str], Sequence[Sequence[Any]]], None]] = {
    "value": _show_values,
    "csv": _show_csv,
}

_DUMPERS: dict[str, Callable[[Any], None]] = {"json": _dump_json, "yaml": _dump_yaml}


def _plain(value: Any) -> Any:
    """Return a value that each format can have."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: Any) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return str(plain).lower()
    return f"{plain:g}" if isinstance(plain, float) else str(plain)


def printable(text: str) -> str:
    """Return a text without control characters, which could command the terminal or break the line."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _inert(value: Any) -> Any:
    """Return a value that commands no terminal, breaks no line, and that no spreadsheet takes for a formula."""
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return str(value).lower() if isinstance(value, bool) else value
