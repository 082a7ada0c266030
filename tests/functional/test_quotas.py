# SPDX-License-Identifier: Apache-2.0
"""Quotas under several schedulers on every database: exactly the limit, and no deadlocks."""

import random
import uuid
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.deployment import in_process
from tests.functional.deployment.in_process import RecordingAgents
from tests.servers import fixtures, ledger_schema
from tests.unit.quotas.test_reservations import Game
from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types, volumes
from tonnage.ledger.claims import bookings
from tonnage.ledger.db import database
from tonnage.ledger.locks import volume_usage
from tonnage.quotas import limits, reservations, usage_audit
from tonnage.quotas.limits import Holder, Item, LimitOwner, Resource, Scope
from tonnage.quotas.options import Settings as Quotas
from tonnage.rpc.messages import Answer, CreateVolume, ExtendVolume
from tonnage.scheduler.manager import SchedulerManager

BACKENDS, SCHEDULERS, LIMIT = 8, 3, 70


_COMBINATIONS = [
    # The normal suite tests each database, and each source of the usage, once or twice.
    pytest.param(name, source, marks=pytest.mark.heavy if (number + position) % 2 else ())
    for number, name in enumerate(fixtures.DATABASES)
    for position, source in enumerate(("ledger", "counters"))
]
on_each_database = pytest.mark.parametrize(("ledger_url", "source"), _COMBINATIONS, indirect=True)


@pytest.fixture(params=["counters", "ledger"])
def source(request: pytest.FixtureRequest) -> float:
    return 60.0 if request.param == "counters" else 0.0


@pytest.fixture
def engine(ledger_url: str) -> Iterator[sa.Engine]:
    engine = database.create_engine(ledger_url, max_overflow=30)
    ledger_schema.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def agents() -> RecordingAgents:
    return RecordingAgents()


@pytest.fixture
def schedulers(engine: sa.Engine, source: float, agents: RecordingAgents) -> Iterator[list[SchedulerManager]]:
    quotas = Quotas({Resource.VOLUMES: -1, Resource.GIGABYTES: -1}, source)
    with in_process.run_schedulers(
        engine, agents, schedulers=SCHEDULERS, backends=BACKENDS, capacity=10_000, quotas=quotas
    ) as schedulers:
        yield schedulers


@pytest.fixture
def collisions(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The errors of transactions that were retried because of another transaction."""
    return in_process.record_collisions(monkeypatch)


def limit(engine: sa.Engine, project: str, gigabytes: int, **more: int) -> None:
    values = {Item(Resource.GIGABYTES): gigabytes, **{Item(Resource(name)): value for name, value in more.items()}}
    database.Database(engine).run(limits.put, LimitOwner(Holder.PROJECT, project), values)


def used(engine: sa.Engine, project: str) -> int:
    with engine.connect() as connection:
        statement = sa.select(sa.func.sum(models.Volume.size_gb)).where(models.Volume.project_id == project)
        return int(connection.execute(statement).scalar() or 0)


def create(project: str, size: int) -> CreateVolume:
    return CreateVolume(request_id=f"req-{uuid.uuid4()}", volume_id=str(uuid.uuid4()), size_gb=size, project_id=project)


@on_each_database
def test_concurrent_requests_get_exactly_the_quota(
    engine: sa.Engine, schedulers: list[SchedulerManager], agents: RecordingAgents, collisions: list[BaseException]
) -> None:
    """All schedulers create, extend and delete volumes of two projects with a limit and one without."""
    projects = ["p1", "p2", "free"]
    for project in projects[:2]:
        limit(engine, project, LIMIT)
    chance = random.Random(5)
    sizes = [*chance.choices([2, 3, 5], k=90), *[1] * 30]

    def ask(number: int) -> tuple[str, int, Answer]:
        project = projects[number % 3]
        answer = schedulers[chance.randrange(SCHEDULERS)].place(create(project, sizes[number // 3]))
        assert answer.refusal is None or answer.refusal.excess is not None
        return project, sizes[number // 3], answer

    with futures.ThreadPoolExecutor(32) as threads:
        made = list(threads.map(ask, range(3 * len(sizes))))
    for project in projects[:2]:
        placed = [answer for of, _, answer in made if of == project and answer.pool is not None]
        assert used(engine, project) == LIMIT, project
        assert sum(size for of, size, answer in made if of == project and answer in placed) == LIMIT
    assert used(engine, "free") == sum(sizes)
    assert collisions == []
    # An extension takes from the same quota.
    schedulers[0].outcomes(agents.outcomes())
    mine = [(answer.volume_id, size) for of, size, answer in made if of == "p1" and answer.pool][:4]
    limit(engine, "p1", LIMIT + 4)

    def grow(number: int) -> bool:
        volume_id, size = mine[number % len(mine)]
        message = ExtendVolume(request_id=f"g{number}", volume_id=volume_id, new_size_gb=size + 2)
        try:
            return schedulers[number % SCHEDULERS].place(message).refusal is None
        except Exception:
            return False  # the volume is already being extended

    with futures.ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(grow, range(8))) == 2
    assert collisions == []


def test_counters_are_locked_in_the_order_of_their_writes(engine: sa.Engine) -> None:
    """The database may sort by the rules of a language."""
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            for name in ("project_id", "user_id"):
                connection.execute(
                    sa.text(f'ALTER TABLE quota_usages ALTER {name} TYPE varchar(255) COLLATE "en-x-icu"')
                )
    ledger = database.Database(engine)
    scopes = [Scope(project, user) for project in ("b", "B", "a-b", "a_b", "ab", "Ab", "é") for user in ("", "u", "U")]
    ledger.run(reservations.insert_missing, scopes)
    row = models.QuotaUsage
    with ledger.reading() as session:
        statement = sa.select(row.project_id, row.user_id).order_by(*volume_usage.counter_order(session))
        found = [(project, user) for project, user in session.execute(statement)]
    assert found == [scope[:2] for scope in sorted(scopes)]


def test_project_names_are_case_sensitive(engine: sa.Engine) -> None:
    world = World({"p0": StoragePool(1000, 2.0, thin=True, thick=False)}, engine=engine).started()
    for project in ("Demo", "demo", "démo"):
        limit(engine, project, 5)
        [answer] = world.place([create(project, 5)])
        assert isinstance(answer, Answer)
        assert answer.refusal is None, project
        with world.database.reading() as session:
            assert volumes.totals(session, volumes.Query(project_id=project)) == (1, 5)


@on_each_database
def test_random_requests_get_the_same_answers_on_every_database(engine: sa.Engine, source: float) -> None:
    chance = random.Random(11)
    world = World({"p0": StoragePool(10_000, 2.0, thin=True, thick=False)}, engine=engine).started()
    world.placer.quotas = Quotas({}, source)
    game = Game(world, [world.database.run(volume_types.create, name).id for name in ("fast", "slow")], {})
    game.change(8, 20, 9, 16)
    for _ in range(60):
        some = [(chance.randint(1, 4), chance.randrange(3), chance.choice("uv")) for _ in range(chance.randint(1, 3))]
        chance.choice(
            [
                lambda: game.create(some),  # noqa: B023
                lambda: game.group(some),  # noqa: B023
                lambda: game.extend(chance.randrange(10), chance.randint(1, 4)),
                lambda: game.retype(chance.randrange(10), chance.randrange(2)),
                lambda: game.delete(chance.randrange(10)),
                lambda: game.work(chance.random() < 0.2),
                lambda: game.work(False),
            ]
        )()
        game.check()
    assert usage_audit.check(world.database).drift == []
    assert usage_audit.sync(world.database).drift == []
    assert usage_audit.check(world.database).findings == []


class Latecomer:
    """A limit that is set, and a request that uses it, while another scheduler books without a limit."""

    def __init__(self, engine: sa.Engine, schedulers: list[SchedulerManager]) -> None:
        self._engine, self._scheduler = engine, schedulers[1]
        self._thread = futures.ThreadPoolExecutor(1)
        self.answer: futures.Future[Answer] | None = None

    def come(self) -> "futures.Future[Answer]":
        """Begin to set the limit, and place a volume of 5 GiB after it."""
        self.answer = self._thread.submit(self._come)
        return self.answer

    def _come(self) -> Answer:
        limit(self._engine, "late", 10)
        return self._scheduler.place(create("late", 5))


#: SQLite runs one transaction at a time.
@pytest.mark.parametrize("ledger_url", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("source", ["counters"], indirect=True)
@pytest.mark.parametrize("others", [False, True])
def test_a_limit_that_is_set_before_a_booking_applies_to_it(
    engine: sa.Engine, schedulers: list[SchedulerManager], others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if others:
        limit(engine, "another", 1)
    latecomer, book = Latecomer(engine, schedulers), bookings.book

    def book_late(*args: Any, **kwargs: Any) -> Any:
        if latecomer.answer is None:
            assert latecomer.come().result(60).pool is not None
        return book(*args, **kwargs)

    monkeypatch.setattr(bookings, "book", book_late)
    answer = schedulers[0].place(create("late", 8))
    assert answer.refusal is not None
    assert answer.refusal.excess is not None
    assert used(engine, "late") == 5


@pytest.mark.parametrize("ledger_url", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("source", ["counters"], indirect=True)
@pytest.mark.parametrize("others", [False, True])
def test_a_limit_that_is_set_during_a_booking_counts_it(
    engine: sa.Engine, schedulers: list[SchedulerManager], others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if others:
        limit(engine, "another", 1)
    latecomer, check = Latecomer(engine, schedulers), reservations.require_same_limits

    def check_early(*args: Any, **kwargs: Any) -> None:
        check(*args, **kwargs)
        if latecomer.answer is None:
            futures.wait([latecomer.come()], timeout=0.5)

    monkeypatch.setattr(reservations, "require_same_limits", check_early)
    assert schedulers[0].place(create("late", 8)).pool is not None
    assert latecomer.answer is not None
    refusal = latecomer.answer.result(60).refusal
    assert refusal is not None
    assert refusal.excess is not None
    assert used(engine, "late") == 8
