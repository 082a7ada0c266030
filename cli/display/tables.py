# SPDX-License-Identifier: Apache-2.0
"""Tables that a command prints beside other text, with cliff's formatter."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cliff.formatters.table import TableFormatter

from tonnage.cli.display.table_columns import Column, headed, yes_or_no

if TYPE_CHECKING:
    import prettytable

#: The options of the formatter: tables keep their width on a narrow terminal too.
_OPTIONS = argparse.Namespace(print_empty=True, max_width=0, fit_width=False)


class Amount(str):
    """The text of a capacity, which a table aligns on the right."""

    __slots__ = ()


class Formatter(TableFormatter):
    """cliff's formatter of tables, with capacities on the right."""

    def add_rows(
        self, table: "prettytable.PrettyTable", column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> None:
        """Add rows of texts, which need none of the conversions of cliff."""
        rows = [list(row) for row in data]
        for name, text in zip(column_names, rows[0] if rows else (), strict=False):
            table.align[name] = "r" if isinstance(text, Amount) else "l"
        table.add_rows(rows)


def cells(columns: Sequence[Column], row: object) -> list[str]:
    """Return the texts of a row."""
    return [Amount(column.cell(row)) if column.is_amount else column.cell(row) for column in columns]


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str = "") -> None:
    """Print rows of plain values. ``empty`` is printed instead of a table without rows."""
    _print([name.replace("_", " ") for name in columns], [[_text(value) for value in row] for row in rows], empty)


def show_columns(columns: Sequence[Column], rows: Sequence[object], *, empty: str = "") -> None:
    """Print the columns that have a heading. ``empty`` is printed instead of a table without rows."""
    columns = headed(columns)
    _print([column.label for column in columns], [cells(columns, row) for row in rows], empty)


def _print(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    if rows:
        Formatter().emit_list(headings, rows, sys.stdout, _OPTIONS)
    else:
        print(empty)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return yes_or_no(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
