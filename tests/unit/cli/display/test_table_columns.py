# SPDX-License-Identifier: Apache-2.0
"""Texts of the cells of tables."""

from collections.abc import Callable
from operator import itemgetter

import pytest

from tonnage.cli.display import table_columns
from tonnage.cli.display.table_columns import Column


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min"), (430, "7 min"), (7300, "2 h"), (200000, "2 d")]
)
def test_ages_are_in_their_largest_unit(seconds: float, text: str) -> None:
    assert table_columns.age(seconds) == text


@pytest.mark.parametrize(
    ("gib", "text"), [(0.0, "0 GiB"), (20.5, "20.5 GiB"), (14540.8, "14.2 TiB"), (2**20, "1.0 PiB")]
)
def test_sizes_are_in_the_unit_that_suits_them(gib: float, text: str) -> None:
    assert table_columns.size(gib) == text


def test_red_is_for_terminals_without_no_color(
    use_terminal: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    column = Column("state", itemgetter("state"), "state", is_bad=lambda row: row["state"] == "down")
    assert column.cell({"state": "down"}) == "down"
    use_terminal()
    assert column.cell({"state": "down"}) == "\x1b[31mdown\x1b[0m"
    assert column.cell({"state": "up"}) == "up"
    monkeypatch.setenv("NO_COLOR", "1")
    assert column.cell({"state": "down"}) == "down"


def test_a_long_text_has_several_lines() -> None:
    column = Column("because", itemgetter("because"), "because", width=12)
    assert column.cell({"because": "one two three four"}) == "one two\nthree four"
