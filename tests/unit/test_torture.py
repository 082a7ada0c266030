# SPDX-License-Identifier: Apache-2.0
"""Wrong refusals in the torture: refusals that are wrong at each moment of the request. And its longest gap."""

import importlib
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The torture's module of that name."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("chaos.history")


@pytest.mark.parametrize(
    ("seen", "heard"),
    [
        pytest.param(3.2, True, id="seen-at-once"),
        pytest.param(5.0, False, id="committed-late"),
        pytest.param(60.0, False, id="seen-after-the-answer"),
    ],
)
def test_a_backend_was_heard_once_its_report_could_be_seen(history: Any, seen: float, heard: bool) -> None:
    plan = SimpleNamespace(timing=SimpleNamespace(service_down_time=5))
    one = history.History(plan, None, None)
    one.reports["b"] = [history.Report(0.0, 0.5), history.Report(3.0, seen), history.Report(6.6, 6.9)]
    assert one._heard("b", 1.0, 6.0) is heard
    assert not one._heard("of another", 1.0, 6.0)


def test_a_state_counts_until_the_next_one_was_seen(history: Any) -> None:
    small, large = (history.State(at, seen, room, room, room) for at, seen, room in ((0.0, 1.0, 2.0), (5.0, 8.0, 9.0)))
    line = history._Line([small, large])
    assert list(line.visible(6.0, 7.0)) == [small, large]
    assert list(line.visible(8.5, 9.0)) == [large]
    assert list(line.visible(2.0, 4.0)) == [small]


def test_the_longest_gap_is_without_a_granted_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    requesters = importlib.import_module("chaos.requesters")
    granted, refused = requesters.PLACED, requesters.REFUSED
    outcomes = {12.0: granted, 20.0: refused, 15.0: granted, 25.0: granted, 23.0: requesters.TURNED_AWAY, 90.0: refused}
    asked = [SimpleNamespace(answered=at, outcome=outcome) for at, outcome in outcomes.items()]
    assert requesters.longest_gap(8.0, asked) == 10.0
    assert requesters.longest_gap(2.5, asked[:3]) == 9.5
    assert requesters.longest_gap(8.0, []) == 0.0
