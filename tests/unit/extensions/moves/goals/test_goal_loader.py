# SPDX-License-Identifier: Apache-2.0
"""The loader of goals."""

import pytest

from tonnage.capacity import errors
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.goals.empty import Empty


def test_a_goal_is_found_by_its_entry_point() -> None:
    assert isinstance(goal_loader.load("empty", {"target": "h@b"}), Empty)


def test_an_unknown_goal_is_named_with_those_that_there_are() -> None:
    with pytest.raises(errors.InvalidInput, match=r"^goal is 'x': expected balance, empty, fit, relieve$"):
        goal_loader.load("x", {})


def test_the_errors_of_arguments_name_the_goal() -> None:
    with pytest.raises(errors.InvalidInput, match=r"^goal empty: target is missing: expected a text$"):
        goal_loader.load("empty", {})
