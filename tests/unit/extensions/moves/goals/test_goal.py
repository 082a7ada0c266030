# SPDX-License-Identifier: Apache-2.0
"""The arguments of goals."""

from collections.abc import Callable
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.moves.goals.goal import Arguments


def test_arguments_are_read_with_their_defaults() -> None:
    arguments = Arguments({"pool": "p", "below": 80, "count": 2, "pools": ["a"]})
    assert arguments.text("pool") == "p"
    assert arguments.number("below", most=100) == 80.0
    assert arguments.whole("count", most=5) == 2
    assert arguments.texts("pools") == ["a"]
    assert (arguments.texts("others"), arguments.word("bound", ("physical",), "physical")) == ([], "physical")
    arguments.end()


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda arguments: arguments.text("none"), "none is None: expected a text"),
        (lambda arguments: arguments.text("empty"), "empty is '': expected a text"),
        (lambda arguments: arguments.texts("number"), "number is 7: expected a list of texts"),
        (lambda arguments: arguments.number("number", least=8), "number is 7: expected a number of at least 8"),
        (lambda arguments: arguments.number("empty"), "empty is '': expected a number of at least 0"),
        (lambda arguments: arguments.whole("half", most=9), r"half is 1\.5: expected a whole number"),
        (lambda arguments: arguments.word("empty", ("a", "b"), "a"), "empty is '': expected a or b"),
        (lambda arguments: arguments.end(), "the goal has no argument empty, half, number"),
    ],
)
def test_wrong_arguments_are_named_with_their_value(read: Callable[[Arguments], Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^{message}$"):
        read(Arguments({"number": 7, "empty": "", "half": 1.5}))
