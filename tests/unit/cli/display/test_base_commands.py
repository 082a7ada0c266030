# SPDX-License-Identifier: Apache-2.0
"""Formats of commands: each has the same keys and values, and names do nothing in a terminal or a spreadsheet."""

import argparse
import csv
import datetime
import io
import json
import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pytest
import yaml

from tests.unit.cli import command_runs
from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, capacity
from tonnage.cli.program import CommandTable, Program

COLUMNS = (
    Column("name", itemgetter("name"), "name"),
    capacity("free", itemgetter("free"), "free"),
    Column("at", itemgetter("at")),
    Column("ratio", itemgetter("ratio")),
    Column("public", itemgetter("public")),
)
MOMENT = datetime.datetime(2030, 1, 2, 3, 4, 5, 678, datetime.UTC)
ROWS = [
    {"name": "b", "free": 1.5, "at": MOMENT, "ratio": 2.0, "public": True},
    {"name": "a", "free": None, "at": None, "ratio": math.inf, "public": False},
    {"name": "c", "free": 2048.0, "at": MOMENT, "ratio": 1.0, "public": True},
]
EXPECTED = [
    {"name": "b", "free_bytes": 1610612736, "at": "2030-01-02T03:04:05Z", "ratio": 2.0, "public": True},
    {"name": "a", "free_bytes": None, "at": None, "ratio": None, "public": False},
    {"name": "c", "free_bytes": 2199023255552, "at": "2030-01-02T03:04:05Z", "ratio": 1.0, "public": True},
]


class Rows(base_commands.Lister):
    """Show the rows that the test has in the place of a configuration."""

    columns = COLUMNS
    empty = "nothing"
    has_json = True

    @classmethod
    def program(cls) -> Program:
        """Return a program with this command."""
        table = CommandTable({}, "commands")
        table.add_command("rows", cls)
        return Program("program", "", "", table)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Any]:
        """Return the rows."""
        return COLUMNS, self.conf


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that returns the output for arguments and rows."""

    def show(arguments: str, rows: list[dict[str, Any]]) -> str:
        assert command_runs.run(Rows.program(), ["rows", *arguments.split()], rows) == 0
        return capsys.readouterr().out

    return show


def test_json_and_yaml_have_bytes_times_in_utc_and_null(shown: Any) -> None:
    assert json.loads(shown("-f json", ROWS)) == EXPECTED
    assert yaml.safe_load(shown("-f yaml", ROWS)) == EXPECTED
    assert json.loads(shown("-f json", [])) == yaml.safe_load(shown("-f yaml", [])) == []
    assert json.loads(shown("--json", ROWS)) == EXPECTED


def test_csv_has_a_header_and_empty_cells(shown: Any) -> None:
    rows = list(csv.reader(io.StringIO(shown("-f csv", ROWS))))
    assert rows[0] == ["name", "free_bytes", "at", "ratio", "public"]
    assert rows[2] == ["a", "", "", "", "false"]


def test_values_are_one_line_for_each_row(shown: Any) -> None:
    assert shown("-f value -c name -c free_bytes", ROWS) == "b 1610612736\na None\nc 2199023255552\n"


def test_a_table_has_headings_and_gib(shown: Any) -> None:
    table = shown("", ROWS)
    assert "| name | free GiB |" in table
    assert "| c    |    2,048 |" in table
    assert "ratio" not in table
    assert "ratio" in shown("-c ratio", ROWS)
    assert shown("", []) == "nothing\n"


def test_rows_are_sorted_with_unknown_values_last(shown: Any) -> None:
    assert shown("-f value -c name --sort-column name", ROWS) == "a\nb\nc\n"
    assert shown("-f value -c name --sort-column free_bytes", ROWS) == "b\nc\na\n"
    assert shown("-f value -c name --sort-column free_bytes --sort-descending", ROWS) == "c\nb\na\n"
    assert shown("-f value -c name --sort-column public --sort-column name", ROWS) == "a\nb\nc\n"


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)"])
def test_a_name_is_no_formula_of_a_spreadsheet(shown: Any, name: str) -> None:
    rows = list(csv.reader(io.StringIO(shown("-f csv -c name", [{**ROWS[0], "name": name}]))))
    assert rows[1] == [f"'{name}"]


@pytest.mark.parametrize("form", ["value", "table", "csv"])
def test_a_name_commands_no_terminal_and_breaks_no_line(shown: Any, form: str) -> None:
    output = shown(f"-f {form} -c name", [{**ROWS[0], "name": "x\x1b[2J\n'<script>\x9b"}])
    assert "\x1b" not in output
    # cliff escapes a backslash in CSV.
    assert "x\\x1b[2J\\n'<script>\\x9b" in output.replace("\\\\", "\\")


def test_an_unknown_column_is_refused(shown: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        shown("-c fre", ROWS)
    assert ended.value.code == 2
    assert "there is no column fre here: the columns are name, free_bytes, at, " in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf"])
def test_a_pause_is_a_number_of_seconds(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = Rows.program()
    with pytest.raises(SystemExit):
        program.parse(["rows", f"--watch={text}"])
    assert "expected a number of seconds" in capsys.readouterr().err
    assert program.parse(["rows", "--watch"])[1].watch == base_commands.WATCH_SECONDS
