# SPDX-License-Identifier: Apache-2.0
"""The thread that carries plans out."""

from typing import Any

import pytest

from tonnage.extensions.moves.execution.plan_thread import PlanThread


class Recorder:
    """An executor and the turns of schedulers, which record their calls."""

    def __init__(self, has_turn: bool, is_open: bool) -> None:
        self.calls: list[str] = []
        self._has_turn, self._is_open = has_turn, is_open

    def work(self) -> bool:
        self.calls.append("work")
        return self._is_open

    def has_turn(self, work: str) -> bool:
        return self._has_turn


@pytest.mark.parametrize(
    ("has_turn", "is_open", "pause", "calls"),
    [(True, True, 0.5, ["work"]), (True, False, 2.0, ["work"]), (False, True, 2.0, [])],
)
def test_the_scheduler_whose_turn_it_is_works_often_while_a_plan_is_open(
    has_turn: bool, is_open: bool, pause: float, calls: list[str]
) -> None:
    recorder: Any = Recorder(has_turn, is_open)
    assert PlanThread(recorder, recorder).work() == pause
    assert recorder.calls == calls


def test_the_thread_ends_when_it_is_told_to() -> None:
    recorder: Any = Recorder(False, False)
    thread = PlanThread(recorder, recorder)
    thread.start()
    thread.stop()
    assert not thread._worker.alive
