# SPDX-License-Identifier: Apache-2.0
"""Two pools that are both full to the brim, and a third with little room: the plan goes through the third."""

from typing import Any

import pytest

from tests.unit.extensions.moves.clouds import Cloud, moves_of


def _cloud(sizes: list[int], *, thin: bool, ratio: float) -> Cloud:
    """Return the pools *a* and *b* without any room, and *c* with 12, in a zone that volumes of *a* do not enter."""
    pools: dict[str, Any] = {"thin": thin, "ratio": ratio, "written": 1.0}
    return (
        Cloud()
        .add("a", sum(sizes), sizes, volume={"requested_zone": "nova"}, **pools)
        .add("b", 100, [10] * 10, **pools)
        .add("c", 12, zone="other", **pools)
    )


@pytest.mark.parametrize(
    ("goal", "arguments", "sizes"),
    [
        ("empty", {"target": "h@a#p"}, [10]),
        ("relieve", {"pool": "h@a#p", "below": 90}, [10] * 10),
        ("relieve", {"pool": "h@a#p", "below": 90, "bound": "promised"}, [10] * 10),
    ],
)
def test_a_volume_takes_the_room_of_one_that_goes_to_the_third(
    goal: str, arguments: dict[str, Any], sizes: list[int]
) -> None:
    plan = _cloud(sizes, thin=False, ratio=1.0).plan(goal, **arguments)
    assert plan.is_reached, plan.outcome
    assert moves_of(plan) == [(10, "b", "c"), (10, "a", "b")]
    assert plan.moves[1].after == (1,)


def test_room_for_a_request_is_made_in_the_third() -> None:
    plan = _cloud([10], thin=False, ratio=1.0).plan("fit", size=10, zone="nova")
    assert plan.is_reached, plan.outcome
    assert moves_of(plan) == [(10, "b", "c")]


def test_a_third_without_room_for_any_volume_does_not_help() -> None:
    cloud = _cloud([10], thin=False, ratio=1.0).add("d", 12, [3], zone="other")
    plan = cloud.plan("fit", size=11, zone="nova")
    assert not plan.is_reached
    assert plan.moves == ()


def test_thin_pools_that_are_written_in_full_exchange_nothing() -> None:
    """How much becomes free by the move of a thin volume is not known, so no other move relies on it."""
    plan = _cloud([10], thin=True, ratio=3.0).plan("empty", target="h@a#p")
    assert not plan.is_reached
    [staying] = plan.staying
    assert staying.reason == "10 GiB thin would go to h@b#p, where a copy of 10 GiB passes a bound: 0.0 GiB are free"
