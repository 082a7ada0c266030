# SPDX-License-Identifier: Apache-2.0
"""Texts about errors of plugins: always one short line that can be printed, stored and sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity import plugin_errors


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (KeyError("media"), "KeyError: 'media'"),
        (LookupError(), "LookupError"),
        (SystemExit(2), "SystemExit: 2"),
        (RuntimeError("two\n   lines\tand a bell\a"), "RuntimeError: two lines and a bell"),
        (Speechless(), "Speechless, whose message cannot be shown"),
    ],
)
def test_an_exception_is_described_in_one_line(error: BaseException, words: str) -> None:
    assert plugin_errors.described(error) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "a NoneType"),
        ([True], "a list"),
        (np.ones(3), "an array of float64 of shape (3,)"),
        (np.ma.masked_array([1.0], mask=[True]), "a MaskedArray"),
        (np.True_, "a bool"),
    ],
)
def test_a_value_is_described_by_its_type(value: object, words: str) -> None:
    assert plugin_errors.type_text(value) == words


@given(st.text(st.characters(), max_size=2000), st.integers(1, 500))
def test_a_line_is_short_and_can_be_stored_and_sent(text: str, most: int) -> None:
    line = plugin_errors.one_line(text, most)
    assert len(line) <= most
    assert line.isprintable()
    assert line.encode().decode() == line
    assert plugin_errors.one_line(line, most) == line


def test_a_short_printable_line_is_unchanged() -> None:
    assert plugin_errors.one_line("reports media 'größe', which has to be  'x'") == (
        "reports media 'größe', which has to be  'x'"
    )
