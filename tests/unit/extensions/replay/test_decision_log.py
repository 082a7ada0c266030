# SPDX-License-Identifier: Apache-2.0
"""Decisions are recorded with all that they were made of, and made again from that."""

import dataclasses
import pathlib
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ledger import faults
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool
from tonnage.extensions.replay import log_records
from tonnage.extensions.replay.decision_log import DecisionLog, LogFile
from tonnage.extensions.replay.replay import Replay, Replayed
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.rpc.messages import CreateGroup
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain


class Recorded:
    """A world whose scheduler writes a log."""

    def __init__(self, path: pathlib.Path, pools: dict[str, StoragePool]) -> None:
        self.path = path
        self.now = 0.0
        self.world = World(pools).started()
        self.file = LogFile(str(path))
        self.log = DecisionLog(self.file, "here", self.world.hosts, lambda: self.now)
        self.begin()

    def begin(self) -> None:
        self.world.placer.observers = [self.log]

    def group(self, *sizes: int) -> Any:
        messages = [self.world.create_message(size) for size in sizes]
        return self.world.place([CreateGroup(request_id=self.world.request_id(), volumes=messages)])[0]

    def lines(self) -> list[bytes]:
        return self.path.read_bytes().splitlines()


def thick(**free: int) -> dict[str, StoragePool]:
    return {name: StoragePool(room, 1.0, thin=False, thick=True) for name, room in free.items()}


def rules(multiplier: float = 1.0, calculation: Calculation = Calculation.CINDER) -> Rules:
    conf = SimpleNamespace(over_provisioning_calculation=calculation, capacity_weight_multiplier=multiplier)
    chain = FilterChain([CapacityFilter(conf)], calculation)
    return Rules(chain, WeigherChain([CapacityWeigher(conf)]), calculation)


def played(lines: list[bytes], by: Rules | None = None, ratio: float | str = 20.0) -> list[Replayed]:
    return list(Replay(by or rules(), ratio, 60.0).play(lines))


@pytest.fixture
def recorded(tmp_path: pathlib.Path) -> Iterator[Callable[..., Recorded]]:
    made: list[Recorded] = []

    def make(**free: int) -> Recorded:
        made.append(Recorded(tmp_path / "decisions.jsonl", thick(**free)))
        return made[-1]

    yield make
    for each in made:
        each.file.close()


def test_every_figure_that_decisions_read_is_recorded() -> None:
    floats = {each.name for each in dataclasses.fields(Pool) if each.type is float}
    worked_out = {"in_flight", "in_flight_physical", "others", "storage_room"}
    assert set(log_records.FIGURES) == floats - worked_out
    others = {each.name for each in dataclasses.fields(Pool)} - floats - {"name"}
    assert set(log_records.Traits.__struct_fields__) == others


@pytest.mark.parametrize("odd", ["\udcff", 2**70], ids=["broken text", "a huge number"])
def test_what_no_line_can_say_keeps_nobody_from_an_answer(recorded: Callable[..., Recorded], odd: object) -> None:
    one = recorded(a=10)
    figures = one.world.agent._figures
    one.world.agent._figures = lambda name: {**figures(name), "serial": odd}  # type: ignore[method-assign]
    one.world.report()
    [answer] = one.world.create(3)
    assert not isinstance(answer, Exception)
    assert [each.pools for each in played(one.lines())] == [(answer.pool,)]


def test_by_the_same_rules_nothing_differs_and_by_others_it_shows(recorded: Callable[..., Recorded]) -> None:
    one = recorded(a=10, b=8)
    one.world.create(3, 3)
    one.world.create(9)
    one.group(3, 2)
    replayed = played(one.lines())
    assert [each.differs for each in replayed] == [False] * 4
    assert [each.pools for each in replayed] == [
        (f"{BACKEND}#a",),
        (f"{BACKEND}#b",),
        (),
        (f"{BACKEND}#a", f"{BACKEND}#b"),
    ]
    assert replayed[2].refusal == replayed[2].recorded.refusal
    fullest_first = played(one.lines(), rules(multiplier=-1.0))
    assert [each.differs for each in fullest_first] == [True, True, False, True]


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


def test_pools_that_are_gone_and_reports_that_change_figures(recorded: Callable[..., Recorded]) -> None:
    one = recorded(a=10, b=8)
    one.world.create(3)
    one.world.settle()
    del one.world.pools["b"]
    one.world.report()
    one.world.create(2)
    one.world.settle()
    one.world.create(2)
    replayed = played(one.lines())
    assert [each.differs for each in replayed] == [False] * 3
    assert any(isinstance(log_records.decode(line), log_records.Gone) for line in one.lines())


def test_another_default_ratio_counts_for_pools_that_report_none(tmp_path: pathlib.Path) -> None:
    pools = {"a": StoragePool(10, None, thin=True, thick=False)}  # type: ignore[arg-type]
    one = Recorded(tmp_path / "log", pools)
    one.world.create(10, 10, 10)
    assert [each.pools for each in played(one.lines(), ratio=2.0)] == [(f"{BACKEND}#a",)] * 2 + [()]
    assert not any(each.differs for each in played(one.lines()))
    one.file.close()


def test_rules_that_change_on_the_way(recorded: Callable[..., Recorded]) -> None:
    one = recorded(a=10, b=8)
    one.world.create(1)
    one.world.rules.apply(replace(one.world.rules.current, weighers=rules(multiplier=-1.0).weighers))
    one.world.create(1)
    told = [line for line in map(log_records.decode, one.lines()) if isinstance(line, log_records.Rules)]
    assert [(each.begins, each.weighers) for each in told] == [
        (True, {"CapacityWeigher": 1.0}),
        (False, {"CapacityWeigher": -1.0}),
    ]
    assert [each.differs for each in played(one.lines())] == [False, True]


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


def test_a_line_that_was_cut_off(recorded: Callable[..., Recorded]) -> None:
    one = recorded(a=10)
    one.world.create(3)
    one.file.close()
    with one.path.open("r+b") as file:
        file.truncate(one.path.stat().st_size - 9)
    one.file = LogFile(str(one.path))
    one.log = DecisionLog(one.file, "here", one.world.hosts)
    one.begin()
    one.world.create(3)
    replay = Replay(rules(), 20.0, 60.0)
    assert [each.differs for each in replay.play(one.lines())] == [False]
    assert replay.broken == [3]


def test_without_its_beginning_nothing_can_be_decided(recorded: Callable[..., Recorded]) -> None:
    one = recorded(a=10)
    one.world.create(3)
    one.world.create(3)
    assert played(one.lines()[2:]) == []


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


def test_a_log_of_another_format() -> None:
    with pytest.raises(errors.InvalidInput, match="the log has format 9, and this release reads 1"):
        log_records.decode(
            b'{"line":"rules","time":"","host":"h","filters":[],"weighers":{},"calculation":"cinder",'
            b'"default_ratio":20.0,"volumes":false,"begins":true,"format":9}'
        )


@settings(max_examples=12, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 40), st.booleans()), min_size=1),
    st.lists(st.one_of(st.integers(1, 30), st.lists(st.integers(1, 20), min_size=2, max_size=3)), max_size=8),
)
def test_whatever_happens_the_same_rules_decide_the_same(
    tmp_path_factory: pytest.TempPathFactory, drawn: dict[str, tuple[int, bool]], asked: list[int | list[int]]
) -> None:
    path = tmp_path_factory.mktemp("log") / "decisions"
    one = Recorded(
        path, {name: StoragePool(size, 2.0, thin=thin, thick=not thin) for name, (size, thin) in drawn.items()}
    )
    for number, size in enumerate(asked):
        if isinstance(size, int):
            one.world.create(size, size)
        else:
            one.group(*size)
        if number % 3 == 1:
            one.world.settle()
    one.file.close()
    for each in played(one.lines()) if asked else []:
        assert not each.differs
        assert each.refusal == each.recorded.refusal
