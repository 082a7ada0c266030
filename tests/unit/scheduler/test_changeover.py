# SPDX-License-Identifier: Apache-2.0
"""Going over to another default ratio and calculation, alone and with others on the same ledger."""

import pathlib
import threading
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND
from tests.unit.scheduler.world import StoragePool
from tests.unit.scheduler.world import World
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.ledger import backends
from tonnage.ledger import database
from tonnage.ledger import services
from tonnage.rpc.messages import Answer
from tonnage.scheduler import changeover
from tonnage.scheduler.changeover import Changeover
from tonnage.scheduler.peers import Peers
from tonnage.scheduler.settings import Settings

POOL = f"{BACKEND}#p0"
OWN = f"{BACKEND}#own"
CINDER, STANDARD = Calculation.CINDER, Calculation.STANDARD
#: A pool without a ratio of its own, as its report has it.
UNSET: Any = None


class Scheduler:
    """A world's scheduler with what it takes to go over to other rules."""

    def __init__(self, world: World, host: str, patience: float) -> None:
        self.world = world
        settings = Settings(
            host=host,
            availability_zone="nova",
            calculation=CINDER,
            default_ratio=20.0,
            service_down_time=60.0,
            max_attempts=3,
            batch_size=64,
            claim_lease=60,
        )
        self.peers = Peers(settings, world.database, 10.0)
        self.peers.join()
        self.changeover = Changeover(world.database, world.hosts, self.peers, patience=patience)

    def go_by(self, ratio: float | str, calculation: Calculation, by: Changeover | None = None) -> None:
        by = by or self.changeover
        by.agree(ratio, calculation)
        by.go_by(ratio, calculation)

    def ratio(self) -> float:
        pool = self.world.hosts.table.get(POOL)
        assert pool is not None
        return pool.ratio

    def places(self, size: int) -> bool:
        [answer] = self.world.create(size)
        assert isinstance(answer, Answer)
        return answer.pool is not None


@pytest.fixture
def engine(tmp_path: pathlib.Path) -> Iterator[sa.Engine]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield engine
    engine.dispose()


@pytest.fixture
def world(engine: sa.Engine) -> World:
    pools = {
        "p0": StoragePool(10, UNSET, thin=True, thick=False),
        "own": StoragePool(4, 2.0, thin=True, thick=False),
    }
    return World(pools, engine=engine).started()


@pytest.fixture
def one(world: World) -> Scheduler:
    return Scheduler(world, "one", patience=20.0)


@pytest.fixture
def two(world: World, one: Scheduler) -> Scheduler:
    other = World(world.pools, engine=world.engine)
    other.agent = world.agent
    return Scheduler(other, "two", patience=20.0)


def limits(world: World) -> dict[str, tuple[float, float, int]]:
    """Return what the ledger has: the ratio, the limit and the generation of each pool."""
    rows = world.rows("SELECT name, ratio, thin_limit_gb, generation FROM pools")
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def said(world: World) -> dict[str, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in world.rows("SELECT host, default_ratio, calculation FROM services")}


def test_alone_it_goes_over_at_once_and_the_ledger_with_it(one: Scheduler) -> None:
    before = limits(one.world)
    assert before[POOL][:2] == (20.0, 200.0)
    one.go_by(3.0, CINDER)
    assert one.ratio() == 3.0
    # One that has a ratio of its own stays as it is, so decisions that saw it hold.
    assert limits(one.world) == {POOL: (3.0, 30.0, before[POOL][2] + 1), OWN: before[OWN]}
    assert said(one.world) == {"one": ("3.0", "cinder")}
    assert [one.places(29), one.places(2), one.places(1)] == [True, True, True]  # 30 in one, 2 in the other
    assert not one.places(8)
    one.world.settle()
    one.world.check()


def test_the_calculation_changes_the_limits_of_every_pool_with_a_reserve(one: Scheduler) -> None:
    for pool in one.world.pools.values():
        pool.reserved = 50
    one.world.report()
    assert {name: limit for name, (_, limit, _) in limits(one.world).items()} == {POOL: 200.0, OWN: 8.0}
    one.go_by(20.0, STANDARD)
    assert {name: limit for name, (_, limit, _) in limits(one.world).items()} == {POOL: 100.0, OWN: 4.0}
    # Reports that bring the same figures leave it so.
    one.world.report()
    assert {name: limit for name, (_, limit, _) in limits(one.world).items()} == {POOL: 100.0, OWN: 4.0}


def test_auto_is_worked_out_of_what_was_reported(one: Scheduler) -> None:
    one.world.made(5)
    one.go_by("auto", CINDER)
    provisioned = 5.0 if one.world.pools["p0"].volumes else 0.0
    assert one.ratio() == limits(one.world)[POOL][0] == (1 + provisioned / 1 if provisioned else 20.0)


def test_while_another_goes_by_the_old_rules_nothing_changes(one: Scheduler, two: Scheduler) -> None:
    before = limits(one.world)
    hasty = Changeover(one.world.database, one.world.hosts, one.peers, patience=0.3)
    with pytest.raises(
        errors.ConfigurationError,
        match=r"option max_over_subscription_ratio is 3.0 here and 20.0 on scheduler two, which is up; it has to be "
        r"the same for all: signal all schedulers within 0.3 s, or stop the others first",
    ):
        one.go_by(3.0, CINDER, hasty)
    assert (limits(one.world), one.ratio()) == (before, 20.0)
    assert said(one.world) == dict.fromkeys(("one", "two"), ("20.0", "cinder"))
    two.peers.leave()
    one.go_by(3.0, CINDER, hasty)
    assert one.ratio() == 3.0


def test_who_differs_is_told_of_once(one: Scheduler, two: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    def look() -> list[str]:
        caplog.clear()
        with one.world.database.reading() as session:
            one.peers.look(session)
        return caplog.messages

    assert look() == []
    two.world.database.run(services.propose, two.peers._me(replace(two.peers._settings, default_ratio=3.0)), 60.0)
    assert look() == [
        "The option max_over_subscription_ratio is 20.0 here and 3.0 on scheduler two, which is up; signal all "
        "schedulers, or restart the one that is wrong"
    ]
    assert look() == []


def test_what_the_database_does_not_answer_is_asked_again(one: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    run, answers = one.world.database.run, iter([False, True, False, True])

    def flaky(work: Callable[..., Any], *given: Any) -> Any:
        if next(answers, True):
            return run(work, *given)
        raise errors.Unavailable("the database is away")

    pauses: list[float] = []
    monkeypatch.setattr(one.world.database, "run", flaky)
    monkeypatch.setattr(changeover.time, "sleep", pauses.append)
    one.go_by(3.0, CINDER)
    assert pauses == [1.0, 1.0]
    assert limits(one.world)[POOL][:2] == (3.0, 30.0)
    assert said(one.world) == {"one": ("3.0", "cinder")}


def test_together_they_go_over_and_nobody_decides_before_all_do(one: Scheduler, two: Scheduler) -> None:
    done = threading.Event()

    def change() -> None:
        one.go_by(3.0, CINDER)
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        while said(one.world)["one"] != ("3.0", "cinder"):
            assert thread.is_alive()
        # The first one waits, the second decides by the old rules.
        assert two.places(100)
        assert not done.is_set()
        two.go_by(3.0, CINDER)
    finally:
        thread.join(30)
    assert done.is_set()
    assert (one.ratio(), two.ratio()) == (3.0, 3.0)
    assert limits(one.world)[POOL][:2] == (3.0, 30.0)
    assert not one.places(9)
    assert not two.places(9)
    one.world.settle()
    one.world.check()


def test_what_others_have_restated_is_taken_over(one: Scheduler, two: Scheduler) -> None:
    two.peers.leave()
    one.go_by(3.0, CINDER)
    generation = limits(one.world)[POOL][2]
    two.go_by(3.0, CINDER)
    assert limits(one.world)[POOL] == (3.0, 30.0, generation)
    assert two.world.hosts.entries[POOL].generation == generation
    assert two.places(5)


def test_limits_from_before_all_were_stopped_are_restated_at_the_start(world: World) -> None:
    world.made(2)
    world.hosts.go_by(4.0, STANDARD)
    with world.database.reading() as session:
        rows = backends.load_pools(session)
    world.hosts.load(rows)
    assert world.hosts.entries[POOL].ratio == 20.0
    scheduler = Scheduler(world, "one", patience=0.0)
    scheduler.changeover.restate(rows)
    assert limits(world)[POOL][:2] == (4.0, 40.0)
    assert scheduler.ratio() == 4.0
    with world.database.reading() as session:
        assert world.hosts.misstated(backends.load_pools(session)) == []
        assert [row.host for row in services.load(session) if row.binary == services.SCHEDULER] == ["one"]
