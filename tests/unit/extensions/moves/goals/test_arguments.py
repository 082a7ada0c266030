# SPDX-License-Identifier: Apache-2.0
"""The arguments of goals."""

from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.moves.goals import arguments
from tonnage.extensions.moves.goals.arguments import Argument, Number, Percent, Text, Texts, Whole, Word

_POOL = Text(name="pool", summary="the pool")
_ZONE = Text(name="zone", summary="the zone", default="")
_POOLS = Texts(name="pools", summary="the pools")
_BELOW = Percent(name="below", summary="the share")
_COUNT = Whole(name="count", summary="so many", most=5, default=1)
_BOUND = Word(name="bound", summary="the bound", words=("physical", "promised"), default="physical")


def test_arguments_are_read_with_their_defaults() -> None:
    declared = (_POOL, _ZONE, _POOLS, _BELOW, _COUNT, _BOUND)
    assert arguments.read_all(declared, {"pool": "p", "below": 80, "count": 2.0}) == {
        "pool": "p",
        "zone": "",
        "pools": (),
        "below": 80,
        "count": 2,
        "bound": "physical",
    }
    assert arguments.read_all([_ZONE, _POOLS], {"zone": "", "pools": ["a"]}) == {"zone": "", "pools": ["a"]}


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        (_POOL, None, "pool is None: expected a text"),
        (_POOL, "", "pool is '': expected a text"),
        (_ZONE, None, "zone is None: expected a text"),
        (_POOLS, "a", "pools is 'a': expected a list of texts"),
        (_POOLS, ["a", ""], r"pools is \['a', ''\]: expected a list of texts"),
        (Number(name="n", summary="", least=8), 7, "n is 7: expected a number of at least 8"),
        (_BELOW, True, "below is True: expected a number from 0 to 100"),
        (_BELOW, 100.5, r"below is 100\.5: expected a number from 0 to 100"),
        (_COUNT, 1.5, r"count is 1\.5: expected a whole number from 1 to 5"),
        (_COUNT, float("inf"), "count is inf: expected a whole number from 1 to 5"),
        (Whole(name="n", summary=""), float("inf"), "n is inf: expected a whole number of at least 1"),
        (_BOUND, "", "bound is '': expected physical or promised"),
    ],
)
def test_a_wrong_value_is_named(argument: Argument, value: Any, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^{message}$"):
        arguments.read_all([argument], {argument.name: value})


def test_what_is_not_declared_is_named() -> None:
    with pytest.raises(errors.InvalidInput, match=r"^the goal has no argument below, count: it takes "):
        arguments.read_all([_ZONE], {"count": 1, "below": 2, "zone": "nova"})


@pytest.mark.parametrize(
    ("argument", "text", "value"),
    [
        (_POOL, "h@b#p", "h@b#p"),
        (_POOLS, "h@b#p", ["h@b#p"]),
        (_BELOW, "79.5", 79.5),
        (_COUNT, "3", 3),
        (_BOUND, "promised", "promised"),
    ],
)
def test_a_text_is_parsed(argument: Argument, text: str, value: Any) -> None:
    assert argument.parse(text) == value


@pytest.mark.parametrize(
    ("argument", "text", "message"),
    [
        (_ZONE, " ", "' ': expected a text"),
        (_BELOW, "many", "'many': expected a number from 0 to 100"),
        (_BELOW, "nan", "'nan': expected a number from 0 to 100"),
        (_COUNT, "1.5", r"'1\.5': expected a whole number from 1 to 5"),
        (_BOUND, "none", "'none': expected physical or promised"),
    ],
)
def test_a_wrong_text_is_named(argument: Argument, text: str, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^{message}$"):
        argument.parse(text)


def test_options_have_hyphens_or_a_name_of_their_own() -> None:
    assert Text(name="volume_type", summary="", option="type").option_name == "type"
    assert Whole(name="most_moves", summary="").option_name == "most-moves"
    assert [argument.metavar for argument in (_POOL, _BELOW, _COUNT, _BOUND)] == [
        "NAME",
        "PERCENT",
        "N",
        "physical|promised",
    ]
