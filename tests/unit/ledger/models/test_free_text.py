# SPDX-License-Identifier: Apache-2.0
"""Texts for people, and the parts of them that are stored."""

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from tonnage.ledger.models import base, free_text

DIALECT = sqlite.dialect()
ZHE = "\N{CYRILLIC CAPITAL LETTER ZHE}"


@pytest.mark.parametrize(
    ("length", "text", "stored"),
    [
        (None, None, None),
        (None, ZHE, ZHE),
        (None, "a\0\udcff", "a??"),
        (None, "x" * 70_000, "x" * 65_535),
        (None, ZHE * 40_000, ZHE * 32_767),
        (5, ZHE * 6, ZHE * 5),
    ],
)
def test_a_text_is_made_to_fit(length: int | None, text: str | None, stored: str | None) -> None:
    assert free_text.FreeText(length).process_bind_param(text, DIALECT) == stored


def test_a_table_that_takes_only_ascii_gets_escapes() -> None:
    with free_text.only_ascii():
        assert free_text.FreeText().process_bind_param(f"a{ZHE}", DIALECT) == r"a\u0416"
        assert free_text.FreeText(3).process_bind_param(ZHE, DIALECT) == r"\u0"
        assert (free_text.is_storable("a"), free_text.is_storable(ZHE)) == (True, False)
    assert free_text.is_storable(ZHE)
    assert free_text.FreeText().process_bind_param(ZHE, DIALECT) == ZHE


@pytest.mark.parametrize("dialect", [mysql.dialect(), postgresql.dialect(), sqlite.dialect()], ids=lambda it: it.name)
def test_the_column_is_that_of_other_texts(dialect: sa.Dialect) -> None:
    for length in (None, 255):
        exact = base.exact_text(length)
        assert free_text.FreeText(length).compile(dialect) == exact.compile(dialect)
