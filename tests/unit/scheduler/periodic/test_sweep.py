# SPDX-License-Identifier: Apache-2.0
"""The sweep: when it is due, what it finds in the ledger, and which work it continues."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.scheduler import managers
from tests.unit.scheduler.conftest import Clock
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.ledger.db import dialects
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import pool_counters
from tonnage.scheduler.periodic.sweep import ClaimRecovery, OpenWork, SweepTimer
from tonnage.scheduler.requests.placement_requests import Move, Retry


class Queue:
    """Work that is to be placed later."""

    def __init__(self) -> None:
        self.work: list[Retry | Move] = []

    def place_later(self, work: Retry | Move) -> None:
        self.work.append(work)


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}).started()
    yield world
    world.engine.dispose()


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def recovery(world: World, queue: Queue) -> ClaimRecovery:
    """A recovery that abandons claims after 120 s of silence."""
    settings = managers.settings(drain_concurrency=1)
    return ClaimRecovery(settings, world.hosts, world.dispatcher, world.outcome_handler, queue, lambda: world.now)


def find(world: World, recovery: ClaimRecovery) -> OpenWork:
    with world.database.reading() as session:
        return recovery.find(session, backends.load_backends(session))


def test_a_sweep_is_due_at_first_after_the_interval_and_on_request(clock: Clock) -> None:
    timer = SweepTimer(10.0, clock)
    due = []
    for now in (0.0, 9.9, 10.0, 19.0, 20.0):
        clock.now = now
        due.append(timer.is_due())
    assert due == [True, False, True, False, True]
    clock.now = 21.0
    timer.request()
    assert [timer.is_due(), timer.is_due()] == [True, False]
    clock.now = 31.0
    assert timer.is_due()


def test_claims_without_an_outcome_and_volumes_without_a_pool_are_open_work(
    world: World, recovery: ClaimRecovery, queue: Queue
) -> None:
    [answer] = world.create(3)
    work = find(world, recovery)
    assert [claim.volume_id for claim in work.pending] == [answer.volume_id]  # type: ignore[union-attr]
    assert (work.silent, list(work.unplaced), list(work.draining)) == (frozenset(), [], [])
    outcome = world.agent.work(fails=True, clean=True)
    assert outcome is not None
    world.deliver(outcome)
    work = find(world, recovery)
    assert (list(work.pending), list(work.unplaced)) == ([], [answer.volume_id])  # type: ignore[union-attr]
    recovery.resume(work)
    assert queue.work == [Retry(answer.volume_id)]  # type: ignore[union-attr]


def test_an_overdue_command_is_sent_again(world: World, recovery: ClaimRecovery) -> None:
    world.lossy = True
    world.create(3)
    world.lossy = False
    world.now += 1.0
    recovery.resume(find(world, recovery))
    assert world.agent.commands == []
    world.now += 60.0
    recovery.resume(find(world, recovery))
    assert len(world.agent.commands) == 1


@pytest.mark.parametrize(
    ("in_ledger", "in_cache", "abandoned"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_claims_are_abandoned_only_if_ledger_and_cache_know_of_the_silence(
    world: World, recovery: ClaimRecovery, in_ledger: bool, in_cache: bool, abandoned: bool
) -> None:
    world.create(3)
    if in_ledger:
        world.pass_time(121.0)
    else:
        world.now += 121.0
    if not in_cache:
        for backend in world.hosts.backends():
            backend.last_seen = world.now
    world.hosts.update_statuses(world.now)
    recovery.resume(find(world, recovery))
    assert world.rows("SELECT state FROM claims WHERE verb = 'create'") == [("abandoned" if abandoned else "pending",)]


def test_a_growth_stays_with_a_silent_backend(world: World, recovery: ClaimRecovery) -> None:
    volume_id = world.made(3)
    world.extend(volume_id, 5)
    world.pass_time(121.0)
    world.hosts.update_statuses(world.now)
    recovery.resume(find(world, recovery))
    assert world.rows("SELECT state FROM claims WHERE verb = 'extend'") == [("pending",)]


def test_volumes_leave_a_draining_backend_one_after_another(
    world: World, recovery: ClaimRecovery, queue: Queue
) -> None:
    volumes = sorted(world.made(1) for _ in range(2))
    assert list(find(world, recovery).draining) == []
    with world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE backends SET draining = 1, enabled = 0")
    for _ in range(2):
        recovery.resume(find(world, recovery))
    moves: list[Any] = queue.work
    assert [move.message.volume_id for move in moves] == volumes
    assert [move.keyed for move in moves] == [False, False]
    assert len({move.message.request_id for move in moves}) == 2


def test_a_drain_that_is_stuck_is_told_once_with_the_first_reasons(
    world: World, recovery: ClaimRecovery, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    volumes = [world.made(1) for _ in range(2)]
    world.database.run(backends.set_state, BACKEND, enabled=False, draining=True, reason=None)
    world.refresh()
    recovery.resume(find(world, recovery))
    for _ in range(2):  # as many as may move at a time
        world.place(queue.work)  # type: ignore[arg-type]
        queue.work.clear()
        recovery.resume(find(world, recovery))
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    [warning] = warnings
    assert warning.startswith(f"The drain of backend {BACKEND} is stuck: none of 2 volume(s) can move; volume ")
    reason = "No pool for 1 GiB thin: 1 pool; BackendStateFilter"
    assert all(f"volume {volume_id}: {reason}" in warning for volume_id in volumes)
    refusals = [record.message for record in caplog.records if " refused: " in record.message]
    assert [sum(f"volume {volume_id} refused" in line for line in refusals) for volume_id in volumes] == [1, 1]
    caplog.clear()
    for _ in range(3):
        world.place(queue.work)  # type: ignore[arg-type]
        queue.work.clear()
        recovery.resume(find(world, recovery))
    assert [record.message for record in caplog.records] == []
    assert world.rows("SELECT COUNT(*) FROM refusals") == [(0,)]


def test_the_ids_of_pools_are_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({name: StoragePool(20, 1.0, thin=True, thick=False) for name in ("p0", "p1", "p2")}).started()
    monkeypatch.setattr(dialects, "CHUNK_SIZE", 2)
    ids = sorted(row[0] for row in world.rows("SELECT id FROM pools"))
    with world.database.reading() as session:
        assert pool_counters.next_ids(session, 0) == ids[:2]
        assert pool_counters.next_ids(session, ids[1]) == ids[2:]
        assert pool_counters.next_ids(session, ids[2]) == []
    world.engine.dispose()
