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
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FORMATS = ("table", "json", "yaml", "value", "csv")

#: A spreadsheet takes a text that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key for programs, and its value in a row.

    A table has the column if it has a ``heading``; there it shows ``text``, which is the value if it is None.
    """

    key: str
    value: Callable[[Any], Any]
    heading: str | None = None
    text: Callable[[Any], str] | None = None

    def cell(self, row: Any) -> str:
        """Return the text in a table."""
        return _printable(_text(self.value(row)) if self.text is None else self.text(row))


def capacity(key: str, gib: Callable[[Any], float | None], heading: str | None = None) -> Column:
    """Return a column of a capacity, from a function that returns it in GiB; None is unknown or infinite."""

    def value(row: Any) -> int | None:
        from tonnage.capacity import units

        found = gib(row)
        return None if found is None or not math.isfinite(found) else round(found * units.GIB)

    def text(row: Any) -> str:
        found = gib(row)
        return "" if found is None else f"{found:,.2f}".rstrip("0").rstrip(".")

    return Column(f"{key}_bytes", value, None if heading is None else f"{heading} GiB", text)


def add_options(parser: argparse.ArgumentParser, columns: Sequence[Column]) -> None:
    """Add the options of the format, the columns and the order."""
    keys = [column.key for column in columns]
    group = parser.add_argument_group("output", f"columns: {', '.join(keys)}")
    group.add_argument("-f", "--format", choices=FORMATS, default="table", help="format (default: table)")
    group.add_argument(
        "-c", "--column", action="append", choices=keys, metavar="COLUMN", help="show this column; can be repeated"
    )
    group.add_argument(
        "--sort-column", action="append", choices=keys, metavar="COLUMN", help="sort by this column; can be repeated"
    )
    group.add_argument("--sort-descending", action="store_true", help="sort from the largest to the smallest")


def show(arguments: argparse.Namespace, columns: Sequence[Column], rows: Iterable[Any], empty: str) -> None:
    """Print rows as the options say. ``empty`` is printed instead of a table without rows."""
    rows = _sorted(list(rows), columns, arguments.sort_column or (), descending=arguments.sort_descending)
    by_key = {column.key: column for column in columns}
    chosen = [by_key[key] for key in arguments.column or ()]
    if arguments.format == "table":
        _show_table(chosen or [column for column in columns if column.heading is not None], rows, empty)
        return
    chosen = chosen or list(columns)
    _WRITERS[arguments.format](
        [column.key for column in chosen], [[_plain(each.value(row)) for each in chosen] for row in rows]
    )


def _sorted(rows: list[Any], columns: Sequence[Column], keys: Sequence[str], *, descending: bool) -> list[Any]:
    """Return the rows in the order of some columns, the first of which counts most; unknown values are last."""
    by_key = {column.key: column for column in columns}
    for key in reversed(keys):
        value = by_key[key].value
        known = [row for row in rows if value(row) is not None]
        rows = sorted(known, key=value, reverse=descending) + [row for row in rows if value(row) is None]
    return rows


def _show_table(columns: Sequence[Column], rows: Sequence[Any], empty: str) -> None:
    if not rows:
        print(empty)
        return
    import prettytable

    table = prettytable.PrettyTable([column.heading or column.key for column in columns])
    table.align = "l"
    for column in columns:
        if column.key.endswith("_bytes"):
            table.align[column.heading or column.key] = "r"
    for row in rows:
        table.add_row([column.cell(row) for column in columns])
    print(table)


def _show_json(keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))


def _show_yaml(keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    import yaml

    print(yaml.safe_dump([dict(zip(keys, row, strict=True)) for row in rows], sort_keys=False), end="")


def _show_values(keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    for row in rows:
        print(*("None" if value is None else _printable(_text(value)) for value in row))


def _show_csv(keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(keys)
    for row in rows:
        writer.writerow([_inert(value) for value in row])


_WRITERS: dict[str, Callable[[Sequence[str], Sequence[Sequence[Any]]], None]] = {
    "json": _show_json,
    "yaml": _show_yaml,
    "value": _show_values,
    "csv": _show_csv,
}


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


def _printable(text: str) -> str:
    """Return a text without control characters, which could command the terminal or break the line."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _inert(value: Any) -> Any:
    """Return a value that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return str(value).lower() if isinstance(value, bool) else value
