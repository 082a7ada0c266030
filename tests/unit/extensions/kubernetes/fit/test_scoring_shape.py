# SPDX-License-Identifier: Apache-2.0
"""Shapes of scores, from their text."""

import pytest

from tonnage.extensions.kubernetes.fit import scoring_shape


def test_shapes_have_a_name_or_points() -> None:
    assert scoring_shape.parse("spread").points == [(0, 10), (100, 0)]
    assert scoring_shape.parse("pack").points == [(0, 0), (100, 10)]
    assert scoring_shape.parse("0:10, 80:5,100:0").points == [(0.0, 10.0), (80.0, 5.0), (100.0, 0.0)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stack", "'stack' is neither spread nor pack, and no point utilization:score"),
        ("", "is neither spread nor pack"),
        ("0:1, x:2", "'x:2' is neither"),
        ("0:11", "a score is 0 to 10"),
        ("0:nan", "a score is 0 to 10"),
        ("0:1, 101:2", "a utilization is 0 to 100"),
        ("50:1, 50:2", "the utilizations have to increase"),
    ],
)
def test_an_invalid_shape_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        scoring_shape.parse(text)
