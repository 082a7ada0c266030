# SPDX-License-Identifier: Apache-2.0
"""Hours of the day in which volumes are moved."""

import datetime

import pytest

from tonnage.extensions.moves.records.hours import Hours


def at(hour: int, minute: int = 0) -> datetime.datetime:
    return datetime.datetime(2030, 1, 2, hour, minute, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "open_hours"),
    [
        ("22-06", {22, 23, 0, 1, 2, 3, 4, 5}),
        ("9-17", set(range(9, 17))),
        ("20-24", {20, 21, 22, 23}),
        ("0-24", set(range(24))),
        ("7-7", set(range(24))),
        ("", set(range(24))),
    ],
)
def test_hours_may_go_over_midnight(text: str, open_hours: set[int]) -> None:
    hours = Hours.parse(text)
    assert {hour for hour in range(24) if hours.is_open(at(hour, 59))} == open_hours


@pytest.mark.parametrize("text", ["night", "22", "22-25", "24-3", "-1-3", "22-06 ", "٢٢-٠٦"])
def test_other_texts_are_no_hours(text: str) -> None:
    with pytest.raises(ValueError, match="expected two hours of the day such as 22-06"):
        Hours.parse(text)


def test_the_time_since_the_hours_began_may_be_that_of_yesterday() -> None:
    hours = Hours.parse("22-06")
    assert hours.seconds_open(at(22, 30)) == 1800
    assert hours.seconds_open(at(1)) == 3 * 3600
    assert hours.seconds_open(at(7)) == 0
    assert Hours.parse("").seconds_open(at(1)) is None
