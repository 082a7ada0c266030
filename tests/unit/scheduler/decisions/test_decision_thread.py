# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures

import pytest

from tonnage.capacity import errors
from tonnage.scheduler.decisions.decision_thread import DecisionThread


@pytest.fixture
def thread() -> Iterator[DecisionThread]:
    thread = DecisionThread(batch_size=4, period=0.01)
    thread.start()
    yield thread
    thread.stop()


def blocker(entered: threading.Event, release: threading.Event) -> Callable[[Sequence[int]], list[int]]:
    def handle(items: Sequence[int]) -> list[int]:
        entered.set()
        assert release.wait(30)
        return list(items)

    return handle


def test_each_item_gets_its_own_result(thread: DecisionThread) -> None:
    def double(items: Sequence[int]) -> list[int]:
        return [2 * item for item in items]

    assert [thread.call(double, number) for number in range(10)] == [2 * number for number in range(10)]


def test_work_that_waits_is_handed_over_together_in_order_and_within_bounds(thread: DecisionThread) -> None:
    entered, release = threading.Event(), threading.Event()
    batches: list[list[int]] = []

    def record(items: Sequence[int]) -> list[None]:
        batches.append(list(items))
        return [None] * len(items)

    thread.submit(blocker(entered, release), 0)
    assert entered.wait(30)
    waiting = [thread.submit(record, number) for number in range(6)]
    release.set()
    futures.wait(waiting, timeout=30)
    assert batches == [[0, 1, 2, 3], [4, 5]]


def test_work_for_one_handler_is_done_together_whatever_came_in_between(thread: DecisionThread) -> None:
    entered, release = threading.Event(), threading.Event()
    calls: list[tuple[str, list[int]]] = []

    def one(items: Sequence[int]) -> list[None]:
        calls.append(("one", list(items)))
        return [None] * len(items)

    def other(items: Sequence[int]) -> list[None]:
        calls.append(("other", list(items)))
        return [None] * len(items)

    thread.submit(blocker(entered, release), 0)
    assert entered.wait(30)
    waiting = [thread.submit(one, 1), thread.submit(other, 2), thread.submit(one, 3)]
    release.set()
    futures.wait(waiting, timeout=30)
    assert calls == [("one", [1, 3]), ("other", [2])]


def test_an_exception_reaches_its_caller_and_the_thread_goes_on(thread: DecisionThread) -> None:
    def fail(items: Sequence[int]) -> list[int]:
        raise ValueError("broken")

    def mixed(items: Sequence[int]) -> list[int | Exception]:
        return [KeyError(item) if item < 0 else item for item in items]

    with pytest.raises(ValueError, match="broken"):
        thread.call(fail, 1)
    with pytest.raises(KeyError):
        thread.call(mixed, -1)
    assert thread.call(mixed, 1) == 1


class Cancelled(BaseException):
    """As libraries raise it that interrupt what takes too long."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Cancelled])
def test_what_is_no_exception_reaches_its_caller_as_one_and_the_thread_goes_on(
    thread: DecisionThread, kind: type[BaseException]
) -> None:
    def fail(items: Sequence[int]) -> list[int]:
        raise kind("broken")

    with pytest.raises(RuntimeError, match=f"{kind.__name__}: broken"):
        thread.submit(fail, 1).result(timeout=30)
    assert thread.submit(lambda items: list(items), 1).result(timeout=30) == 1


@pytest.mark.parametrize("kind", [RuntimeError, Cancelled])
def test_housekeeping_comes_round_and_may_fail(kind: type[BaseException]) -> None:
    rounds = threading.Semaphore(0)

    def run_periodic_tasks() -> None:
        rounds.release()
        raise kind("the database is away")

    thread = DecisionThread(batch_size=1, period=0.01)
    thread.start(run_periodic_tasks)
    for _ in range(3):
        assert rounds.acquire(timeout=30)
    thread.stop()


def test_stop_finishes_what_was_submitted_and_refuses_more() -> None:
    thread = DecisionThread(batch_size=2)
    thread.start()
    waiting = [thread.submit(lambda items: list(items), number) for number in range(5)]
    thread.stop()
    assert [future.result(timeout=0) for future in waiting] == list(range(5))
    with pytest.raises(errors.Unavailable, match="stopping"):
        thread.call(lambda items: list(items), 1)


def test_a_handler_with_a_share_rests_in_proportion_and_then_gets_all_that_arrived() -> None:
    batches: list[tuple[str, list[int]]] = []
    seconds = 0.05

    def limited(items: Sequence[int]) -> list[None]:
        batches.append(("limited", list(items)))
        time.sleep(seconds)
        return [None] * len(items)

    def prompt(items: Sequence[int]) -> list[None]:
        batches.append(("prompt", list(items)))
        return [None] * len(items)

    thread = DecisionThread(batch_size=4, period=3600.0)
    thread.shares = {limited: 0.0001}
    thread.start()
    began = time.monotonic()
    thread.call(limited, 0)  # after a quiet time it is at once
    waiting = [thread.submit(limited, number) for number in (1, 2)]
    thread.call(prompt, 3)
    waiting.append(thread.submit(limited, 4))
    futures.wait(waiting, timeout=60)
    assert time.monotonic() - began >= 1.0 + 2 * seconds
    assert batches == [("limited", [0]), ("prompt", [3]), ("limited", [1, 2, 4])]
    last = thread.submit(limited, 5)
    thread.stop()  # nothing of what was accepted is left
    assert last.done()
    assert batches[3:] == [("limited", [5])]


def test_a_short_call_of_a_handler_with_a_share_is_followed_by_a_short_rest() -> None:
    def limited(items: Sequence[int]) -> list[None]:
        return [None] * len(items)

    thread = DecisionThread(batch_size=4, period=3600.0)
    thread.shares = {limited: 0.2}
    thread.start()
    began = time.monotonic()
    for number in range(100):
        thread.call(limited, number)
    assert time.monotonic() - began < 50  # the longest rests would take 99 s
    thread.stop()


def test_a_whole_batch_ends_the_rest_of_a_handler() -> None:
    batches: list[list[int]] = []

    def limited(items: Sequence[int]) -> list[None]:
        batches.append(list(items))
        time.sleep(0.05)
        return [None] * len(items)

    thread = DecisionThread(batch_size=4, period=3600.0)
    thread.shares = {limited: 0.0001}
    thread.start()
    thread.call(limited, 0)
    waiting = [thread.submit(limited, number) for number in (1, 2, 3, 4)]
    assert not futures.wait(waiting, timeout=30).not_done
    assert batches == [[0], [1, 2, 3, 4]]
    thread.stop()
