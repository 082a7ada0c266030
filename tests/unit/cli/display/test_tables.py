# SPDX-License-Identifier: Apache-2.0
"""Tables that commands print beside other text."""

from operator import itemgetter

import pytest

from tonnage.cli.display import tables
from tonnage.cli.display.table_columns import Column, capacity


def test_plain_values_have_words_for_flags_and_nothing_for_none(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(("a_name", "flag", "number"), [("x", True, 1.50), (None, False, None)])
    assert capsys.readouterr().out.splitlines() == [
        "+--------+------+--------+",
        "| a name | flag | number |",
        "+--------+------+--------+",
        "| x      | yes  | 1.5    |",
        "|        | no   |        |",
        "+--------+------+--------+",
    ]


def test_a_table_without_rows_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(("a",), [], empty="There is nothing")
    assert capsys.readouterr().out == "There is nothing\n"


def test_capacities_are_on_the_right_and_columns_without_heading_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = (Column("name", itemgetter("name"), "name"), capacity("free", itemgetter("free"), "free"))
    hidden = Column("hidden", itemgetter("name"))
    tables.show_columns((*columns, hidden), [{"name": "p", "free": None}, {"name": "q", "free": 2048.0}])
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "| name | free GiB |"
    assert shown[4] == "| q    |    2,048 |"
