# SPDX-License-Identifier: Apache-2.0
"""Decisions are recorded with all that they were made of, and made again from that."""

import pathlib
import resource
from collections.abc import Callable

import pytest

from tests.unit.extensions.replay.recorded import Recorded, played
from tests.unit.ledger import faults
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.extensions.replay import log_records
from tonnage.extensions.replay.decision_log import LogFile


@pytest.mark.parametrize("odd", ["\udcff", 2**70], ids=["broken text", "a huge number"])
def test_what_no_line_can_say_keeps_nobody_from_an_answer(recorded: Callable[..., Recorded], odd: object) -> None:
    one = recorded(a=10)
    figures = one.world.agent._figures
    one.world.agent._figures = lambda name: {**figures(name), "serial": odd}  # type: ignore[method-assign]
    one.world.report()
    [answer] = one.world.create(3)
    assert not isinstance(answer, Exception)
    assert [each.pools for each in played(one.lines())] == [(answer.pool,)]


def test_the_first_decision_has_all_pools_and_the_next_those_that_have_changed(
    recorded: Callable[..., Recorded],
) -> None:
    one = recorded(a=10, b=8, c=1)
    one.world.create(3)
    one.world.create(3)
    lines = [log_records.decode(line) for line in one.lines()]
    assert isinstance(lines[0], log_records.Rules)
    assert lines[0].begins
    assert [type(line).__name__ for line in lines] == ["Rules", *["PoolLine"] * 3, "Decided", "PoolLine", "Decided"]
    # Capabilities are not repeated with each claim.
    assert isinstance(lines[5], log_records.PoolLine)
    assert (lines[5].name, lines[5].traits) == (f"{BACKEND}#a", None)


def test_what_is_not_booked_is_not_recorded(recorded: Callable[..., Recorded]) -> None:
    one = recorded(a=10)
    with faults.failing(one.world.engine, "INSERT INTO claims", errors.Unavailable("the database is away")):
        [answer] = one.world.create(3)
        assert isinstance(answer, errors.Unavailable)
    one.world.create(4)
    replayed = played(one.lines())
    assert [(each.recorded.request, each.differs) for each in replayed] == [("4 GiB", False)]


def test_a_file_that_was_moved_away_is_whole_and_so_is_the_next(recorded: Callable[..., Recorded]) -> None:
    one = recorded(a=10)
    one.world.create(3)
    moved = one.path.rename(one.path.with_suffix(".1"))
    one.world.create(3)
    assert len(played(moved.read_bytes().splitlines())) == 1
    assert [each.differs for each in played(one.lines())] == [False]
    both = moved.read_bytes().splitlines() + one.lines()
    assert [each.differs for each in played(both)] == [False, False]


def test_a_full_disk_keeps_nobody_from_deciding(
    recorded: Callable[..., Recorded], caplog: pytest.LogCaptureFixture
) -> None:
    one = recorded(a=10, b=4)
    one.world.create(1)
    # The limit of the process has nearly the same error as the end of a disk.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (one.path.stat().st_size, hard))
    try:
        one.world.create(1)
        one.world.create(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "Decisions are not recorded for now: File too large" in caplog.text
    one.world.create(1)
    assert len(played(one.lines())) == 1
    one.now += 61
    one.world.create(1)
    assert [each.differs for each in played(one.lines())] == [False, False]


def test_a_file_belongs_to_one_process(recorded: Callable[..., Recorded], tmp_path: pathlib.Path) -> None:
    one = recorded(a=10)
    with pytest.raises(errors.ConfigurationError, match="option decision_log: another process writes to"):
        LogFile(str(one.path))
    with pytest.raises(errors.ConfigurationError, match="cannot be written: No such file"):
        LogFile(str(tmp_path / "nowhere" / "log"))
