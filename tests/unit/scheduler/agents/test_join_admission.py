# SPDX-License-Identifier: Apache-2.0
"""Which messages of joining agents are handled, and when the others are to come back."""

import contextlib
from collections.abc import Iterator

import pytest

from tonnage.capacity import errors
from tonnage.scheduler.agents.join_admission import JoinAdmission


class Clock:
    """A clock that stands still unless the test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def admission(clock: Clock) -> JoinAdmission:
    return JoinAdmission(clock)


@contextlib.contextmanager
def in_hand(admission: JoinAdmission, hellos: int, listings: int = 0) -> Iterator[None]:
    """Have so many messages in hand."""
    with contextlib.ExitStack() as stack:
        for number in range(hellos):
            stack.enter_context(admission.hello(f"h@hello{number}"))
        for number in range(listings):
            stack.enter_context(admission.listing(f"h@listing{number}"))
        yield


def refusal(admission: JoinAdmission, backend: str) -> errors.Busy:
    with pytest.raises(errors.Busy) as caught, admission.hello(backend):
        pass
    return caught.value


def test_a_few_hellos_are_admitted_at_a_time_and_listings_beside_them(admission: JoinAdmission) -> None:
    with in_hand(admission, 6):
        refusal(admission, "h@more")
        with admission.listing("h@listed"):
            pass
    with in_hand(admission, 6, 6), pytest.raises(errors.Busy), admission.listing("h@more"):
        pass
    with in_hand(admission, 6):
        pass


def test_an_error_of_the_work_is_the_callers_and_ends_it(admission: JoinAdmission) -> None:
    for _ in range(20):
        with pytest.raises(errors.Conflict), admission.hello("h@b"):
            raise errors.Conflict("another process runs it")


def test_a_backend_has_one_message_in_hand(admission: JoinAdmission) -> None:
    with admission.hello("h@b"):
        refusal(admission, "h@b")
        with pytest.raises(errors.Busy), admission.listing("h@b"):
            pass
    with admission.listing("h@b"):
        pass


def test_backends_come_back_in_the_order_in_which_they_came(admission: JoinAdmission) -> None:
    with in_hand(admission, 6):
        first = [refusal(admission, f"h@b{number}").seconds for number in range(300)]
        again = [refusal(admission, f"h@b{number}").seconds for number in reversed(range(300))]
    assert first == sorted(first)
    assert again == first[::-1]
    assert (first[0], first[100], first[299]) == (1.0, 10.3, 30.2)


def test_a_backend_that_was_admitted_has_no_place_any_more(admission: JoinAdmission) -> None:
    with in_hand(admission, 6):
        for number in range(100):
            refusal(admission, f"h@b{number}")
        last = refusal(admission, "h@last")
    for number in range(100):
        with admission.hello(f"h@b{number}"):
            pass
    with in_hand(admission, 6):
        now = refusal(admission, "h@last")
    assert now.seconds < last.seconds
    assert now.message == "the scheduler is busy with other backends, 0 of which came before"


def test_nobody_waits_for_longer_than_a_minute(admission: JoinAdmission, clock: Clock) -> None:
    for number in range(100):
        with admission.hello(f"h@b{number}"):
            clock.now += 30.0
    with in_hand(admission, 6):
        assert {refusal(admission, f"h@b{number}").seconds for number in range(100)} == {60.0}


def test_the_time_follows_from_the_work_for_a_message(admission: JoinAdmission, clock: Clock) -> None:
    for number in range(200):
        # Two at a time, which take 0.4 seconds together.
        with admission.hello(f"h@a{number}"), admission.listing(f"h@b{number}"):
            clock.now += 0.4
    with in_hand(admission, 6):
        for number in range(10):
            refusal(admission, f"h@c{number}")
        # The six in hand, and a hello and a listing of each of ten others.
        assert refusal(admission, "h@d").seconds == pytest.approx((6 + 2 * 10) * 0.3, rel=0.05)


def test_backends_that_do_not_come_back_are_forgotten(admission: JoinAdmission, clock: Clock) -> None:
    with in_hand(admission, 6):
        for number in range(100):
            refusal(admission, f"h@b{number}")
        clock.now += 119.0
        late = refusal(admission, "h@late").seconds
        clock.now += 2.0
        assert refusal(admission, "h@late").seconds < late
