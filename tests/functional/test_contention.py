# SPDX-License-Identifier: Apache-2.0
"""Several schedulers that book the same pools on real databases: no wrong refusal, no deadlock."""

import collections
import dataclasses
import random
import uuid
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.functional.deployment import in_process
from tests.servers import base, ledger_schema
from tests.servers import database as servers
from tests.servers.base import wait_for
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import group_types, groups, volume_types
from tonnage.ledger.claims import bookings
from tonnage.ledger.db import database
from tonnage.ledger.locks import pool_counters, pool_locks
from tonnage.quotas import group_limit as group_quota
from tonnage.quotas.limits import Resource
from tonnage.quotas.options import Settings as Quotas
from tonnage.rpc.messages import CreateVolume, ExtendVolume, PoolQuery
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.manager import SchedulerManager

BACKENDS, CAPACITY = 20, 40
#: Sizes of twice the capacity in all. The last ones are small enough to fill every pool.
SIZES = [*random.Random(1).choices([2, 3, 5, 8], k=300), *[1] * 100]
GROUPS, EACH = 6, 8


on_postgresql = pytest.mark.parametrize(
    "engine", ["postgresql_server", pytest.param("mariadb_server", marks=pytest.mark.heavy)], indirect=True
)
on_mariadb = pytest.mark.parametrize(
    "engine", [pytest.param("postgresql_server", marks=pytest.mark.heavy), "mariadb_server"], indirect=True
)


@pytest.fixture(params=["postgresql_server", "mariadb_server"])
def engine(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    server: servers.DatabaseServer = request.getfixturevalue(request.param)
    with server.database() as url:
        engine = database.create_engine(url, max_overflow=30)
        ledger_schema.create(engine)
        yield engine
        engine.dispose()


@on_mariadb
def test_concurrent_requests_use_the_last_gib(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    collisions = in_process.record_collisions(monkeypatch)
    with in_process.run_schedulers(
        engine, in_process.RecordingAgents(), schedulers=4, backends=BACKENDS, capacity=CAPACITY
    ) as schedulers:

        def create(number: int) -> int:
            message = CreateVolume(
                request_id=f"r{number}", volume_id=str(uuid.uuid4()), size_gb=SIZES[number], project_id="p"
            )
            return SIZES[number] if schedulers[number % len(schedulers)].place(message).pool else 0

        with futures.ThreadPoolExecutor(64) as threads:
            assert sum(threads.map(create, range(len(SIZES)))) == BACKENDS * CAPACITY
    assert collisions == []


@pytest.mark.heavy
@on_postgresql
def test_concurrent_requests_keep_groups_together_and_within_the_quota(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All schedulers place the first volumes of the same groups at once; only one may choose the backend."""
    collisions, ledger = in_process.record_collisions(monkeypatch), database.Database(engine)
    kind = ledger.run(volume_types.create, "gold").id
    wanted = groups.NewGroup(
        project_id="p",
        user_id="u",
        name=None,
        description=None,
        group_type_id=ledger.run(group_types.create, "together").id,
        volume_type_ids=[kind],
    )

    def make(number: int) -> str | None:
        try:
            another = dataclasses.replace(wanted, id=str(uuid.uuid4()))
            return group_quota.create(ledger, Quotas({Resource.GROUPS: GROUPS}), another).id
        except errors.OverQuota:
            return None

    with futures.ThreadPoolExecutor(16) as threads:
        made = [group_id for group_id in threads.map(make, range(4 * GROUPS)) if group_id is not None]
    assert len(made) == GROUPS
    with in_process.run_schedulers(
        engine, in_process.RecordingAgents(), schedulers=4, backends=BACKENDS, capacity=CAPACITY
    ) as schedulers:

        def create(number: int) -> bool:
            message = CreateVolume(
                request_id=f"r{number}",
                volume_id=str(uuid.uuid4()),
                size_gb=3,
                project_id="p",
                volume_type=kind,
                group_id=made[number % GROUPS],
            )
            return schedulers[(number // GROUPS) % len(schedulers)].place(message).pool is not None

        with futures.ThreadPoolExecutor(32) as threads:
            assert all(threads.map(create, range(GROUPS * EACH)))
    at = (
        sa.select(models.Volume.group_id, models.Pool.backend_id, sa.func.count())
        .join(models.Pool, models.Pool.id == models.Volume.pool_id)
        .group_by(models.Volume.group_id, models.Pool.backend_id)
    )
    with ledger.reading() as session:
        assert sorted((row[0], row[2]) for row in session.execute(at)) == sorted((each, EACH) for each in made)
    assert collisions == []


@on_mariadb
def test_a_volume_is_not_extended_while_it_is_cloned(engine: sa.Engine) -> None:
    """Two schedulers clone and extend each source at the same time. One request of each pair is refused."""
    ledger, agents = database.Database(engine), in_process.RecordingAgents()
    sources = [str(uuid.uuid4()) for _ in range(40)]
    with in_process.run_schedulers(engine, agents, schedulers=4, backends=2, capacity=1000) as schedulers:
        for number, source in enumerate(sources):
            made = CreateVolume(request_id=f"s{number}", volume_id=source, size_gb=2, project_id="p")
            schedulers[0].place(made)
        assert all(receipt.accepted for receipt in schedulers[0].outcomes(agents.outcomes()))

        def ask(number: int) -> bool:
            pair, is_clone = number // 2, _is_clone(number)
            message = (
                CreateVolume(
                    request_id=f"r{number}",
                    volume_id=str(uuid.uuid4()),
                    size_gb=3,
                    project_id="p",
                    source_volume_id=sources[pair],
                )
                if is_clone
                else ExtendVolume(request_id=f"r{number}", volume_id=sources[pair], new_size_gb=5)
            )
            try:
                return schedulers[(pair + 2 * is_clone) % len(schedulers)].place(message).pool is not None
            except errors.Conflict:
                return False

        with futures.ThreadPoolExecutor(32) as threads:
            granted = list(threads.map(ask, range(2 * len(sources))))
    assert [sum(granted[number : number + 2]) for number in range(0, len(granted), 2)] == [1] * len(sources)
    clones = sum(granted[number] for number in range(len(granted)) if _is_clone(number))
    assert 0 < clones < len(sources), "the same request of each pair was always first, so the test shows nothing"
    with ledger.reading() as session:
        sizes = session.execute(sa.select(models.Volume.size_gb, models.Volume.status)).all()
    assert collections.Counter(map(tuple, sizes)) == {
        (3, "creating"): clones,
        (2, "available"): clones,
        (2, "extending"): len(sources) - clones,
    }


@on_postgresql
@pytest.mark.parametrize("source", ["report", "outcome"])
def test_a_request_is_not_refused_while_a_report_or_outcome_frees_capacity(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The first of two requests takes the last capacity. Another scheduler learns of more before its booking."""
    book, name, agents, meanwhile = bookings.book, "h0@b", in_process.RecordingAgents(), []
    with in_process.run_schedulers(engine, agents, schedulers=2, backends=1, capacity=6) as schedulers:
        reporter, decider = sorted(schedulers, key=lambda core: not core.membership.has_turn(name))

        def report(seq: int, provisioned: int, *listeners: SchedulerManager) -> None:
            for core in listeners:
                core.report(PackedReport.of(in_process.report(name, 6, seq=seq, provisioned=provisioned)))
            wait_for(lambda: all(_provisioned(core) == provisioned for core in listeners), "the report is applied")

        def book_late(*arguments: Any) -> Any:
            if not meanwhile:
                meanwhile.append(source)
                if source == "report":
                    report(3, 0, reporter)
                else:
                    [outcome] = agents.outcomes()
                    reporter.outcomes([dataclasses.replace(outcome, ok=False, clean=True, size_gb=0.0)])
            return book(*arguments)

        # In both cases 4 GiB are free at first.
        if source == "report":
            report(2, 2, reporter, decider)
        else:
            decider.place(_create(2))
        monkeypatch.setattr(bookings, "book", book_late)
        place = decider.decisions.placer.place
        future = decider._thread.submit(lambda works: [*map(place, works)], [*map(_create, (4, 2))])
        answers = future.result()
    assert [answer.refusal for answer in answers] == [None, None]


@pytest.mark.parametrize("engine", ["postgresql_server"], indirect=True)
def test_the_sum_of_in_flight_claims_includes_concurrent_claims(engine: sa.Engine) -> None:
    """PostgreSQL's UPDATE sums other tables as of before its wait for a row: it needs the lock first."""
    ledger = database.Database(engine)

    def claim(claim_id: str, size: int) -> models.Claim:
        row = {"id": claim_id, "volume_id": claim_id, "backend_id": 1, "pool_id": 1, "verb": "create"}
        more = {"state": pool_counters.PENDING, "provisioning": "thin", "request_id": claim_id}
        return models.Claim(**row, **more, size_gb=size, physical_gb=0, target_size_gb=size)

    def recount(session: orm.Session) -> None:
        pool_locks.lock(session, [1])
        pool_counters.recount_in_flight(session, [1])

    with orm.Session(engine) as session, session.begin():
        session.add(models.Backend(id=1, name="h@b", driver="d", availability_zone="", nonce="n", epoch=1))
        session.flush()
        at_first = {"allocated_capacity_gb": 3, "in_flight_gb": 3, "covers_epoch": 1, "covers_tick": 9}
        session.add(models.Pool(id=1, backend_id=1, name="h@b#p", stats={}, **at_first))
        session.flush()
        session.add(claim("mine", 3))
    with futures.ThreadPoolExecutor(1) as thread, orm.Session(engine) as claiming:
        with claiming.begin():
            pool_counters.add_to_backends(claiming, {1: 5})
            pool = sa.update(models.Pool).values(allocated_capacity_gb=8, in_flight_gb=8)
            claiming.execute(pool.execution_options(synchronize_session=False))
            claiming.add(claim("another's", 5))
            claiming.flush()
            ended = thread.submit(ledger.run, recount)
            base.wait_for(lambda: _lock_is_awaited(engine) or ended.done(), "a transaction waits for the pool", 30)
        ended.result()
    with ledger.reading() as session:
        assert pool_counters.read(session, [1])[1].in_flight == 8


def _create(size: int) -> CreateVolume:
    volume_id = str(uuid.uuid4())
    return CreateVolume(request_id=f"r-{volume_id}", volume_id=volume_id, size_gb=size, project_id="p")


def _is_clone(number: int) -> bool:
    """Return whether a request is a clone: the first of every other pair, the second of the rest."""
    return number % 2 == number // 2 % 2


def _provisioned(core: SchedulerManager) -> float:
    """Return the provisioned capacity of the only pool in GiB, as a scheduler knows it."""
    [pool] = core.get_pools(PoolQuery())
    return float(pool.capabilities["provisioned_capacity_gb"])


def _lock_is_awaited(engine: sa.Engine) -> bool:
    """Return whether a transaction waits for another."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with engine.connect() as connection:
        return bool(connection.exec_driver_sql(waiting).scalar())
