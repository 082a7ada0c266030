# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests."""

from typing import Any

import msgspec
import pytest

from tonnage.api.http import body
from tonnage.api.schemas.fields import Size
from tonnage.capacity import errors


class Volume(msgspec.Struct):
    """A volume."""

    size: Size
    names: list[str] = []


class Body(msgspec.Struct):
    """A body."""

    volume: Volume


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(rb'"\u0000"', True), (rb'"\\u0000"', False), (rb'"\\\u0000"', True), (rb'"\u00000"', True), (rb'"0000"', False)],
)
def test_nul_is_recognized_unless_its_backslash_is_text(raw: bytes, expected: bool) -> None:
    assert body.has_nul(raw) is expected
    assert ("\x00" in msgspec.json.decode(raw)) is expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"volume": {"size": 0}}, "Invalid input for volume.size: 0: expected a whole number of GiB"),
        ({"volume": {"size": 1, "names": ["a", 7]}}, r"Invalid input for volume.names\[1\]: 7: expected str, got int"),
        ({"volume": {}}, "Invalid input for volume: object missing required field size"),
        ({}, "Invalid input: object missing required field volume"),
        ({"volume": {"size": "x" * 99}}, r"Invalid input for volume.size: \"x{59}\.\.\.: "),
    ],
)
def test_the_error_names_the_field_and_its_value(data: Any, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        body.convert(data, Body)


def test_a_body_names_one_known_action() -> None:
    assert body.only_key({"extend": {"size": 1}}, ["extend", "retype"]) == ("extend", {"size": 1})
    with pytest.raises(errors.InvalidInput, match="the body names 2 actions: expected exactly one"):
        body.only_key({"extend": {}, "retype": {}}, ["extend", "retype"])
    with pytest.raises(errors.InvalidInput, match="no such action: fly"):
        body.only_key({"fly": {}}, ["retype", "extend"])
