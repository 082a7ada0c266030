# SPDX-License-Identifier: Apache-2.0
"""Changes of the rules of all schedulers, on every database: work by old rules is rejected or finished first."""

import threading
from collections.abc import Iterator
from concurrent import futures

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.functional.deployment import run_concurrently
from tests.servers import ledger_schema
from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger.claims import bookings
from tonnage.ledger.db import database
from tonnage.ledger.inventory import reports
from tonnage.ledger.locks import heartbeats, scheduling_rules
from tonnage.rpc.messages import Answer


@pytest.fixture
def world(ledger_url: str) -> Iterator[World]:
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    world = World({"p0": StoragePool(10, 2.0, thin=True, thick=False)}, engine=engine).started()
    world.database.run(scheduling_rules.register_scheduler, me(20.0), 60.0)
    yield world
    engine.dispose()


def me(ratio: float, host: str = "one") -> heartbeats.SchedulerProcess:
    return heartbeats.SchedulerProcess(
        binary=heartbeats.SCHEDULER, host=host, default_ratio=str(ratio), calculation="cinder"
    )


class Held:
    """A transaction that has done its work and waits for :meth:`commit`."""

    def __init__(self, pool: futures.Executor, world: World) -> None:
        self._pool, self._world = pool, world
        self._done, self._commit = threading.Event(), threading.Event()

    def change(self, ratio: float) -> "Held":
        """Change the rules."""

        def work(session: orm.Session) -> None:
            scheduling_rules.propose_rules(session, me(ratio), 60.0)
            self._done.set()
            assert self._commit.wait(60)

        self._future = self._pool.submit(self._world.database.run, work)
        assert self._done.wait(60)
        return self

    def report(self) -> "Held":
        """Apply a report with the rules of the world's scheduler."""
        apply = reports.apply

        def work(session: orm.Session) -> None:
            message = self._world.agent.look()
            backend = self._world.hosts.backend(message.backend)
            assert backend is not None
            assert apply(session, [self._world.hosts.diff_report(backend, message, 100).report]) != [None]
            self._done.set()
            assert self._commit.wait(60)

        self._future = self._pool.submit(self._world.database.run, work)
        assert self._done.wait(60)
        return self

    def commit(self) -> None:
        self._commit.set()
        self._future.result(60)


@pytest.fixture
def pool() -> Iterator[futures.Executor]:
    with futures.ThreadPoolExecutor(3) as pool:
        yield pool


def test_a_report_that_waited_for_a_change_of_the_rules_is_not_applied(world: World, pool: futures.Executor) -> None:
    before = world.rows("SELECT total_capacity_gb, thin_limit_gb FROM pools")
    change = Held(pool, world).change(3.0)
    world.pools["p0"].total = 11
    late = pool.submit(world.report)
    change.commit()
    late.result(60)
    assert world.rows("SELECT total_capacity_gb, thin_limit_gb FROM pools") == before
    world.hosts.apply_rules(3.0, world.calculation, 1)
    world.report()
    assert world.rows("SELECT total_capacity_gb, thin_limit_gb FROM pools") == [(11.0, 22.0)]


def test_a_booking_that_waited_for_a_change_of_the_rules_is_repeated(
    world: World, pool: futures.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, seen = bookings.book, []

    def watched(*given: object) -> object:
        try:
            return book(*given)  # type: ignore[arg-type]
        except scheduling_rules.RulesChanged as error:
            seen.append(error)
            world.hosts.apply_rules(3.0, world.calculation, 1)
            raise

    monkeypatch.setattr(bookings, "book", watched)
    change = Held(pool, world).change(3.0)
    late = pool.submit(world.create, 5)
    change.commit()
    [answer] = late.result(60)
    assert isinstance(answer, Answer)
    assert (len(seen), answer.pool is not None) == (1, True)
    world.settle()
    world.check()


def test_a_change_of_the_rules_waits_for_a_report(world: World, pool: futures.Executor) -> None:
    world.pools["p0"].total = 11
    report = Held(pool, world).report()
    change = pool.submit(world.database.run, scheduling_rules.propose_rules, me(3.0), 60.0)
    with pytest.raises(futures.TimeoutError):
        change.result(0.5)
    report.commit()
    assert change.result(60) == scheduling_rules.Vote(1, [])
    assert world.rows("SELECT total_capacity_gb FROM pools") == [(11.0,)]


def test_schedulers_that_start_together_agree_on_the_rules(world: World) -> None:
    for statement in ("DELETE FROM rules", "DELETE FROM services"):
        with world.engine.begin() as connection:
            connection.execute(sa.text(statement))

    def start(number: int) -> object:
        try:
            return world.database.run(scheduling_rules.register_scheduler, me(5.0 + number % 2, f"host{number}"), 60.0)
        except Exception as error:
            return error

    started = run_concurrently(6, start)
    [row] = world.rows("SELECT default_ratio, generation FROM rules")
    up = world.rows("SELECT default_ratio FROM services")
    assert set(up) == {(row[0],)}
    assert [str(each) for each in started].count("0") == len(up) == 3
