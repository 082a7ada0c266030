# SPDX-License-Identifier: Apache-2.0
"""Which messages of joining agents are handled, and when the others are to come back."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest

from tests.servers.base import wait_for
from tonnage.capacity import errors
from tonnage.rpc.messages import Hello, Listing, Receipt, Welcome
from tonnage.scheduler.agents.join_admission import JoinAdmission


class Clock:
    """A clock that stands still unless the test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def admission(clock: Clock) -> JoinAdmission:
    return JoinAdmission(clock)


def hello(backend: str, nonce: str = "n", mark: str = "") -> Hello:
    return Hello(backend=backend, nonce=nonce, availability_zone="nova", driver="memory", ledger_marks={"p": mark})


def listing(backend: str, tick: int = 1) -> Listing:
    return Listing(backend=backend, epoch=1, tick=tick, volumes=[])


def handle(
    admission: JoinAdmission, message: Hello | Listing, work: Callable[[], object] = lambda: None
) -> Welcome | Receipt:
    """Handle a message with this work."""
    if isinstance(message, Hello):

        def welcome() -> Welcome:
            work()
            return Welcome(epoch=7)

        return admission.hello(message, welcome)

    def receipt() -> Receipt:
        work()
        return Receipt(accepted=True)

    return admission.listing(message, receipt)


@contextlib.contextmanager
def handling(admission: JoinAdmission, message: Hello | Listing) -> Iterator["futures.Future[Welcome | Receipt]"]:
    """Have a message in hand; the future has its answer afterwards."""
    admitted, end = threading.Event(), threading.Event()

    def work() -> None:
        admitted.set()
        assert end.wait(60)

    with futures.ThreadPoolExecutor(1) as threads:
        answer = threads.submit(handle, admission, message, work)
        wait_for(lambda: admitted.is_set() or answer.done(), "the message to be in hand")
        if not admitted.is_set():
            answer.result()
        try:
            yield answer
        finally:
            end.set()


@contextlib.contextmanager
def in_hand(admission: JoinAdmission, hellos: int, listings: int = 0) -> Iterator[None]:
    """Have so many messages in hand."""
    with contextlib.ExitStack() as stack:
        for number in range(hellos):
            stack.enter_context(handling(admission, hello(f"h@hello{number}")))
        for number in range(listings):
            stack.enter_context(handling(admission, listing(f"h@listing{number}")))
        yield


def refusal(admission: JoinAdmission, message: Hello | Listing) -> errors.Busy:
    with pytest.raises(errors.Busy) as caught:
        handle(admission, message)
    return caught.value


def test_a_few_hellos_are_admitted_at_a_time_and_listings_beside_them(admission: JoinAdmission) -> None:
    with in_hand(admission, 6):
        refusal(admission, hello("h@more"))
        assert handle(admission, listing("h@listed")) == Receipt(accepted=True)
    with in_hand(admission, 6, 6):
        refusal(admission, listing("h@more"))
    with in_hand(admission, 6):
        pass


def test_fewer_are_admitted_the_longer_they_take(admission: JoinAdmission, clock: Clock) -> None:
    for number in range(100):
        handle(admission, hello(f"h@b{number}"), lambda: clock.move(0.9))
    with in_hand(admission, 2):
        refusal(admission, hello("h@more"))
        with in_hand(admission, 0, 2):
            refusal(admission, listing("h@more"))
    for number in range(100):
        handle(admission, hello(f"h@b{number}"), lambda: clock.move(60.0))
    assert handle(admission, hello("h@b")) == Welcome(epoch=7), "one is handled in any case"


def test_an_error_of_the_work_is_the_callers_and_ends_it(admission: JoinAdmission) -> None:
    def fail() -> None:
        raise errors.Conflict("another process runs it")

    for _ in range(20):
        with pytest.raises(errors.Conflict):
            handle(admission, hello("h@b"), fail)


@pytest.mark.parametrize("message", [hello("h@b"), listing("h@b")])
def test_a_copy_of_a_message_in_hand_gets_its_answer(admission: JoinAdmission, message: Hello | Listing) -> None:
    work: list[int] = []
    with futures.ThreadPoolExecutor(1) as threads:
        with handling(admission, message) as first:
            copy = threads.submit(handle, admission, message, lambda: work.append(1))
            wait_for(lambda: admission._in_hand["h@b"].has_copy, "the copy to wait")
            refusal(admission, message)
            assert not copy.done()
        assert copy.result() is first.result()
    assert work == []
    handle(admission, message, lambda: work.append(1))
    assert work == [1]


def test_a_copy_of_a_message_in_hand_gets_its_error(admission: JoinAdmission) -> None:
    def fail() -> None:
        wait_for(lambda: admission._in_hand["h@b"].has_copy, "the copy to wait")
        raise errors.Conflict("another process runs it")

    with futures.ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(handle, admission, hello("h@b"), fail) for _ in range(2)]
        assert [type(answer.exception()) for answer in answers] == [errors.Conflict] * 2


def test_a_backend_has_one_message_in_hand(admission: JoinAdmission) -> None:
    with handling(admission, hello("h@b")):
        for other in (hello("h@b", nonce="restarted"), hello("h@b", mark="mounted"), listing("h@b")):
            refusal(admission, other)
    with handling(admission, listing("h@b")):
        refusal(admission, listing("h@b", tick=2))
    handle(admission, listing("h@b"))


def test_the_time_of_a_backend_follows_from_when_it_came_first(admission: JoinAdmission) -> None:
    with in_hand(admission, 6):
        first = [refusal(admission, hello(f"h@b{number}")).seconds for number in range(300)]
        again = [refusal(admission, hello(f"h@b{number}")).seconds for number in reversed(range(300))]
    assert first == sorted(first)
    assert again == first[::-1]
    assert (first[0], first[100], first[299]) == (1.0, 10.3, 30.2)


def test_listings_come_back_before_hellos(admission: JoinAdmission) -> None:
    with in_hand(admission, 6, 6):
        hellos = [refusal(admission, hello(f"h@b{number}")).seconds for number in range(600)]
        listings = [refusal(admission, listing(f"h@joined{number}")).seconds for number in range(100)]
        assert (hellos[599], listings[0], listings[98]) == (60.0, 1.0, 5.5)
        # The twelve in hand and the hundred listings.
        assert refusal(admission, hello("h@b0")).seconds == 5.6
        assert refusal(admission, listing("h@joined0")).seconds == 1.0


def test_a_backend_that_was_admitted_has_no_place_any_more(admission: JoinAdmission) -> None:
    with in_hand(admission, 6):
        for number in range(100):
            refusal(admission, hello(f"h@b{number}"))
        last = refusal(admission, hello("h@last"))
    for number in range(100):
        handle(admission, hello(f"h@b{number}"))
    with in_hand(admission, 6):
        now = refusal(admission, hello("h@last"))
    assert now.seconds < last.seconds
    assert now.message == "the scheduler is busy with other backends, 0 of which came before"


def test_nobody_waits_for_longer_than_a_minute(admission: JoinAdmission, clock: Clock) -> None:
    for number in range(100):
        handle(admission, hello(f"h@b{number}"), lambda: clock.move(61.0))
    with in_hand(admission, 1):
        assert {refusal(admission, hello(f"h@b{number}")).seconds for number in range(100)} == {60.0}


def test_the_time_follows_from_the_work_for_a_message(admission: JoinAdmission, clock: Clock) -> None:
    for number in range(200):
        # Two at a time, which take 0.4 seconds together.
        with handling(admission, hello(f"h@a{number}")):
            handle(admission, listing(f"h@b{number}"), lambda: clock.move(0.4))
    with in_hand(admission, 6):
        for number in range(10):
            refusal(admission, hello(f"h@c{number}"))
        # The six in hand, and a hello and a listing of each of ten others.
        assert refusal(admission, hello("h@d")).seconds == pytest.approx((6 + 2 * 10) * 0.3, rel=0.05)


def test_backends_that_do_not_come_back_are_forgotten(admission: JoinAdmission, clock: Clock) -> None:
    with in_hand(admission, 6):
        told = [refusal(admission, hello(f"h@b{number}")).seconds for number in range(100)]
        # They come back up to a fifth later, and their messages may wait on the bus.
        clock.move(1.2 * told[0] + 9.0)
        late = refusal(admission, hello("h@late")).seconds
        clock.move(1.2 * (told[-1] - told[0]) + 2.0)
        assert (late, refusal(admission, hello("h@late")).seconds) == (10.3, 1.0)
