# SPDX-License-Identifier: Apache-2.0
"""Suggestions for names that do not exist."""

import pytest

from tonnage.capacity.pools import name_suggestions

NAMES = ["host@lvm", "host@nfs#fast", "host@nfs#slow"]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("hots@lvm", "did you mean host@lvm?"),
        ("lvn", "did you mean host@lvm?"),
        ("fsat", "did you mean host@nfs#fast?"),
        ("host@nfs#fats", "did you mean host@nfs#fast, host@nfs#slow?"),
        ("elsewhere", "look at the list"),
    ],
)
def test_similar_names_come_before_the_list(text: str, advice: str) -> None:
    assert name_suggestions.advice(text, NAMES, "look at the list") == advice


def test_a_text_has_five_names() -> None:
    assert name_suggestions.listed([*"abcdefg"]) == "a, b, c, d, e and 2 more"
