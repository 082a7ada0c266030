# SPDX-License-Identifier: Apache-2.0
"""The ledger on every database: its schema, its rules under random interleavings, and concurrent schedulers."""

import datetime
import pathlib
import threading
import uuid
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime import migration
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.scheduler.model.play import Play
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage import extension
from tonnage.capacity import errors
from tonnage.extensions.cinder.ledger import tables as cinder_tables
from tonnage.extensions.history import tables as history_tables
from tonnage.extensions.placement import tables as placement_tables
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import request_keys
from tonnage.ledger.db import database, dialects, schema
from tonnage.ledger.inventory import backends, pending_claims
from tonnage.ledger.locks import pool_counters, pool_locks
from tonnage.ledger.repair import backend_removal, database_copy
from tonnage.rpc.messages import ExtendVolume
from tonnage.scheduler.decisions import resolution


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    """An empty database."""
    engine = database.create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[sa.Engine]:
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    yield engine
    engine.dispose()


EXTENSIONS = extension.installed()


def differences(engine: sa.Engine) -> list[Any]:
    """Return the differences between the tables of a database and the models of the core and of all extensions."""
    with engine.connect() as connection:
        context = migration.MigrationContext.configure(connection, opts={"compare_type": True})
        return list(autogenerate.compare_metadata(context, ledger_schema.metadata()))


def test_an_empty_database_is_refused_with_the_command_to_run(engine: sa.Engine) -> None:
    with pytest.raises(errors.ConfigurationError, match="run 'tonnage-manage db sync'"):
        schema.require_current(engine, EXTENSIONS)


def test_a_migration_is_retried_after_a_deadlock(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run, collisions = schema._run_migrations, [1]

    def collide(connection: sa.Connection, branch: schema.Branch) -> None:
        run(connection, branch)
        if collisions:
            raise db_exc.DBDeadlock(collisions.pop())

    monkeypatch.setattr(schema, "_run_migrations", collide)
    if engine.dialect.name == "postgresql":
        schema.sync(engine, EXTENSIONS)
        schema.require_current(engine, EXTENSIONS)
    else:  # these databases cannot roll back a migration
        with pytest.raises(errors.ConfigurationError):
            schema.sync(engine, EXTENSIONS)


def test_migrations_create_the_tables_of_the_models(engine: sa.Engine) -> None:
    schema.sync(engine, EXTENSIONS)
    schema.sync(engine, EXTENSIONS)  # changes nothing
    schema.require_current(engine, EXTENSIONS)
    assert differences(engine) == []


def test_an_interrupted_migration_can_be_run_again(engine: sa.Engine) -> None:
    """MariaDB commits each table at once, and the revision last."""
    schema.sync(engine, EXTENSIONS)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
        connection.execute(sa.text("DELETE FROM volume_types"))
        for table in ("volume_type_qos_specs", "csi_claims", "type_history"):
            connection.execute(sa.text(f"DROP TABLE {table}"))
    schema.sync(engine, EXTENSIONS)
    assert differences(engine) == []
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT name FROM volume_types")).scalars().all() == [volume_types.DEFAULT]


def test_every_text_column_of_mariadb_tells_all_texts_apart(ledger: sa.Engine) -> None:
    if ledger.dialect.name != "mysql":
        return
    columns = sa.text(
        "SELECT table_name, column_name, collation_name FROM information_schema.columns"
        " WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
    )
    with ledger.connect() as connection:
        collations = {(table, column): collation for table, column, collation in connection.execute(columns)}
    texts = {
        (table.name, column.name)
        for table in ledger_schema.metadata().tables.values()
        for column in table.columns
        if isinstance(column.type, sa.String)
    }
    assert len(texts) > 100
    assert {collations[column] for column in texts} == {"utf8mb4_nopad_bin"}


def test_names_that_differ_in_case_or_in_a_space_are_different(ledger: sa.Engine) -> None:
    access, names = database.Database(ledger), ["gold", "Gold", "gold ", "góld"]

    def add(session: sa.orm.Session) -> None:
        session.add_all([models.VolumeType(id=str(uuid.uuid4()), name=name) for name in names])
        session.add(models.Backend(id=1, name="h@b"))
        session.flush()
        session.add_all([models.Pool(backend_id=1, name=f"h@b#{name}") for name in names])

    access.run(add)
    with access.reading() as session:
        for name in names:
            types = session.scalars(sa.select(models.VolumeType.name).where(models.VolumeType.name == name)).all()
            pools = session.scalars(sa.select(models.Pool.name).where(models.Pool.name == f"h@b#{name}")).all()
            assert (types, pools) == ([name], [f"h@b#{name}"])


def test_rows_of_a_disabled_extension_stay_and_keep_nothing_from_being_deleted(ledger: sa.Engine) -> None:
    """It was enabled when they were written; now the core runs alone."""
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=ledger).started()
    [answer] = world.create(3)
    assert not isinstance(answer, Exception)
    world.settle()
    slot = datetime.datetime(2026, 11, 21)  # noqa: DTZ001  (the ledger's times are UTC without a zone)
    pool = f"{BACKEND}#p0"
    rows: list[models.Base] = [
        history_tables.PoolHistory(
            **{"grain": "day", "slot": slot, "pool_id": 1, "samples": 1, "in_flight_max_gb": 0, "allocated_gb": 3},
            **dict.fromkeys(("created_gb", "deleted_gb", "moved_gb", "deleted_sum_gb", "moved_sum_gb"), 0),
        ),
        history_tables.PoolForecast(made_on=slot, pool_id=1, bound="physical", known_days=1),
        placement_tables.Allocation(
            consumer_id=answer.volume_id,
            consumer_type="volume",
            volume_id=answer.volume_id,
            pool_id=1,
            project_id="p",
            size_gb=3,
        ),
        cinder_tables.CinderDecision(
            decided_at=slot,
            verb="create",
            request_id="req",
            volume_id=answer.volume_id,
            size_gb=3,
            pool=pool,
            verdict="same",
            reason="",
            tonnage_seconds=0.0,
        ),
    ]
    world.database.run(lambda session: session.add_all(rows))
    schema.require_current(ledger, {})
    world.delete(answer.volume_id)
    world.settle()
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]
    with ledger.begin() as connection:
        connection.execute(sa.text("UPDATE backends SET last_report_at = '2020-01-01 00:00:00'"))
    assert world.database.run(backend_removal.remove_backend, BACKEND, 60.0).pools == (pool,)
    for table in ("pool_history", "pool_forecasts", "placement_allocations", "cinder_decisions"):
        assert world.rows(f"SELECT COUNT(*) FROM {table}") == [(1,)]


@pytest.mark.parametrize("is_target", [True, False])
def test_a_copy_has_the_tables_of_its_ledger_and_gives_no_id_again(
    engine: sa.Engine, tmp_path: pathlib.Path, is_target: bool
) -> None:
    other = database.create_engine(f"sqlite:///{tmp_path}/other.sqlite")
    source, target = (other, engine) if is_target else (engine, other)
    schema.sync(source, {"history": EXTENSIONS["history"]})
    made_on = datetime.datetime(2026, 11, 21)  # noqa: DTZ001  (the ledger's times are UTC without a zone)
    with source.begin() as connection:
        connection.execute(sa.insert(models.Backend), {"name": "h@b"})
        for name in ("one", "two", "three"):
            connection.execute(sa.insert(models.Pool), {"name": name, "backend_id": 1})
        row = {"made_on": made_on, "pool_id": 3, "bound": "physical", "known_days": 1}
        connection.execute(sa.insert(history_tables.PoolForecast), row)
        connection.execute(sa.delete(models.Pool).where(models.Pool.name == "three"))
    ledgers = [database.Database(source), database.Database(target)]
    database_copy.copy(*ledgers, EXTENSIONS, 60.0, lambda table, rows: None)
    assert schema.current(target) == schema.current(source)
    with target.begin() as connection:
        assert connection.execute(sa.select(history_tables.PoolForecast.pool_id)).scalars().all() == [3]
        assert connection.execute(sa.select(models.Pool.id).order_by(models.Pool.id)).scalars().all() == [1, 2]
        new = connection.execute(sa.insert(models.Pool), {"name": "four", "backend_id": 1})
        assert new.inserted_primary_key[0] == 4
    other.dispose()


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
    assert world.hosts.table.names == ("host@backend#p0",)
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


@pytest.mark.parametrize("before", [None, "array"])
@pytest.mark.parametrize("after", [None, "array", "other"])
def test_a_lock_sees_the_storages_of_its_own_moment(ledger: sa.Engine, before: str | None, after: str | None) -> None:
    """A report moves pools between storages while a settlement that has read their places waits for its locks."""
    if ledger.dialect.name == "sqlite":
        pytest.skip("a transaction of SQLite holds the lock of the whole ledger from its begin on")
    world = World({name: StoragePool(20, 1.0, thin=True, thick=False) for name in "ab"}, engine=ledger)
    world.start_agent()
    world.report()
    of_name = "UPDATE pools SET storage_id = :storage WHERE name LIKE :name"

    def move(name: str, storage: str | None) -> None:
        with ledger.begin() as connection:
            connection.execute(sa.text(of_name), {"storage": storage, "name": f"%#{name}"})

    move("a", before)
    move("b", "array")
    [(first,), (second,)] = world.rows("SELECT id FROM pools ORDER BY name")

    def lock(session: orm.Session) -> set[int]:
        place = sa.text("SELECT id, backend_id, storage_id FROM pools WHERE id = :id")
        places = [pool_locks.PoolPlace(*row) for row in session.execute(place, {"id": first})]
        move("a", next(moves, after))
        locked = pool_locks.lock_placed(session, places)
        assert locked.storages[first] == after
        return set(locked.rows)

    moves = iter([after])
    assert world.database.run(lock) == ({first, second} if after == "array" else {first})


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
        pending = pending_claims.load(session, ids=[*map(str, many), *claims])
        assert [claim.volume_id for claim in pending] == [claim.volume_id for claim in pending_claims.load(session)]
        named = replace(world.create_message(1), hints={"same_host": [*map(str, many), pending[0].volume_id]})
        assert resolution.read_references(session, [named]).volumes.keys() == {pending[0].volume_id}
    locked = world.database.run(pool_locks.lock, many)
    assert locked.backends.keys() == pools.keys()
    assert all(not isinstance(answer, Exception) for answer in answers)
