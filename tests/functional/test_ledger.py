# SPDX-License-Identifier: Apache-2.0
"""The ledger on every database: its schema, its rules under random interleavings, and concurrent schedulers."""

import datetime
import json
import threading
import uuid
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import autogenerate, command
from alembic.runtime import migration
from oslo_db import exception as db_exc

from tests.servers import ledger_schema
from tests.unit.scheduler.model.play import Play
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import operation_outcomes, request_keys
from tonnage.ledger.claims.settlement import EndedOperation
from tonnage.ledger.db import database, dialects, schema
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import pool_counters
from tonnage.rpc.messages import ExtendVolume
from tonnage.scheduler.decisions import resolution


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = database.create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def ledger(engine: sa.Engine) -> sa.Engine:
    ledger_schema.create(engine)
    return engine


def test_an_empty_database_is_refused_with_the_command_to_run(engine: sa.Engine) -> None:
    with pytest.raises(errors.ConfigurationError, match="run 'tonnage-manage db sync'"):
        schema.require_current(engine)


def test_a_migration_is_retried_after_a_deadlock(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade, collisions = command.upgrade, [1]

    def collide(config: Any, revision: str) -> None:
        upgrade(config, revision)
        if collisions:
            raise db_exc.DBDeadlock(collisions.pop())

    monkeypatch.setattr(command, "upgrade", collide)
    if engine.dialect.name == "postgresql":
        schema.sync(engine)
        schema.require_current(engine)
    else:  # these databases cannot roll back a migration
        with pytest.raises(errors.ConfigurationError):
            schema.sync(engine)


def test_migrations_create_the_tables_of_the_models(engine: sa.Engine) -> None:
    schema.sync(engine)
    schema.sync(engine)  # changes nothing
    schema.require_current(engine)
    with engine.connect() as connection:
        context = migration.MigrationContext.configure(connection, opts={"compare_type": True})
        assert autogenerate.compare_metadata(context, ledger_schema.metadata()) == []


def test_an_interrupted_migration_can_be_run_again(engine: sa.Engine) -> None:
    """MariaDB commits each table at once, and the revision last."""
    schema.sync(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0002'"))
        connection.execute(sa.text("DROP TABLE volume_type_qos_specs"))
    schema.sync(engine)
    with engine.connect() as connection:
        context = migration.MigrationContext.configure(connection, opts={"compare_type": True})
        assert autogenerate.compare_metadata(context, ledger_schema.metadata()) == []


def test_rows_of_the_previous_release_are_valid(engine: sa.Engine) -> None:
    """During a rolling upgrade, processes of the previous release write to the new schema."""
    schema.sync(engine, "0001")
    before = sa.MetaData()
    before.reflect(engine)
    schema.sync(engine)
    now = datetime.datetime(2026, 11, 21)  # noqa: DTZ001
    volume, claim = str(uuid.uuid4()), str(uuid.uuid4())
    rows: dict[str, dict[str, object]] = {
        "backends": {"id": 1, "name": "h@b", "driver": "memory", "availability_zone": "nova"}
        | {"allocated_capacity_gb": 3, "enabled": True, "epoch": 1, "nonce": "n", "report_seq": 1, "report_covers": 1}
        | {"last_report_at": now, "created_at": now},
        "pools": {"id": 1, "backend_id": 1, "name": "h@b#p", "present": True, "allocated_capacity_gb": 3}
        | {"in_flight_gb": 3, "in_flight_physical_gb": 0, "ratio": 2.0, "generation": 0, "covers_epoch": 1}
        | {"covers_tick": 1, "stats": {"pool_name": "p", "total_capacity_gb": 10, "free_capacity_gb": 10}},
        "volumes": {"id": volume, "project_id": "p", "user_id": "u", "size_gb": 3, "status": "creating", "pool_id": 1}
        | {"metadata": {}, "hints": {}, "attempted_pools": [], "request_id": "req-1", "created_at": now},
        "claims": {"id": claim, "volume_id": volume, "backend_id": 1, "pool_id": 1, "verb": "create", "size_gb": 3}
        | {"state": "pending", "physical_gb": 0, "target_size_gb": 3, "provisioning": "thin", "contained": False}
        | {"request_id": "req-1", "created_at": now},
        "services": {"binary": "tonnage-scheduler", "host": "old", "availability_zone": "", "last_seen_at": now},
    }
    with engine.begin() as connection:
        for name, row in rows.items():
            table = before.tables[name]
            # MariaDB stores JSON as text.
            as_text = [
                key for key, value in row.items() if isinstance(value, dict | list) and str(table.c[key].type) != "JSON"
            ]
            connection.execute(sa.insert(table), row | {key: json.dumps(row[key]) for key in as_text})
    db = database.Database(engine)
    with db.reading() as session:
        [backend] = backends.load_backends(session)
        [pool] = backends.load_pools(session)
        [pending] = backends.load_pending(session)
    assert not backend.draining
    assert (pool.counters.allocated, pool.counters.shared_allocated, pool.counters.external) == (3, 0, 0.0)
    assert (pending.id, pending.source) == (claim, None)
    ending = EndedOperation(claim_id=claim, ok=True, epoch=1, tick=5, size_gb=3)
    assert db.run(operation_outcomes.apply, [ending], 3).ended == (claim,)


def test_names_are_case_sensitive(ledger: sa.Engine) -> None:
    access = database.Database(ledger)

    def add(session: sa.orm.Session) -> None:
        session.add_all([models.VolumeType(id=str(uuid.uuid4()), name=name) for name in ("gold", "Gold")])

    access.run(add)
    with access.reading() as session:
        wanted = session.scalars(sa.select(models.VolumeType.name).where(models.VolumeType.name == "Gold")).all()
    assert wanted == ["Gold"]


@pytest.mark.parametrize("longest", [2**20, 200])
def test_a_bulk_statement_counts_its_rows_and_is_atomic(
    ledger: sa.Engine, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    """The statement may be sent in several messages. It returns the number of rows, and is rolled back as a whole."""
    monkeypatch.setattr(dialects, "_MAX_MESSAGE", longest)
    access = database.Database(ledger)
    types = models.table(models.VolumeType)
    rename = (
        sa.update(types)
        .where(types.c.name == sa.bindparam("before"))
        .values(name=sa.bindparam("after"), description="%s;")
    )

    def insert(session: sa.orm.Session) -> None:
        rows = [
            {"id": str(uuid.uuid4()), "name": f"type {number}", "description": "'; %(name)s"} for number in range(9)
        ]
        session.connection().execute(sa.insert(types), rows)

    def update(session: sa.orm.Session, *after: str) -> int:
        rows = [{"before": f"type {number}", "after": name} for number, name in enumerate(after)]
        return session.connection().execute(rename, rows).rowcount

    access.run(insert)
    with pytest.raises(db_exc.DBDuplicateEntry):
        access.run(update, "a", "b", "type 8", "d")
    assert access.run(update, *(f"new {number}" for number in range(12))) == 9
    with access.reading() as session:
        new = sa.select(types.c.name, types.c.description).where(types.c.name != volume_types.DEFAULT)
        found = session.execute(new.order_by(types.c.name)).all()
    assert [tuple(row) for row in found] == [(f"new {number}", "%s;") for number in range(9)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in (2, 3))])
def test_random_interleavings_keep_the_invariants(ledger: sa.Engine, seed: int) -> None:
    Play(seed, ledger).go(40)


def test_two_independent_schedulers_do_not_over_commit_a_pool(ledger: sa.Engine) -> None:
    """Each scheduler has a headroom of 40 GiB in memory; the conditional update allows 40 GiB in all."""
    pools = {"p0": StoragePool(20, 2.0, thin=True, thick=False)}
    first = World(pools, engine=ledger).started()
    second = World(pools, engine=ledger)
    barrier = threading.Barrier(2)

    def ask(world: World) -> int:
        barrier.wait()
        return sum(getattr(world.create(1)[0], "pool", None) is not None for _ in range(40))

    with futures.ThreadPoolExecutor(2) as threads:
        placed = sum(threads.map(ask, (first, second)))
    assert placed == 40
    assert first.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(40, 40)]
    assert first.rows("SELECT COUNT(*), SUM(size_gb) FROM claims") == [(40, 40)]


def test_a_repeated_request_creates_one_volume(ledger: sa.Engine) -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=ledger).started()
    message = world.create_message(3)
    first, again = world.place([message, message])
    assert first == again == world.place([message])[0]
    world.start_scheduler()
    assert world.place([message])[0] == first
    assert world.rows("SELECT COUNT(*), SUM(size_gb) FROM volumes") == [(1, 3)]


def test_a_repeated_request_gets_the_same_refusal(ledger: sa.Engine) -> None:
    world = World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=ledger).started()
    message = world.create_message(21)
    refused = world.place([message])[0]
    assert not isinstance(refused, Exception)
    assert refused.refusal is not None
    assert refused.refusal.nearest is not None
    world.pools["p0"].total = 100
    world.report()
    assert world.place([message])[0] == refused


def test_a_capability_that_json_cannot_hold_is_replaced(ledger: sa.Engine) -> None:
    world = World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=ledger)
    world.start_agent()
    report = world.agent.look()
    report.pools[0].update(odd=float("nan"), nested={"worse": [float("inf"), "\ud800 \0"]})
    world.deliver(report)
    assert world.hosts.table.names == ["host@backend#p0"]
    world.start_scheduler()
    assert world.hosts.table.get("host@backend#p0").capabilities["nested"] == {  # type: ignore[union-attr]
        "worse": ["infinite", "? ?"]
    }


@pytest.mark.parametrize("bad", [{"volume_id": "../../etc"}, {"request_id": "r" * 65}, {"name": "n" * 256}])
def test_an_invalid_request_does_not_affect_others_in_its_batch(ledger: sa.Engine, bad: dict[str, str]) -> None:
    world = World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=ledger).started()
    refused, placed = world.place([replace(world.create_message(1), **bad), world.create_message(1)])  # type: ignore[arg-type]
    assert isinstance(refused, errors.InvalidInput)
    assert next(iter(bad)) in refused.message
    assert not isinstance(placed, Exception)
    assert placed.pool is not None


def test_a_request_that_the_database_rejects_does_not_affect_others(ledger: sa.Engine) -> None:
    world = World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=ledger).started()
    # PostgreSQL accepts no NUL, not even in a condition.
    odd = ExtendVolume(request_id="req-odd", volume_id="\0", new_size_gb=2)
    refused, placed = world.place([odd, world.create_message(1)])
    assert isinstance(refused, Exception)
    assert not isinstance(placed, Exception)
    assert placed.pool is not None


def test_request_keys_outlive_their_volume_for_a_week(ledger: sa.Engine) -> None:
    world = World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=ledger).started()
    kept, deleted, _ = world.create(1, 1, 50)
    assert not isinstance(kept, Exception)
    assert not isinstance(deleted, Exception)
    world.settle()
    long_ago = datetime.datetime(2020, 1, 1)  # noqa: DTZ001  (the ledger's times are UTC without a zone)
    with ledger.begin() as connection:
        connection.execute(sa.update(models.RequestKey).values(counted_from=long_ago))
    world.delete(deleted.volume_id)
    world.settle()
    # The refused request has no volume and is old. The week of the deleted volume has only begun.
    assert world.database.run(request_keys.purge) == 1
    assert world.rows("SELECT COUNT(*) FROM request_keys") == [(3,)]
    with ledger.begin() as connection:
        connection.execute(sa.update(models.RequestKey).values(counted_from=long_ago))
    assert world.database.run(request_keys.purge) == 2
    assert world.rows("SELECT volume_id FROM request_keys") == [(kept.volume_id,)]


@pytest.mark.heavy
def test_more_ids_are_read_than_a_statement_has_parameters(ledger: sa.Engine) -> None:
    world = World({f"p{number}": StoragePool(20, 1.0, thin=True, thick=False) for number in range(2)}, engine=ledger)
    world.start_agent()
    world.report()
    answers = world.create(1, 1)
    claims = [row[0] for row in world.rows("SELECT id FROM claims")]
    many = range(70_000)
    with world.database.reading() as session:
        pools = {row.id: row for row in backends.load_pools(session, ids=many)}
        assert len(pools) == 2
        assert pool_counters.read(session, many) == {id: row.counters for id, row in pools.items()}
        assert [row.name for row in backends.load_backends(session, ids=many)] == [BACKEND]
        pending = backends.load_pending(session, ids=[*map(str, many), *claims])
        assert [claim.volume_id for claim in pending] == [claim.volume_id for claim in backends.load_pending(session)]
        named = replace(world.create_message(1), hints={"same_host": [*map(str, many), pending[0].volume_id]})
        assert resolution.read_references(session, [named]).volumes.keys() == {pending[0].volume_id}
    locked = world.database.run(pool_counters.lock, many)
    assert locked.backends.keys() == pools.keys()
    assert all(not isinstance(answer, Exception) for answer in answers)
