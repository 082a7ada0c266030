# SPDX-License-Identifier: Apache-2.0
"""The cache follows what other schedulers and operators write into the ledger."""

from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.request import Request
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.rpc.messages import Answer
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cache.host_manager import HostManager

POOL = f"{BACKEND}#p0"


@pytest.fixture
def world() -> World:
    return World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()


def execute(world: World, statement: str) -> None:
    with world.engine.begin() as connection:
        connection.execute(sa.text(statement))


def pool(world: World) -> Any:
    row = world.hosts.table.get(POOL)
    assert row is not None
    return row


def refresh(world: World) -> bool:
    with world.database.reading() as session:
        return world.cache_refresh.refresh(session)


def test_a_refresh_without_news_changes_nothing(world: World) -> None:
    refresh(world)
    assert not refresh(world)


def test_a_report_that_another_scheduler_applied_is_taken_over(world: World) -> None:
    execute(world, "UPDATE pools SET free_capacity_gb = 7, generation = generation + 1")
    assert not refresh(world)
    execute(world, "UPDATE backends SET report_seq = report_seq + 1")
    assert refresh(world)
    assert pool(world).free == 20.0, "the figures are those of the report, which the row of the pool carries"


def test_a_removed_backend_is_forgotten(world: World) -> None:
    execute(world, "DELETE FROM pools")
    execute(world, "DELETE FROM backends")
    assert refresh(world)
    assert len(world.hosts.table) == 0
    assert world.hosts.backend(BACKEND) is None


def test_counters_are_read_for_the_named_pools_alone(world: World) -> None:
    [(pool_id,)] = world.rows("SELECT id FROM pools")
    execute(world, "UPDATE pools SET allocated_capacity_gb = 9")
    with world.database.reading() as session:
        assert not world.cache_refresh.refresh_counters(session, [])
        assert world.cache_refresh.refresh_counters(session, [pool_id])
        assert not world.cache_refresh.refresh_counters(session, [pool_id])
    assert pool(world).allocated == 9.0


def test_only_candidates_of_a_request_are_read_again(world: World) -> None:
    execute(world, "UPDATE pools SET allocated_capacity_gb = 9")
    failed = Request(request_id="r", size_gb=1, attempted=frozenset({POOL}))
    with world.database.reading() as session:
        assert not world.cache_refresh.refresh_candidates(session, [failed], world.filters)
        assert world.cache_refresh.refresh_candidates(session, [failed, Request("r", 1)], world.filters)


def test_locked_pools_are_read_whole_and_deleted_ones_forgotten(world: World) -> None:
    [(pool_id,)] = world.rows("SELECT id FROM pools")
    execute(world, "UPDATE pools SET allocated_capacity_gb = 9")
    execute(world, "UPDATE backends SET enabled = 0")
    assert world.database.run(world.cache_refresh.lock_and_refresh, [pool_id]) == {pool_id}
    assert (pool(world).allocated, pool(world).enabled) == (9.0, False)
    execute(world, "DELETE FROM pools")
    assert world.database.run(world.cache_refresh.lock_and_refresh, [pool_id]) == set()
    assert world.hosts.table.get(POOL) is None


def test_headroom_that_the_decision_did_not_see_is_noticed(world: World) -> None:
    [answer] = world.create(5)
    assert isinstance(answer, Answer)
    [(pool_id,)] = world.rows("SELECT id FROM pools")

    def has_outgrown(counters: Counters) -> bool:
        with world.database.reading() as session:
            return world.cache_refresh.has_outgrown(session, {pool_id: counters})

    assert not has_outgrown(Counters(allocated=5, in_flight=5))
    assert not has_outgrown(Counters(allocated=6, in_flight=6))
    assert has_outgrown(Counters(allocated=5, in_flight=4)), "a claim has ended"
    execute(world, "UPDATE backends SET report_seq = report_seq + 1")
    assert has_outgrown(Counters(allocated=5, in_flight=5)), "a report was applied"


def test_a_starting_scheduler_applies_pools_outside_of_transactions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database ends transactions that are idle while a scheduler without a free processor applies many pools."""
    limits = [("host@backend#p0", 2.0, 40.0)]
    begun: list[int] = []
    sa.event.listen(world.engine, "begin", lambda connection: begun.append(1))
    sa.event.listen(world.engine, "rollback", lambda connection: begun.pop())
    world.hosts = HostManager(20.0, world.calculation, 60.0)
    apply_rows = mock.Mock(side_effect=lambda *given: begun == [] and HostManager.apply_rows(world.hosts, *given))
    monkeypatch.setattr(world.hosts, "apply_rows", apply_rows)
    read = CacheRefresh(world.hosts, lambda: world.now).load(world.database)
    assert [(row.name, row.ratio, row.thin_limit_gb) for row in read] == limits
    assert (apply_rows.call_count, len(world.hosts.table)) == (1, 1)
    assert pool(world).total == 20.0
