# SPDX-License-Identifier: Apache-2.0
"""Mappings in the filters of clients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity import errors
from tonnage.ledger.catalog import filter_values

TEXTS = st.text(st.characters(exclude_characters="'\"\\\n\r\0", exclude_categories=("Cs",)))


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_a_dictionary_of_texts_is_parsed_as_python_prints_it(mapping: dict[str, str]) -> None:
    text = "{" + ", ".join(f"'{key}': \"{value}\"" for key, value in mapping.items()) + "}"
    assert filter_values.parse(text, "metadata") == mapping


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{'a'}",
        "{'a': 1}",
        "{a: 'b'}",
        "['a']",
        "{'a': 'b',}",
        "{'a': 'b'} ",
        "{'a': '\\x41'}",
        "{'a': '\0'}",
        "{'a': 'b'",
    ],
)
def test_anything_else_is_refused_with_the_name_of_the_filter(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^metadata is .*: expected \{'key': 'value'\}"):
        filter_values.parse(text, "metadata")


def test_the_number_of_pairs_is_limited() -> None:
    def text(count: int) -> str:
        return "{" + ", ".join(f"'{number}': ''" for number in range(count)) + "}"

    assert len(filter_values.parse(text(filter_values.MAX_PAIRS), "metadata")) == filter_values.MAX_PAIRS
    with pytest.raises(errors.InvalidInput) as caught:
        filter_values.parse(text(filter_values.MAX_PAIRS + 1), "metadata")
    assert len(caught.value.message) < 200
