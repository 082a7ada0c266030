# SPDX-License-Identifier: Apache-2.0
"""A scheduler's parts: the times derived from its settings, and the way of a request through preparations."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler import ledgers, managers
from tests.unit.scheduler.conftest import Clock
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.composition import DecisionParts, Foundation
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.extension_parts import SchedulerParts
from tonnage.scheduler.requests.placement_requests import Move, Retry
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.requests.preparation import Preparation
from tonnage.weighers.chain import WeigherChain


class Owner:
    """What a ledger in memory lives as long as."""


class Thread:
    """A decision thread that keeps what is submitted to it."""

    def __init__(self) -> None:
        self.submitted: list[object] = []

    def submit(self, handler: Callable[..., object], item: object) -> None:
        self.submitted.append(item)


class Signature(Preparation):
    """A preparation that adds its name to requests."""

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, messages: Sequence[Any]) -> Sequence[Any]:
        return [f"{message} {self.name}" for message in messages]

    def prepare_later(self, work: Retry | Move, submit: Callable[[Retry | Move], object]) -> None:
        assert isinstance(work, Retry)
        submit(Retry(f"{work.volume_id} {self.name}"))


@pytest.fixture
def database() -> Iterator[Database]:
    owner = Owner()
    engine: sa.Engine = ledgers.in_memory(owner)
    yield Database(engine)
    engine.dispose()


def decision_parts(database: Database, thread: Any, *preparations: Preparation) -> DecisionParts:
    """Return the deciding parts of a scheduler with one extension, which has these preparations."""
    base = Foundation(managers.settings(), database, Clock())
    agents: Any = SimpleNamespace()
    conf = SimpleNamespace(over_provisioning_calculation=Calculation.CINDER)
    rules = Rules(FilterChain([CapacityFilter(conf)]), WeigherChain([]), Calculation.CINDER)
    builders = {"example": lambda context: SchedulerParts(preparations=preparations)}
    return DecisionParts(base, rules, Dispatcher(agents, base.hosts, 60.0, base.clock), thread, builders)


@pytest.mark.parametrize(("down_time", "seconds"), [(60.0, 10.0), (30.0, 10.0), (6.0, 2.0)])
def test_a_scheduler_sweeps_three_times_before_it_counts_as_down(
    database: Database, down_time: float, seconds: float
) -> None:
    assert Foundation(managers.settings(service_down_time=down_time), database, Clock()).sweep == seconds


def test_the_state_of_backends_is_the_first_filter(database: Database) -> None:
    parts = decision_parts(database, Thread())
    filters = parts.rules.current.filters.filters
    assert [type(plugin) for plugin in filters] == [BackendStateFilter, CapacityFilter]


def test_requests_pass_the_preparations_in_their_order(database: Database) -> None:
    thread = Thread()
    parts = decision_parts(database, thread, Signature("first"), Signature("second"))
    messages: Sequence[Any] = parts.prepare(["a", "b"])
    assert messages == ["a first second", "b first second"]
    parts.place_later(Retry("a"))
    assert thread.submitted == [Retry("a first second")]


def test_without_preparations_work_reaches_the_decision_thread_as_it_is(database: Database) -> None:
    thread = Thread()
    parts = decision_parts(database, thread)
    messages = ["a"]
    assert parts.prepare(messages) is messages
    parts.place_later(Retry("a"))
    assert thread.submitted == [Retry("a")]
