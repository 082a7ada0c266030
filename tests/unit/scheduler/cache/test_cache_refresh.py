# SPDX-License-Identifier: Apache-2.0
"""The cache follows what other schedulers and operators write into the ledger."""

import json
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.request import Request
from tonnage.ledger import models
from tonnage.ledger.inventory import backends, reports
from tonnage.ledger.inventory.reports import PoolFigures, Report
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


def add_backends(world: World, number: int) -> None:
    """Add copies of the backend and its pool."""
    with world.engine.begin() as connection:
        for model in (models.Backend, models.Pool):
            table = models.table(model)
            row = connection.execute(sa.select(table)).mappings().one()
            ids = ["id"] if model is models.Backend else ["id", "backend_id"]
            copies = [
                {**row, **{key: row[key] + copy for key in ids}, "name": row["name"].replace("@", f"{copy:02}@")}
                for copy in range(1, number + 1)
            ]
            connection.execute(sa.insert(table), copies)


def report_elsewhere(world: World, backend: str) -> None:
    """Have another scheduler apply a report of a backend that has 50 GiB."""
    columns = "b.id, b.epoch, b.report_seq, b.report_covers, b.rules_generation, p.id, p.name, p.stats"
    tables = "backends b JOIN pools p ON p.backend_id = b.id"
    [(id, epoch, seq, covers, rules, pool_id, name, stats)] = world.rows(
        f"SELECT {columns} FROM {tables} WHERE b.name = '{backend}'"
    )
    changed_stats = {**json.loads(stats), "total_capacity_gb": 50, "free_capacity_gb": 50}
    figures = PoolFigures(pool_id, name, 50.0, 50.0, None, 2.0, 100.0, 50.0, None, None, True, changed_stats)
    report = Report(
        backend_id=id, epoch=epoch, seq=seq + 1, base=seq, covers=covers + 1, rules=rules, figures=[figures]
    )
    assert world.database.run(reports.apply, [report]) != [None]


def contents(hosts: HostManager) -> dict[str, Any]:
    """Return the figures that decisions read, and the marks that a refresh compares with the ledger."""
    entries = {name: (entry.id, entry.generation, entry.counters) for name, entry in hosts.entries.items()}
    states = {
        backend.name: (backend.id, backend.enabled, backend.epoch, backend.report_seq, backend.report_covers)
        for backend in hosts.backends()
    }
    # As text: a figure that is not a number equals no other one.
    pools = {name: repr(hosts.table.get(name)) for name in hosts.table.names}
    return {"pools": pools, "entries": entries, "states": states}


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_changes_while_a_starting_scheduler_reads_are_taken_over(
    world: World, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    """Groups of backends are read at different moments, all of them after the rows of the backends."""
    add_backends(world, 24)
    with world.database.reading() as session:
        names = [row.name for row in backends.load_backends(session)]
    starting = CacheRefresh(HostManager(20.0, world.calculation, 60.0), lambda: world.now)
    applied: list[str] = []

    def apply_rows(row: Any, *more: Any) -> Any:
        result = HostManager.apply_rows(starting.hosts, row, *more)
        applied.append(row.name)
        if len(applied) == min(10 * groups, 25):
            for name in (names[2], names[12], names[22]):
                execute(world, f"DELETE FROM pools WHERE name LIKE '{name}#%'")
                execute(world, f"DELETE FROM backends WHERE name = '{name}'")
            for name in (names[4], names[14], names[24]):
                report_elsewhere(world, name)
        return result

    monkeypatch.setattr(starting.hosts, "apply_rows", apply_rows)
    starting.load(world.database)
    assert applied == names
    with world.database.reading() as session:
        assert starting.refresh(session)
    fresh = CacheRefresh(HostManager(20.0, world.calculation, 60.0), lambda: world.now)
    fresh.load(world.database)
    assert contents(starting.hosts) == contents(fresh.hosts)
    totals = [getattr(fresh.hosts.table.get(name), "total", None) for name in fresh.hosts.table.names]
    assert (totals.count(20.0), totals.count(50.0)) == (19, 3)


def test_a_starting_scheduler_applies_pools_outside_of_transactions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database ends transactions that are idle while a scheduler without a free processor applies many pools."""
    limits = [("host@backend#p0", 2.0, 40.0)]
    begun: list[int] = []
    sa.event.listen(world.engine, "begin", lambda connection: begun.append(1))
    sa.event.listen(world.engine, "rollback", lambda connection: begun.pop())
    world.hosts = HostManager(20.0, world.calculation, 60.0)
    apply_rows = mock.Mock(side_effect=lambda *rows: begun == [] and HostManager.apply_rows(world.hosts, *rows))
    monkeypatch.setattr(world.hosts, "apply_rows", apply_rows)
    read = CacheRefresh(world.hosts, lambda: world.now).load(world.database)
    assert [(row.name, row.ratio, row.thin_limit_gb) for row in read] == limits
    assert (apply_rows.call_count, len(world.hosts.table)) == (1, 1)
    assert pool(world).total == 20.0
