# SPDX-License-Identifier: Apache-2.0
"""Output of commands: a table for people, or JSON for programs."""

import json
from collections.abc import Sequence
from typing import Any

import prettytable


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool, empty: str) -> None:
    """Print rows. ``empty`` is printed instead of a table without rows."""
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
