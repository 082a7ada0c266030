# SPDX-License-Identifier: Apache-2.0
"""Two agent processes that introduce themselves as the same backend."""

import time
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tests.servers.base import wait_for
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import Pool
from tonnage.ledger.db import database
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.repair import backend_removal
from tonnage.rpc.messages import AgentProcess, Hello, ListedVolume


@pytest.fixture
def world() -> World:
    return world_with_patience(600.0)


def world_with_patience(silence: float) -> World:
    """Return a world whose scheduler waits so many seconds for the report of a backend."""
    return World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, silence=silence).started()


def hello(world: World, lock: str, name: str) -> int | str:
    """Say hello as a process; return its epoch, or the message of the refusal."""
    nonce = AgentProcess(lock, name, f"{name}@box").nonce
    [answer] = world.registration.hellos(
        [Hello(backend=BACKEND, nonce=nonce, availability_zone="nova", driver="memory")]
    )
    if isinstance(answer, Exception):
        assert isinstance(answer, errors.Conflict)
        return answer.message
    return answer.epoch


def report(world: World, epoch: int) -> None:
    world.agent.epoch = epoch
    world.report()


@pytest.mark.parametrize("name", ["", "@", "#", "host@b#p", "host"])
def test_a_name_that_is_no_backend_is_refused(world: World, name: str, caplog: pytest.LogCaptureFixture) -> None:
    [answer] = world.registration.hellos([Hello(backend=name, nonce="n", availability_zone="nova", driver="memory")])
    assert isinstance(answer, errors.InvalidInput)
    assert answer.message == f"backend is {name!r}: expected host@backend, two names without '@', '#' and blanks"
    assert world.hosts.backend(name) is None
    assert f"An agent said hello as backend {name!r}, and is refused" in caplog.text


def test_a_process_with_the_lock_of_the_last_one_takes_over_at_once(world: World) -> None:
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    assert hello(world, "lock1", "1") == epoch
    assert hello(world, "lock1", "2") == epoch + 1
    assert world.report_requests == []


def test_a_second_process_does_not_take_over_while_the_first_one_reports(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = world_with_patience(1e-9)
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    for _ in range(3):
        refused = hello(world, "lock2", "2")
        assert isinstance(refused, str)
        assert f"backend {BACKEND} is run by process 1@box, so process 2@box does not run it: give each" in refused
        time.sleep(0.02)  # the clock of the ledger counts in milliseconds
        report(world, epoch)
    assert world.report_requests == [BACKEND] * 3
    assert [record.levelname for record in caplog.records if "Two agents" in record.message] == ["ERROR"]
    assert hello(world, "lock1", "1") == epoch


def test_a_second_process_takes_over_once_the_first_one_is_silent() -> None:
    world = world_with_patience(0.2)
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    assert isinstance(hello(world, "lock2", "2"), str), "the first one has some time"
    wait_for(lambda: hello(world, "lock2", "2") == epoch + 1, "the second one takes over")
    # The first one, which was only slow, does not take the backend back.
    assert isinstance(hello(world, "lock1", "1"), str)


def test_a_process_that_has_not_reported_for_a_moment_keeps_its_backend(world: World) -> None:
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    for _ in range(2):
        assert isinstance(hello(world, "lock2", "2"), str), "it has some seconds"
    assert hello(world, "lock1", "1") == epoch


@pytest.fixture
def pool_reads(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """The reads of the marks of all pools of a backend."""
    reads = mock.Mock(side_effect=backends.load_pool_marks)
    monkeypatch.setattr(backends, "load_pool_marks", reads)
    return reads


def _row(world: World) -> Pool:
    """Return the pool as decisions see it."""
    pool = world.hosts.table.get(f"{BACKEND}#p0")
    assert pool is not None
    return pool


def test_a_hello_reads_no_pools_that_the_scheduler_knows(world: World, pool_reads: mock.Mock) -> None:
    world.report()
    pool_reads.reset_mock()
    epoch = hello(world, "lock1", "1")
    assert hello(world, "lock1", "2") == int(epoch) + 1
    assert pool_reads.call_count == 0
    backend = world.hosts.backend(BACKEND)
    assert backend is not None
    assert (backend.epoch, backend.report_seq) == (int(epoch) + 1, 0)
    world.check()


def test_a_hello_shows_what_another_scheduler_has_applied(world: World, pool_reads: mock.Mock) -> None:
    other = World(world.pools, engine=world.engine)
    other.refresh()
    world.pools["p0"].total = 500
    world.report()
    assert _row(other).total == 20
    pool_reads.reset_mock()
    hello(other, "lock1", "1")
    assert pool_reads.call_count == 1
    assert _row(other).total == 500


def test_a_hello_forgets_pools_that_an_operator_has_removed(world: World) -> None:
    """Otherwise the next report would be taken for one without news, and the pool would be in no ledger."""
    world.report()
    with world.database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE backends SET last_report_at = NULL"))
    world.database.run(backend_removal.remove_backend, f"{BACKEND}#p0", 60.0)
    hello(world, "lock1", "1")
    assert world.hosts.table.get(f"{BACKEND}#p0") is None


def test_a_hello_from_another_zone_changes_the_pools(world: World) -> None:
    world.report()
    generation = world.hosts.entries[f"{BACKEND}#p0"].generation
    message = Hello(backend=BACKEND, nonce="n", availability_zone="east", driver="memory")
    world.registration.hellos([message])
    assert _row(world).availability_zone == "east"
    assert world.hosts.entries[f"{BACKEND}#p0"].generation == generation + 1


def _surplus(world: World, number: int) -> dict[str, float]:
    """List so many volumes that the ledger does not know; return the GiB that decisions count for them."""
    listing = world.agent.listing()
    volumes = [ListedVolume(volume_id=f"surplus{index}", pool="p0", size_gb=3) for index in range(number)]
    [answer] = world.registration.listings([replace(listing, volumes=[*listing.volumes, *volumes])])
    if isinstance(answer, Exception):
        raise answer
    return {name: entry.counters.external for name, entry in world.hosts.entries.items()}


def test_counters_are_read_after_a_listing_that_changes_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.report()
    reads = mock.Mock(side_effect=pool_counters.read)
    monkeypatch.setattr(pool_counters, "read", reads)
    assert _surplus(world, 0) == {f"{BACKEND}#p0": 0.0}
    assert reads.call_count == 0
    assert _surplus(world, 2) == {f"{BACKEND}#p0": 6.0}
    after = reads.call_count
    assert after > 0
    assert _surplus(world, 2) == {f"{BACKEND}#p0": 6.0}
    assert reads.call_count == after


def test_counters_that_could_not_be_read_are_read_after_the_next_listing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.report()
    with monkeypatch.context() as patched:
        patched.setattr(
            world.registration._cache_refresh,
            "refresh_counters",
            mock.Mock(side_effect=errors.DatabaseUnreachable("away")),
        )
        with pytest.raises(errors.DatabaseUnreachable):
            _surplus(world, 2)
    assert world.hosts.entries[f"{BACKEND}#p0"].counters.external == 0.0
    assert _surplus(world, 2) == {f"{BACKEND}#p0": 6.0}


@pytest.mark.parametrize("runs_again", [False, True])
def test_counters_are_read_after_a_listing_whose_commit_was_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, runs_again: bool
) -> None:
    world.report()
    commit, lost = orm.SessionTransaction.commit, iter([True])

    def lose_first_write(transaction: Any, *more: Any, **named: Any) -> None:
        commit(transaction, *more, **named)
        if world.rows("SELECT external_gb FROM pools") == [(6.0,)] and next(lost, False):
            raise db_exc.DBConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(orm.SessionTransaction, "commit", lose_first_write)
        if runs_again:
            world.registration._database = database.Database(world.engine, retry_interval=0)
            assert _surplus(world, 2) == {f"{BACKEND}#p0": 6.0}
        else:
            world.registration._database = database.Database(world.engine, max_retries=0)
            with pytest.raises(errors.DatabaseUnreachable):
                _surplus(world, 2)
            assert world.hosts.entries[f"{BACKEND}#p0"].counters.external == 0.0
            assert _surplus(world, 2) == {f"{BACKEND}#p0": 6.0}
    assert next(lost, False) is False, "the commit was lost"
