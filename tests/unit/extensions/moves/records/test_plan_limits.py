# SPDX-License-Identifier: Apache-2.0
"""The limits of the execution of plans."""

from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.moves.records.plan_limits import Limits, Load, Slots

A, B, C = "h@a#1", "h@b#1", "h@c#1"


def test_a_plan_may_have_other_limits_than_the_options() -> None:
    assert Limits(moves=5).changed({"moves_per_backend": 1, "hours": "22-06"}) == Limits(
        moves=5, moves_per_backend=1, hours="22-06"
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("moves", 0, "moves is 0: expected a whole number from 1 to 2147483647"),
        ("moves", True, "moves is True: expected a whole number"),
        ("failures", "3", "failures is '3': expected a whole number"),
        ("in_flight_gb", -1, "in_flight_gb is -1: expected a whole number from 0"),
        ("moves", 2**31, "expected a whole number from 1 to 2147483647"),
        ("hours", "night", "hours is 'night': expected two hours"),
        ("hours", 5, "hours is 5: expected a text"),
        ("speed", 5, "plans have no limit speed: expected failures, hours, in_flight_gb, moves, moves_per_backend"),
    ],
)
def test_other_values_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        Limits().changed({name: value})


def test_moves_count_for_both_backends_and_in_all() -> None:
    slots = Slots(Limits(moves_per_backend=1, moves=2), [Load(A, B, 5)])
    assert not slots.allow(Load(C, A, 1))
    assert not slots.allow(Load("h@a#2", C, 1))
    assert slots.allow(Load(C, "h@d#1", 1))
    slots.take(Load(C, "h@d#1", 1))
    assert not slots.allow(Load("h@e#1", "h@f#1", 1))


def test_a_move_within_a_backend_counts_once() -> None:
    assert Slots(Limits(moves_per_backend=2), [Load("h@a#1", "h@a#2", 5)]).allow(Load(A, B, 1))


def test_a_volume_that_is_larger_than_the_limit_moves_alone() -> None:
    limits = Limits(moves_per_backend=9, in_flight_gb=10)
    assert Slots(limits, []).allow(Load(A, B, 11))
    assert not Slots(limits, [Load(A, B, 1)]).allow(Load(A, B, 10))
    assert Slots(limits, [Load(A, B, 1)]).allow(Load(A, B, 9))
