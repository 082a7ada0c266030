# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import TypeAlias

import numpy as np
import pytest

from tests.servers.base import wait_for
from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask
from tonnage.scheduler.decisions import decision_thread
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


def test_the_time_of_a_call_under_way_is_known(thread: DecisionThread) -> None:
    entered, release = threading.Event(), threading.Event()
    done = thread.submit(blocker(entered, release), 0)
    assert entered.wait(30)
    time.sleep(0.05)
    assert thread.turn_seconds() >= 0.05
    release.set()
    futures.wait([done], timeout=30)
    wait_for(lambda: thread.turn_seconds() == 0, "the thread waits for items")


def test_an_item_that_has_waited_for_too_long_fails(thread: DecisionThread) -> None:
    entered, release = threading.Event(), threading.Event()
    thread.submit(blocker(entered, release), 0)
    assert entered.wait(30)
    handled: list[int] = []

    def record(items: Sequence[int]) -> list[None]:
        handled.extend(items)
        return [None] * len(items)

    late, patient = thread.submit(record, 1, 0.0), thread.submit(record, 2)
    release.set()
    assert patient.result(30) is None
    with pytest.raises(errors.Declined, match="has waited too long"):
        late.result(30)
    assert handled == [2]


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


def test_other_handlers_have_their_turn_between_two_batches_and_between_slow_unbatched_items(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision_thread, "_TURN", 0.05)
    thread = DecisionThread(batch_size=2, period=3600.0)
    calls: list[tuple[str, list[int]]] = []

    def noted(name: str, seconds: float = 0.0) -> Callable[[Sequence[int]], list[None]]:
        def handle(items: Sequence[int]) -> list[None]:
            calls.append((name, list(items)))
            time.sleep(seconds)
            return [None] * len(items)

        return handle

    listings, requests = noted("listings", 0.06), noted("requests")
    thread.unbatched = (listings,)
    waiting = [thread.submit(listings, number) for number in range(3)]
    waiting += [thread.submit(requests, number) for number in range(5)]
    thread.start()
    assert not futures.wait(waiting, timeout=60).not_done
    assert calls == [
        ("listings", [0]),
        ("requests", [0, 1]),
        ("listings", [1]),
        ("requests", [2, 3]),
        ("listings", [2]),
        ("requests", [4]),
    ]
    thread.stop()


def test_unbatched_items_that_take_little_time_or_are_too_old_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_thread, "_TURN", 60.0)
    thread = DecisionThread(batch_size=2, period=3600.0)
    calls: list[tuple[str, list[int]]] = []

    def noted(name: str) -> Callable[[Sequence[int]], list[None]]:
        def handle(items: Sequence[int]) -> list[None]:
            calls.append((name, list(items)))
            return [None] * len(items)

        return handle

    hellos, reports = noted("hellos"), noted("reports")
    thread.unbatched = (hellos,)
    old = [thread.submit(hellos, number, 0.0) for number in range(3)]
    waiting = [thread.submit(hellos, number) for number in (3, 4)]
    waiting += [thread.submit(reports, number) for number in range(3)]
    time.sleep(0.01)
    thread.start()
    assert not futures.wait([*old, *waiting], timeout=60).not_done
    assert calls == [("hellos", [3]), ("hellos", [4]), ("reports", [0, 1]), ("reports", [2])]
    assert all(isinstance(future.exception(), errors.Declined) for future in old)
    thread.stop()


def test_a_thread_that_stops_has_a_turn_for_each_item(thread: DecisionThread) -> None:
    entered, release = threading.Event(), threading.Event()
    thread.submit(blocker(entered, release), 0)
    assert entered.wait(30)
    waiting = [thread.submit(lambda items: list(items), number) for number in range(11)]
    stop = threading.Thread(target=thread.stop)
    stop.start()
    release.set()
    stop.join(60)
    assert [future.result(0) for future in waiting] == list(range(11))


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


def test_a_wrong_number_of_results_reaches_the_callers_and_the_thread_goes_on(thread: DecisionThread) -> None:
    with pytest.raises(RuntimeError, match="0 results for 1 items"):
        thread.submit(lambda items: [], 1).result(timeout=30)
    assert thread.submit(list, 1).result(timeout=30) == 1


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


class HangingFilter(Filter):
    """A filter that does not return until it is released."""

    def __init__(self, entered: threading.Event, release: threading.Event) -> None:
        super().__init__(None)
        self._wait = blocker(entered, release)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        self._wait([])
        return np.ones(len(pools), dtype=np.bool_)


@pytest.fixture
def hanging() -> Iterator[tuple[DecisionThread, futures.Future[None], futures.Future[None]]]:
    """Yield a thread in a filter that hangs, the future of its request, and that of a request behind it."""
    entered, release = threading.Event(), threading.Event()
    plugin = HangingFilter(entered, release)
    thread = DecisionThread(batch_size=1)
    thread.start()

    def decide(items: Sequence[Request]) -> list[None]:
        for request in items:
            plugin.accepts(PoolTable(), request)
        return [None] * len(items)

    in_hand, behind = thread.submit(decide, Request("1", 1)), thread.submit(decide, Request("2", 1))
    assert entered.wait(30)
    yield thread, in_hand, behind
    release.set()
    thread.stop()


Hanging: TypeAlias = "tuple[DecisionThread, futures.Future[None], futures.Future[None]]"


def test_a_plugin_that_hangs_is_named(hanging: Hanging) -> None:
    thread, *_ = hanging
    assert thread.obstacle() == "Plug-in HangingFilter"


def test_a_stop_does_not_wait_for_a_plugin_that_hangs(hanging: Hanging, caplog: pytest.LogCaptureFixture) -> None:
    thread, in_hand, behind = hanging
    assert thread.abandon(0.0)
    for future in (behind, thread.submit(lambda items: items, 3)):
        with pytest.raises(errors.Declined, match="is stopping"):
            future.result(timeout=30)
    with pytest.raises(errors.Unavailable, match="may have been accepted") as raised:
        in_hand.result(timeout=30)
    assert not isinstance(raised.value, errors.Declined), "its caller may not send it to another scheduler as untouched"
    thread.stop()
    assert "Plug-in HangingFilter has not returned for 0 s; the scheduler ends without it" in caplog.text


def test_a_call_that_has_lasted_for_less_than_the_patience_is_waited_for(hanging: Hanging) -> None:
    thread, in_hand, _ = hanging
    assert not thread.abandon(3600.0)
    assert not in_hand.done()


def test_a_thread_that_rests_is_not_abandoned(thread: DecisionThread) -> None:
    assert not thread.abandon(1e-9)
    assert thread.call(lambda items: items, 5) == 5


class Paced:
    """A decision thread with a paced handler, whose calls take half a second, and with another handler."""

    def __init__(self, periodic_tasks: Callable[[], None] | None = None) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.times: list[float] = []
        #: Called during each call of the paced handler.
        self.meanwhile: Callable[[], None] = lambda: None
        self.thread = DecisionThread(batch_size=4, period=3600.0 if periodic_tasks is None else 0.0)
        self.thread.paced = (self.paced,)
        self.thread.start(periodic_tasks)

    def paced(self, items: Sequence[int]) -> list[None]:
        self.calls.append(("paced", list(items)))
        self.times.append(time.monotonic())
        self.meanwhile()
        time.sleep(0.5)
        return [None] * len(items)

    def prompt(self, items: Sequence[int]) -> list[None]:
        self.calls.append(("prompt", list(items)))
        return [None] * len(items)

    def call_together(self, numbers: Sequence[int]) -> None:
        """Have the paced handler called once with these items."""
        blocked = threading.Event()
        self.thread.submit(lambda items: [blocked.wait(60)], None)
        waiting = [self.thread.submit(self.paced, number) for number in numbers]
        blocked.set()
        assert not futures.wait(waiting, timeout=60).not_done


@pytest.fixture
def paced() -> Iterator[Paced]:
    paced = Paced()
    yield paced
    paced.thread.stop()


def test_a_paced_handler_rests_after_several_items_and_then_gets_all_that_arrived(paced: Paced) -> None:
    waiting: list[futures.Future[None]] = []

    def arrive() -> None:
        paced.meanwhile = lambda: None
        waiting.extend(paced.thread.submit(paced.paced, number) for number in (4, 5))
        waiting.append(paced.thread.submit(paced.prompt, 6))
        waiting.append(paced.thread.submit(paced.paced, 7))

    paced.meanwhile = arrive
    paced.call_together([1, 2, 3])
    assert not futures.wait(waiting, timeout=60).not_done
    assert paced.calls == [("paced", [1, 2, 3]), ("prompt", [6]), ("paced", [4, 5, 7])]
    assert paced.times[1] - paced.times[0] > 0.5 + 0.25 - 0.01


def test_a_paced_handler_gets_an_item_that_comes_alone_at_once_and_the_next_one_too(paced: Paced) -> None:
    def waits() -> bool:
        began = time.monotonic()
        paced.thread.call(paced.paced, 1)
        return time.monotonic() - began > 0.5 + 0.2

    waits()
    assert not all(waits() for _ in range(5))  # the machine may stand still in one of them


def test_a_whole_batch_ends_the_rest_of_a_handler(paced: Paced) -> None:
    def rests() -> bool:
        paced.call_together([1, 2, 3])
        paced.call_together([4, 5, 6, 7])
        return paced.times[-1] - paced.times[-2] > 0.5 + 0.25 - 0.01

    assert not all(rests() for _ in range(4))


def test_between_two_calls_of_a_handler_all_others_have_their_turn(paced: Paced) -> None:
    waiting: list[futures.Future[None]] = []

    def arrive() -> None:
        paced.meanwhile = lambda: None
        waiting.append(paced.thread.submit(paced.prompt, 5))
        waiting.extend(paced.thread.submit(paced.paced, number) for number in (6, 7, 8, 9))  # which end its rest

    paced.meanwhile = arrive
    paced.call_together([1, 2, 3, 4])
    assert not futures.wait(waiting, timeout=60).not_done
    assert paced.calls == [("paced", [1, 2, 3, 4]), ("prompt", [5]), ("paced", [6, 7, 8, 9])]


def test_a_handler_whose_rest_has_ended_comes_after_all_others() -> None:
    paced = Paced(periodic_tasks=lambda: time.sleep(0.4))  # longer than a rest
    waiting: list[futures.Future[None]] = []

    def arrive() -> None:
        paced.meanwhile = lambda: None
        waiting.extend(paced.thread.submit(paced.paced, number) for number in (4, 5))
        waiting.append(paced.thread.submit(paced.prompt, 6))

    paced.meanwhile = arrive
    paced.call_together([1, 2, 3])
    assert not futures.wait(waiting, timeout=60).not_done
    paced.thread.stop()
    assert paced.calls == [("paced", [1, 2, 3]), ("prompt", [6]), ("paced", [4, 5])]


def test_a_thread_that_stops_calls_a_handler_that_rests(paced: Paced) -> None:
    paced.call_together([1, 2, 3])
    last = paced.thread.submit(paced.paced, 4)
    paced.thread.stop()
    assert last.done()
