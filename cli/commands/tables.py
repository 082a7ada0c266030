# SPDX-License-Identifier: Apache-2.0
"""What commands print: a table for a person, JSON for a program."""

import json
from collections.abc import Sequence
from typing import Any

import prettytable


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool, empty: str) -> None:
    """Print rows; ``empty`` is what a person is told if there are none."""
    if as_json:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
        return
    if not rows:
        print(empty)
        return
    table = prettytable.PrettyTable([column.replace("_", " ") for column in columns])
    table.align = "l"
    for row in rows:
        table.add_row([_cell(value) for value in row])
    print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
