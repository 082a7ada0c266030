# SPDX-License-Identifier: Apache-2.0
"""Which items leave together, and when, by a clock that the test moves."""

import pytest

from tonnage import coalescer
from tonnage.coalescer import Coalescer, Turn


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def begin(items: Coalescer[int]) -> Turn[int]:
    turn = items.begin()
    assert turn is not None
    return turn


def test_a_lone_item_leaves_at_once_and_so_does_the_next_one(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(clock=clock)
    for number in range(3):
        assert items.add(number)
        assert items.pause() == 0.0
        turn = begin(items)
        clock.seconds += 5.0
        items.end(turn)
        assert turn.items == [number]
    assert items.pause() is None
    assert items.is_idle
    assert not items.is_resting


def test_items_that_arrive_during_a_turn_leave_together_in_order(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(batch_size=3, clock=clock)
    items.add(0)
    turn = begin(items)
    assert [items.add(number) for number in (1, 2, 3, 4)] == [True, False, True, False], "the first, and a full batch"
    assert items.begin() is None
    items.end(turn)
    assert begin(items).items == [1, 2, 3]
    assert items.waiting == 1


def test_after_a_turn_with_several_items_there_is_a_rest_which_a_full_batch_ends(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(batch_size=4, clock=clock)
    items.add(1, 2, 3)
    turn = begin(items)
    clock.seconds += 0.0625
    items.end(turn)
    assert items.is_resting
    items.add(4)
    assert items.pause() == 0.125
    assert items.begin() is None
    items.add(5, 6, 7)
    assert begin(items).items == [4, 5, 6, 7]


def test_a_rest_ends_by_itself_and_does_not_begin_without_rests(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(clock=clock)
    for is_over in (lambda: setattr(clock, "seconds", clock.seconds + 0.25), lambda: setattr(items, "rests", False)):
        items.add(1, 2, 3)
        turn = begin(items)
        clock.seconds += 10.0
        items.end(turn)
        items.add(4)
        assert items.begin() is None
        is_over()
        items.end(begin(items))


def test_a_turn_has_a_batch_for_each_destination_in_the_order_of_their_first_items(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(batch_size=2, clock=clock)
    items.add(1, 2, 3, destination="b")
    items.add(4, destination="a")
    items.add(destination="c")
    turn = begin(items)
    assert list(turn.batches.items()) == [("b", [1, 2]), ("a", [4]), ("c", [])]
    items.end(turn)
    items.add(5, destination="a")
    assert list(begin(items).batches.items()) == [("b", [3]), ("a", [5])]


def test_a_turn_is_filled_with_items_that_arrive_before_its_call(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(batch_size=3, clock=clock)
    items.add(1)
    turn = begin(items)
    items.add(2, 3, 4)
    items.add(5, destination="other")
    items.fill(turn)
    assert turn.batches == {"": [1, 2, 3], "other": [5]}
    assert turn.items == [1, 2, 3, 5]
    assert items.waiting == 1


def test_a_turn_that_does_not_end_keeps_others_only_for_a_moment(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(max_in_flight=2, patience=1.0, clock=clock)
    for number in range(2):
        items.add(number)
        begin(items)
        clock.seconds += 0.25
    items.add(2)
    assert items.pause() == 0.5
    clock.seconds += 0.5
    assert begin(items).items == [2]


def test_an_item_that_has_waited_for_long_leaves_in_any_case(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(batch_size=1, patience=1.0, rests=False, clock=clock)
    items.add(0)
    turn = begin(items)
    items.add(1, 2)
    clock.seconds += 0.75
    items.end(turn)
    assert begin(items).items == [1]
    assert items.pause() == 0.25
    clock.seconds += 0.25
    assert begin(items).items == [2]


def test_items_that_are_cleared_do_not_leave(clock: Clock) -> None:
    items: Coalescer[int] = Coalescer(clock=clock)
    items.add(1, 2)
    items.add(3, destination="other")
    assert items.clear() == [1, 2, 3]
    assert items.begin() is None


def test_the_rest_after_a_turn_grows_with_the_items_and_ends() -> None:
    assert [coalescer.rest_after(items, 0.01) for items in (0, 1, 2, 5, 10, 1000)] == pytest.approx(
        [0.0, 0.0, 0.01, 0.04, 0.09, 0.09]
    )
    assert coalescer.rest_after(3, 60.0) == pytest.approx(0.25)
