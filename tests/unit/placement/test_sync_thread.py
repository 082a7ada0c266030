# SPDX-License-Identifier: Apache-2.0
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.placement import sync_thread
from tonnage.placement.allocation_writer import Told


class Writes:
    """Stands for what writes: what it does one time after the other, the last again and again."""

    def __init__(self, *times: Told | Exception) -> None:
        self.times = list(times)
        self.told = self.swept = 0
        self.seconds = self.sweeping = 0.0
        self.providers = SimpleNamespace(sweep=self.sweep)

    def sweep(self, stopped: Callable[[], bool]) -> None:
        assert not stopped()
        self.swept += 1
        self.seconds += self.sweeping

    def tell(self, stopped: Callable[[], bool]) -> Told:
        assert not stopped()
        self.told += 1
        found = self.times.pop(0) if len(self.times) > 1 else self.times[0]
        if isinstance(found, Exception):
            raise found
        return found


def made(writes: Writes, *, turn: bool = True) -> sync_thread.Keeper:
    given: Any = writes
    return sync_thread.Keeper(given, lambda work: turn)


def test_to_look_takes_little_of_the_time() -> None:
    writes = Writes(Told(0, 0, 0.01), Told(700, 700, 2.0), Told(0, 0, 1000.0))
    mine = made(writes)
    assert [mine.turn(), mine.turn(), mine.turn()] == [
        sync_thread._PAUSE,
        2.0 * sync_thread._SHARE,
        sync_thread._LONGEST_PAUSE,
    ]
    assert (writes.told, writes.swept) == (3, 1)


def test_to_look_at_many_pools_takes_little_of_the_time_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = Writes(Told(0, 0, 0.0))
    monkeypatch.setattr(sync_thread, "time", SimpleNamespace(monotonic=lambda: writes.seconds))
    writes.sweeping, mine = 100.0, made(writes)
    for seconds, swept in ((0, 1), (60, 1), (1839, 1), (1, 2)):
        writes.seconds += seconds
        mine.turn()
        assert writes.swept == swept


def test_who_has_no_turn_leaves_it_to_the_others() -> None:
    writes = Writes(Told(0, 0, 0.0))
    assert made(writes, turn=False).turn() == sync_thread._PAUSE
    assert (writes.told, writes.swept) == (0, 0)


def test_one_that_is_away_is_warned_of_once_and_looked_at_anew_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    away = errors.Unavailable("nobody there")
    writes = Writes(away, away, Told(0, 0, 0.0))
    mine = made(writes)
    assert [mine.turn(), mine.turn(), mine.turn()] == [sync_thread._AWAY, sync_thread._AWAY, sync_thread._PAUSE]
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
