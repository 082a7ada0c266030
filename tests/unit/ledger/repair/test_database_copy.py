# SPDX-License-Identifier: Apache-2.0
"""A scheduler that was suspended while the ledger was copied decides nothing in the old database."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler.model.scheduler import DOWN_TIME, Scheduler
from tests.unit.scheduler.model.storage import Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage import extension
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.locks import scheduling_rules
from tonnage.ledger.repair import consistency_check, database_copy
from tonnage.rpc.messages import (
    Answer,
    BackendState,
    CreateGroup,
    DeleteVolume,
    ExtendVolume,
    ManageVolume,
    MigrateVolume,
    Outcome,
    RetypeVolume,
    SetBackendState,
    StampQuery,
    UnmanageVolume,
)
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.requests.placement_requests import Move

BACKEND = "host0@b"
POOL = f"{BACKEND}#p"
EXTENSIONS = extension.installed()


@pytest.fixture
def target(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    """An empty database."""
    engine = database.create_engine(f"sqlite:///{tmp_path / 'copy.sqlite'}")
    ledger_schema.create(engine)
    yield database.Database(engine)
    engine.dispose()


@dataclasses.dataclass
class Copied:
    """A world whose only scheduler has a volume in its cache, and slept while its ledger was copied."""

    world: World
    volume_id: str
    pending: Outcome

    @property
    def scheduler(self) -> Scheduler:
        return self.world.schedulers[0]

    def tables(self) -> dict[str, list[Any]]:
        """Return the rows that count or order anything."""
        names = ("backends", "pools", "claims", "volumes", "storages", "rules")
        return {name: self.world.rows(f"SELECT * FROM {name} ORDER BY 1") for name in names}


@pytest.fixture
def world() -> World:
    return _world()


def _world() -> World:
    storage = Storage("array", 40)
    pools = {f"host{number}@b#p": StoragePool(storage, 2.0, thin=True, thick=False) for number in range(2)}
    world = World(pools)
    world.settle()
    return world


def copy(world: World, target: database.Database) -> None:
    world.pass_time(2 * DOWN_TIME)
    source = database.Database(world.engine)
    database_copy.copy(source, target, EXTENSIONS, DOWN_TIME, lambda table, rows: None)


@pytest.fixture
def copied(world: World, target: database.Database) -> Copied:
    return _copied(world, target)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    """The same for tests in which nothing changes."""
    engine = database.create_engine(f"sqlite:///{tmp_path_factory.mktemp('unchanged') / 'copy.sqlite'}")
    ledger_schema.create(engine)
    yield _copied(_world(), database.Database(engine))
    engine.dispose()


def _copied(world: World, target: database.Database) -> Copied:
    [answer] = world.place(world.schedulers[0], world.create_message(5))
    world.settle()
    world.place(world.schedulers[0], world.create_message(1))
    [(claim_id, name)] = world.rows(
        "SELECT claims.id, backends.name FROM claims JOIN backends ON backends.id = backend_id "
        "WHERE claims.state = 'pending'"
    )
    agent = world.agents[name]
    assert agent is not None
    assert agent.epoch is not None
    copy(world, target)
    end = agent.epoch.tick()
    outcome = Outcome(backend=name, epoch=agent.epoch.number, claim_id=claim_id, ok=True, end_tick=end, size_gb=1.0)
    return Copied(world, answer.volume_id, outcome)


def create(copied: Copied) -> Any:
    return copied.world.place(copied.scheduler, copied.world.create_message(1))[0]


def create_too_much(copied: Copied) -> Any:
    return copied.world.place(copied.scheduler, copied.world.create_message(500))[0]


def create_group(copied: Copied) -> Any:
    volumes = [copied.world.create_message(1) for _ in range(2)]
    return copied.world.place(copied.scheduler, CreateGroup(request_id="group", volumes=volumes))[0]


def extend(copied: Copied) -> Any:
    return copied.world.place(
        copied.scheduler, ExtendVolume(request_id="extend", volume_id=copied.volume_id, new_size_gb=6)
    )[0]


def migrate(copied: Copied) -> Any:
    move = Move(MigrateVolume(request_id="move", volume_id=copied.volume_id))
    return copied.world.place(copied.scheduler, move)[0]


def retype(copied: Copied) -> Any:
    with copied.world.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType).values(id="gold", name="gold", is_public=True))
    message = RetypeVolume(request_id="retype", volume_id=copied.volume_id, volume_type="gold")
    return copied.world.place(copied.scheduler, message)[0]


def delete(copied: Copied) -> Any:
    return copied.scheduler.core.operations.delete([DeleteVolume(request_id="delete", volume_id=copied.volume_id)])[0]


def manage(copied: Copied) -> Any:
    message = ManageVolume(
        request_id="manage",
        volume_id="7d0b3e95-c1f8-426a-8d3e-90b14c6fa258",
        pool=POOL,
        reference="found",
        project_id="demo",
    )
    return copied.scheduler.core.operations.manage([message])[0]


def unmanage(copied: Copied) -> Any:
    message = UnmanageVolume(request_id="unmanage", volume_id=copied.volume_id)
    return copied.scheduler.core.operations.unmanage([message])[0]


def drain(copied: Copied) -> Any:
    message = SetBackendState(backend=BACKEND, state=BackendState.DRAINING)
    return copied.scheduler.core.operations.set_backend_state([message])[0]


def outcome(copied: Copied) -> Any:
    return copied.scheduler.core.outcomes([copied.pending])[0]


def outcome_of_a_later_claim(copied: Copied) -> Any:
    return copied.scheduler.core.outcomes([dataclasses.replace(copied.pending, claim_id="later")])[0]


def stamps(copied: Copied) -> Any:
    return copied.scheduler.core.stamps(StampQuery(backend=BACKEND, storage_ids=["array"]))


def hello(copied: Copied) -> Any:
    agent = copied.world.start_agent(BACKEND)
    return copied.scheduler.core.hello(agent.hello())


def start(copied: Copied) -> Any:
    copied.world.start_scheduler()


EVENTS: tuple[Callable[[Copied], Any], ...] = (
    create,
    create_too_much,
    create_group,
    extend,
    migrate,
    retype,
    delete,
    manage,
    unmanage,
    drain,
    outcome,
    outcome_of_a_later_claim,
    stamps,
    hello,
    start,
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_nothing_takes_effect_in_a_ledger_that_was_copied(unchanged: Copied, event: Callable[[Copied], Any]) -> None:
    before = unchanged.tables()
    try:
        answer = event(unchanged)
    except errors.TonnageError as error:
        answer = error
    assert isinstance(answer, errors.LedgerMoved), answer
    assert "the ledger was copied from this database to sqlite:///" in answer.message
    assert unchanged.tables() == before


def test_no_report_takes_effect_in_a_ledger_that_was_copied(copied: Copied) -> None:
    before = copied.tables()
    agent = copied.world.agents[BACKEND]
    assert agent is not None
    copied.scheduler.core.report(PackedReport.of(agent.look()))
    copied.scheduler.thread.turn()
    assert copied.tables() == before


def test_a_scheduler_whose_ledger_was_copied_knows_that_it_has_to_end(copied: Copied) -> None:
    assert copied.scheduler.core.failure is None
    copied.scheduler.run_periodic_tasks()
    assert copied.scheduler.core.failure is not None
    assert "db copy --undo" in copied.scheduler.core.failure


def test_the_copy_can_be_used(copied: Copied, target: database.Database) -> None:
    assert target.run(scheduling_rules.read_generation) == copied.scheduler.hosts.rules_generation
    world = World({POOL: copied.world.pools[POOL]}, engine=target.engine)
    world.agents = {name: copied.world.agents[name] for name in world.drivers}
    [answer] = world.place(world.schedulers[0], world.create_message(1, request_id="later"))
    assert isinstance(answer, Answer)
    assert answer.pool is not None
    assert not consistency_check.check(target).drift


def test_a_suspended_scheduler_goes_on_after_an_undone_copy(copied: Copied) -> None:
    database_copy.undo(database.Database(copied.world.engine))
    database_copy.undo(database.Database(copied.world.engine))
    answer = create(copied)
    assert isinstance(answer, Answer)
    assert answer.pool is not None
    copied.scheduler.run_periodic_tasks()
    assert copied.scheduler.core.failure is None


def test_a_copy_that_fails_leaves_the_ledger_in_use(world: World, target: database.Database) -> None:
    def fail(table: str, rows: int) -> None:
        raise KeyboardInterrupt

    source = database.Database(world.engine)
    world.pass_time(2 * DOWN_TIME)
    with pytest.raises(KeyboardInterrupt):
        database_copy.copy(source, target, EXTENSIONS, DOWN_TIME, fail)
    [answer] = world.place(world.schedulers[0], world.create_message(1))
    assert isinstance(answer, Answer)
    world.settle()
    copy(world, target)


def test_a_second_copy_at_the_same_time_is_refused(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has passed the first check just before the other one began."""
    monkeypatch.setattr(database_copy.schema, "require_current", lambda engine, extensions: None)
    before = copied.tables()
    with pytest.raises(errors.Conflict, match=r"the ledger is being copied to sqlite:///"):
        copy(copied.world, database.Database(database.create_engine("sqlite://")))
    assert copied.tables()["rules"] == before["rules"]
