# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.history.history_thread import HistoryThread


class Recorder:
    """A writer, a forecaster and the turns of schedulers, which record their calls."""

    def __init__(self, has_turn: bool = True, away: bool = False) -> None:
        self.calls: list[str] = []
        self._has_turn, self._away = has_turn, away

    def sample(self) -> bool:
        self.calls.append("sample")
        if self._away:
            raise errors.Unavailable("the database is away")
        return True

    def work(self, go_on: Callable[[], bool]) -> int:
        self.calls.append(f"work {go_on()}")
        return 1

    def has_turn(self, work: str) -> bool:
        return self._has_turn


def thread(recorder: Any) -> HistoryThread:
    return HistoryThread(recorder, [recorder], recorder)


def test_the_scheduler_whose_turn_it_is_makes_the_forecasts() -> None:
    mine, anothers = Recorder(), Recorder(has_turn=False)
    thread(mine).work()
    thread(anothers).work()
    assert (mine.calls, anothers.calls) == (["sample", "sample", "work True"], ["sample"])


def test_forecasts_end_with_the_thread() -> None:
    recorder = Recorder()
    history = thread(recorder)
    history.stop()
    history.work()
    assert recorder.calls == ["sample", "work False"]


def test_a_database_that_is_away_leaves_a_hole(caplog: pytest.LogCaptureFixture) -> None:
    thread(Recorder(away=True)).work()
    assert "The history has a hole: the database is away" in caplog.text
