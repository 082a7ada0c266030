# SPDX-License-Identifier: Apache-2.0
"""A decision log is decided again, by the same rules and by others."""

import pathlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.extensions.replay.recorded import Recorded, played, rules
from tests.unit.scheduler.world import BACKEND, StoragePool
from tonnage.extensions.replay import log_records
from tonnage.extensions.replay.decision_log import DecisionLog, LogFile
from tonnage.extensions.replay.replay import Replay


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
