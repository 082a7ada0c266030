# SPDX-License-Identifier: Apache-2.0
"""Pauses between attempts and reports, and few log lines about a failure that lasts."""

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.agent import backoff
from tonnage.agent.backoff import BackOff, FailureLog, gap_after
from tonnage.capacity import errors

LOG = logging.getLogger(__name__)


def test_pauses_double_up_to_the_longest() -> None:
    pauses = BackOff(first=0.5, longest=3.0)
    assert [pauses.after(attempts) for attempts in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_any_number_of_attempts_has_a_pause() -> None:
    assert BackOff().after(10**9) == 30.0


@given(busy=st.floats(0, 1e6), interval=st.floats(1, 1e4))
def test_a_busy_backend_reports_rarely_within_limits(busy: float, interval: float) -> None:
    gap = gap_after(busy, interval, shortest=0.4, longest=3.0)
    assert 0.4 <= gap <= 3.0
    assert gap <= max(0.4, interval / 5)


def test_the_gap_is_a_fifth_of_the_busy_time() -> None:
    assert gap_after(10.0, polling_interval=60.0, shortest=0.4, longest=3.0) == 2.0


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOG.name)
    return caplog


def test_a_failure_that_lasts_is_logged_once(log: pytest.LogCaptureFixture) -> None:
    failures = FailureLog(LOG, every=3600.0)
    for text in ("no route", "no route", "refused", "refused"):
        failures.failed(text)
    assert log.messages == ["no route", "refused"]


def test_a_failure_is_logged_again_after_a_while_and_after_a_recovery(log: pytest.LogCaptureFixture) -> None:
    eager = FailureLog(LOG, every=0.0)
    eager.failed("no route")
    eager.failed("no route")
    patient = FailureLog(LOG, every=3600.0)
    patient.failed("refused")
    patient.recovered("back")
    patient.failed("refused")
    assert log.messages == ["no route", "no route", "refused", "back", "refused"]


def test_a_recovery_is_logged_only_after_a_failure(log: pytest.LogCaptureFixture) -> None:
    failures = FailureLog(LOG)
    failures.recovered("back")
    failures.failed("no route")
    failures.recovered("back")
    failures.recovered("back")
    assert log.messages == ["no route", "back"]


SHORT = BackOff(0.0, 0.0)


def test_an_attempt_is_repeated_until_it_succeeds() -> None:
    failures = [errors.Unavailable("first"), errors.NotFound("second")]
    reported: list[BaseException | None] = []

    def attempt() -> str:
        if len(reported) < len(failures):
            raise failures[len(reported)]
        return "done"

    assert backoff.retry(attempt, reported.append, threading.Event(), SHORT) == "done"
    assert reported == failures


def test_a_defect_is_not_tried_again() -> None:
    def attempt() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        backoff.retry(attempt, pytest.fail, threading.Event(), SHORT)


def test_attempts_end_when_they_are_cancelled() -> None:
    cancelled = threading.Event()
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(1)
        raise errors.Unavailable("away")

    assert backoff.retry(attempt, lambda error: cancelled.set(), cancelled, BackOff(60.0, 60.0)) is None
    assert backoff.retry(attempt, pytest.fail, cancelled, SHORT) is None
    assert len(attempts) == 1


class Pauses(threading.Event):
    """An event that nobody waits for; ``seconds`` are those that were to be waited."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        return self.is_set()


def _pauses(failures: list[errors.TonnageError]) -> list[float]:
    """Return the pauses of attempts that fail so."""
    pauses, remaining = Pauses(), failures.copy()

    def attempt() -> str:
        if remaining:
            raise remaining.pop(0)
        return "done"

    assert backoff.retry(attempt, lambda error: None, pauses, BackOff(1.0, 8.0)) == "done"
    return pauses.seconds


def test_pauses_grow_and_are_random_so_that_not_all_agents_try_at_once() -> None:
    runs = [_pauses([errors.Unavailable("away")] * 5) for _ in range(50)]
    for position, longest in enumerate((1.0, 2.0, 4.0, 8.0, 8.0)):
        pauses = [run[position] for run in runs]
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(set(pauses)) > 1


def test_an_agent_comes_back_when_a_busy_scheduler_says() -> None:
    failures = [errors.Busy("many", 12.0), errors.Unavailable("away"), errors.Busy("many", 3.0), errors.Unavailable("")]
    for _ in range(50):
        first, second, third, fourth = _pauses(failures)
        assert 12.0 <= first <= 14.4
        assert 3.0 <= third <= 3.6
        assert 0.5 <= second <= 1.0
        assert 0.5 <= fourth <= 1.0
