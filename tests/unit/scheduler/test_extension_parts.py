# SPDX-License-Identifier: Apache-2.0
"""Extensions in a scheduler: the order of their parts, and their threads."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.scheduler.agents.report_observer import ReportObserver
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.extension_parts import ExtensionParts, PartsBuilder, SchedulerContext, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.preparation import Preparation
from tonnage.scheduler.simulation.growth_forecasts import GrowthForecasts, PoolGrowth


class Work:
    """Threads of an extension."""

    def __init__(self, calls: list[str], name: str) -> None:
        self._calls, self._name = calls, name

    def start(self) -> None:
        self._calls.append(f"start {self._name}")

    def stop(self) -> None:
        self._calls.append(f"stop {self._name}")


@pytest.fixture
def background() -> list[str]:
    return []


@pytest.fixture
def builders(background: list[str]) -> Mapping[str, PartsBuilder]:
    def build(context: SchedulerContext) -> SchedulerParts:
        return SchedulerParts(
            background=[Work(background, "one"), Work(background, "two")], closers=[lambda: background.append("close")]
        )

    return {"example": build}


def test_threads_start_after_the_ledger_is_loaded_and_stop_in_the_other_order(
    core: SchedulerManager, background: list[str]
) -> None:
    assert background == ["start one", "start two"]
    core.stop()
    assert background == ["start one", "start two", "stop two", "stop one", "close"]
    background.clear()


def test_hooks_keep_the_order_of_the_extensions_and_bear_their_names() -> None:
    def build(context: SchedulerContext) -> SchedulerParts:
        return SchedulerParts(
            report_observers=[ReportObserver()],
            decision_observers=[DecisionObserver()],
            preparations=[Preparation(), Preparation()],
        )

    context: Any = SimpleNamespace()
    parts = ExtensionParts.build({"second": build, "first": build}, context)
    assert [hook.extension for hook in parts.report_observers] == ["second", "first"]
    assert [hook.extension for hook in parts.decision_observers] == ["second", "first"]
    assert [hook.extension for hook in parts.preparations] == ["second", "second", "first", "first"]


def test_the_forecasts_of_all_extensions_are_read_together() -> None:
    forecasts = GrowthForecasts()
    context: Any = SimpleNamespace(growth_forecasts=forecasts)
    assert forecasts.read() is None
    growth = {name: PoolGrowth(physical_gb=number, promised_gb=None) for number, name in enumerate("ab")}
    ExtensionParts.build(
        {
            name: lambda _, name=name: SchedulerParts(growth_forecasts=[lambda: {name: growth[name]}])  # type: ignore[misc]
            for name in growth
        },
        context,
    )
    assert forecasts.read() == growth
