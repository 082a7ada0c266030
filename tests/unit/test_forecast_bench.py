# SPDX-License-Identifier: Apache-2.0
"""The back-test of the forecast on the generated pools, with fewer of them."""

import importlib
import pathlib
from typing import Any

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("forecast")


def test_the_interval_contains_its_share_and_beats_a_line_through_60_days(bench: Any) -> None:
    scores = {one.method: one for one in bench.back_test(30) if one.shape == "all"}
    mine, line = scores["Tonnage"], scores["line, 60 days"]
    assert all(75 <= share <= 90 for share in mine.inside.values())
    assert mine.pinball < line.pinball


@pytest.mark.heavy
def test_few_alarms_are_false_and_most_full_pools_have_one(bench: Any) -> None:
    [mine] = [one for one in bench.alarms(30) if one.rule == "Tonnage, P >= 0.5"]
    assert mine.false_alarms <= 10
    assert mine.recall >= 0.7
