# SPDX-License-Identifier: Apache-2.0
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.placement import keeper
from tonnage.placement.writer import BATCH
from tonnage.placement.writer import Round


class Writes:
    """Stands for what writes: the rounds that there are to be, the last one again and again."""

    def __init__(self, *rounds: Round | Exception) -> None:
        self.rounds = list(rounds)
        self.after: list[str] = []
        self.swept = 0
        self.providers = SimpleNamespace(sweep=self.sweep)

    def sweep(self) -> None:
        self.swept += 1

    def round(self, limit: int, after: str) -> Round:
        self.after.append(after)
        found = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        if isinstance(found, Exception):
            raise found
        return found


def made(writes: Writes, *, turn: bool = True) -> keeper.Keeper:
    given: Any = writes
    return keeper.Keeper(given, lambda work: turn)


def test_all_is_told_and_then_waited() -> None:
    writes = Writes(Round(BATCH, BATCH, "m"), Round(BATCH, BATCH - 1, "t"), Round(3, 3, "z"), Round(0, 0, ""))
    mine = made(writes)
    assert mine.turn() == keeper._PAUSE
    assert writes.after == ["", "m", "t"]
    mine.turn()
    assert (writes.after[3:], writes.swept) == ([""], 1)


def test_who_has_no_turn_leaves_it_to_the_others() -> None:
    writes = Writes(Round(0, 0, ""))
    assert made(writes, turn=False).turn() == keeper._PAUSE
    assert writes.after == []


def test_one_that_is_away_is_warned_of_once_and_looked_at_anew_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    away = errors.Unavailable("nobody there")
    writes = Writes(away, away, Round(0, 0, ""))
    mine = made(writes)
    assert [mine.turn(), mine.turn(), mine.turn()] == [keeper._AWAY, keeper._AWAY, keeper._PAUSE]
    assert [record.getMessage() for record in caplog.records] == [
        "Allocations are written later: nobody there",
        "Allocations are written to OpenStack Placement again",
    ]
    assert writes.swept == 3


def test_it_ends_when_told_to() -> None:
    writes = Writes(RuntimeError("whatever"))
    mine = made(writes)
    mine.start()
    mine.stop()
