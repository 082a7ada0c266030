# SPDX-License-Identifier: Apache-2.0
"""Rejections of filters become ones that can be sent, stored and shown."""

import numpy as np
import pytest

from tonnage.capacity.decision import Rejection
from tonnage.filters.reason_validation import checked


def numbers(**values: object) -> dict[str, object]:
    return dict(checked(Rejection("code", "text", values)).numbers)  # type: ignore[arg-type]


def test_a_plain_rejection_stays_as_it_is() -> None:
    rejection = Rejection("no_room", "3 GiB are free", {"free_gb": 3.0, "state": "full", "limit": None})
    assert checked(rejection) == rejection


def test_texts_become_single_lines_of_limited_length() -> None:
    rejection = checked(Rejection("a\nb", "long\t" + "x" * 2000, {"k\n": "v\n"}))
    assert "\n" not in rejection.code + rejection.message + "".join(rejection.numbers)
    assert len(rejection.message) <= 1000


def test_numpy_numbers_become_those_of_python() -> None:
    values = numbers(count=np.int64(3), share=np.float32(0.5), full=np.bool_(True), flag=False)
    assert values == {"count": 3, "share": 0.5, "full": "True", "flag": "False"}
    assert {type(value) for value in values.values()} == {int, float, str}


def test_an_integer_that_no_message_can_hold_becomes_a_float() -> None:
    assert numbers(largest=2**63 - 1, larger=2**63) == {"largest": 2**63 - 1, "larger": 9.223372036854775808e18}
    assert isinstance(numbers(larger=-(2**80))["larger"], float)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (None, "returned a NoneType"),
        ("full", "expected a Rejection"),
        (Rejection(3, "text"), "whose code is"),  # type: ignore[arg-type]
        (Rejection("code", None), "whose message is"),  # type: ignore[arg-type]
        (Rejection("code", "text", [1]), "whose numbers is"),  # type: ignore[arg-type]
        (Rejection("code", "text", {1: 2.0}), "is named by"),  # type: ignore[dict-item]
        (Rejection("code", "text", {"free": [1]}), "one of whose numbers is"),  # type: ignore[dict-item]
    ],
)
def test_anything_else_is_a_defect_of_the_filter(reason: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        checked(reason)
