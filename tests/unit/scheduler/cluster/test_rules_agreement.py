# SPDX-License-Identifier: Apache-2.0
"""Going over to another default ratio and calculation, alone and with others on the same ledger."""

import pathlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.ledger import faults
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import heartbeats
from tonnage.rpc.messages import Answer
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.cluster.rules_agreement import RulesAgreement
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.chain import WeigherChain

POOL = f"{BACKEND}#p0"
OWN = f"{BACKEND}#own"
CINDER, STANDARD = Calculation.CINDER, Calculation.STANDARD
#: A pool without a ratio of its own, as its report has it.
UNSET: Any = None


def membership(world: World, host: str, ratio: float, calculation: Calculation) -> Membership:
    settings = Settings(
        host=host,
        availability_zone="nova",
        calculation=calculation,
        default_ratio=ratio,
        service_down_time=60.0,
        max_attempts=3,
        batch_size=64,
        claim_lease=60,
    )
    membership = Membership(settings, world.database, 10.0)
    membership.join()
    return membership


class Scheduler:
    """A world's scheduler with what it takes to go over to other rules."""

    def __init__(self, world: World, host: str, timeout: float) -> None:
        self.world = world
        self.membership = membership(world, host, 20.0, CINDER)
        world.hosts.apply_rules(20.0, CINDER, self.membership.generation)
        self.rules_agreement = RulesAgreement(world.database, world.cache_refresh, self.membership, timeout=timeout)
        world.rules = RulesInForce(Rules(self._filters(CINDER), WeigherChain([]), CINDER))
        world.placer = Placer(
            world.database,
            world.cache_refresh,
            world.rules,
            world.dispatcher,
            agreement=self.rules_agreement,
        )

    def apply_rules(self, ratio: float | str, calculation: Calculation, by: RulesAgreement | None = None) -> None:
        by = by or self.rules_agreement
        by.agree(ratio, calculation)
        self.decide_by(calculation)
        by.apply_rules(ratio, calculation)

    def decide_by(self, calculation: Calculation) -> None:
        self.world.placer.rules.apply(Rules(self._filters(calculation), WeigherChain([]), calculation))

    def catch_up(self) -> None:
        self.world.placer.follow_rules()

    def _filters(self, calculation: Calculation) -> FilterChain:
        own = CapacityFilter(SimpleNamespace(over_provisioning_calculation=calculation))
        return FilterChain([own], calculation)

    def ratio(self) -> float:
        pool = self.world.hosts.table.get(POOL)
        assert pool is not None
        return pool.ratio

    def places(self, size: int) -> bool:
        [answer] = self.world.create(size)
        assert isinstance(answer, Answer), answer
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
    return Scheduler(world, "one", timeout=120.0)


@pytest.fixture
def two(world: World, one: Scheduler) -> Scheduler:
    return another(world, "two")


def another(world: World, host: str, timeout: float = 120.0) -> Scheduler:
    other = World(world.pools, engine=world.engine)
    other.agent = world.agent
    return Scheduler(other, host, timeout)


def asleep(scheduler: Scheduler) -> None:
    """Let a scheduler have been away for long, stopped or on a host that was suspended, without knowing it."""
    with scheduler.world.engine.begin() as connection:
        long_ago = sa.text("UPDATE services SET last_seen_at = '2020-01-01 00:00:00' WHERE host = :host")
        connection.execute(long_ago, {"host": scheduler.membership._settings.host})


def limits(world: World) -> dict[str, tuple[float, float, int]]:
    """Return what the ledger has: the ratio, the limit and the generation of each pool."""
    rows = world.rows("SELECT name, ratio, thin_limit_gb, generation FROM pools")
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def said(world: World) -> dict[str, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in world.rows("SELECT host, default_ratio, calculation FROM services")}


def test_a_lone_scheduler_changes_the_rules_at_once_and_writes_the_limits(one: Scheduler) -> None:
    before = limits(one.world)
    assert before[POOL][:2] == (20.0, 200.0)
    one.apply_rules(3.0, CINDER)
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
    one.apply_rules(20.0, STANDARD)
    assert {name: limit for name, (_, limit, _) in limits(one.world).items()} == {POOL: 100.0, OWN: 4.0}
    # Reports that bring the same figures leave it so.
    one.world.report()
    assert {name: limit for name, (_, limit, _) in limits(one.world).items()} == {POOL: 100.0, OWN: 4.0}


def test_a_change_to_auto_computes_ratios_from_the_last_report(one: Scheduler) -> None:
    one.world.made(5)
    one.apply_rules("auto", CINDER)
    provisioned = 5.0 if one.world.pools["p0"].volumes else 0.0
    assert one.ratio() == limits(one.world)[POOL][0] == (1 + provisioned / 1 if provisioned else 20.0)


def test_rules_do_not_change_while_another_scheduler_applies_the_old_ones(one: Scheduler, two: Scheduler) -> None:
    before = limits(one.world)
    hasty = RulesAgreement(one.world.database, one.world.cache_refresh, one.membership, timeout=0.3)
    with pytest.raises(
        errors.ConfigurationError,
        match=r"option max_over_subscription_ratio is 3.0 here and 20.0 on scheduler two, which is up; it has to be "
        r"the same for all: signal all schedulers within 0.3 s, or stop the others first",
    ):
        one.apply_rules(3.0, CINDER, hasty)
    assert (limits(one.world), one.ratio()) == (before, 20.0)
    assert said(one.world) == dict.fromkeys(("one", "two"), ("20.0", "cinder"))
    two.membership.leave()
    one.apply_rules(3.0, CINDER, hasty)
    assert one.ratio() == 3.0


def test_a_transaction_without_an_answer_is_repeated(one: Scheduler) -> None:
    answers = iter([False, True, False, True])

    def answer(connection: object) -> None:
        if not next(answers, True):
            raise errors.Unavailable("the database is away")

    hasty = RulesAgreement(one.world.database, one.world.cache_refresh, one.membership, pause=0.01)
    with faults.before_transaction(one.world.engine, answer):
        one.apply_rules(3.0, CINDER, hasty)
    assert next(answers, None) is None, "it was asked until it had answered twice"
    assert limits(one.world)[POOL][:2] == (3.0, 30.0)
    assert said(one.world) == {"one": ("3.0", "cinder")}


def test_a_scheduler_that_stops_does_not_wait_for_a_database_that_is_away(
    one: Scheduler,
) -> None:
    one.rules_agreement.stop()
    away = errors.Unavailable("the database is away")
    with faults.failing(one.world.engine, "", away), pytest.raises(errors.Unavailable):
        one.rules_agreement.agree(3.0, CINDER)


def test_schedulers_change_their_rules_together_and_decide_after_all_agree(one: Scheduler, two: Scheduler) -> None:
    done = threading.Event()

    def change() -> None:
        one.apply_rules(3.0, CINDER)
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        while said(one.world)["one"] != ("3.0", "cinder"):
            assert thread.is_alive()
        # The first one waits, the second decides by the old rules.
        assert two.places(100)
        assert not done.is_set()
        two.apply_rules(3.0, CINDER)
    finally:
        thread.join(130)
    assert done.is_set()
    assert (one.ratio(), two.ratio()) == (3.0, 3.0)
    assert limits(one.world)[POOL][:2] == (3.0, 30.0)
    assert not one.places(9)
    assert not two.places(9)
    one.world.settle()
    one.world.check()


def test_limits_written_by_another_scheduler_are_adopted(one: Scheduler, two: Scheduler) -> None:
    two.membership.leave()
    one.apply_rules(3.0, CINDER)
    generation = limits(one.world)[POOL][2]
    two.apply_rules(3.0, CINDER)
    assert limits(one.world)[POOL] == (3.0, 30.0, generation)
    assert two.world.hosts.entries[POOL].generation == generation
    assert two.places(5)


def test_a_scheduler_with_new_rules_rewrites_the_limits_at_its_start(world: World) -> None:
    world.made(2)
    world.hosts.apply_rules(4.0, STANDARD, 0)
    with world.database.reading() as session:
        rows = backends.load_pools(session)
    world.hosts.apply_pools(rows)
    assert world.hosts.entries[POOL].ratio == 20.0
    RulesAgreement(world.database, world.cache_refresh, membership(world, "one", 4.0, STANDARD)).restate(rows)
    assert limits(world)[POOL][:2] == (4.0, 40.0)
    assert world.hosts.entries[POOL].ratio == 4.0
    with world.database.reading() as session:
        assert world.hosts.find_wrong_limits(backends.load_pools(session)) == []
        assert [row.host for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER] == ["one"]


def test_a_suspended_scheduler_writes_no_limits_by_the_old_rules(one: Scheduler, two: Scheduler) -> None:
    asleep(two)
    one.apply_rules(3.0, CINDER)
    assert limits(one.world)[POOL][:2] == (3.0, 30.0)
    # It gives signs of life and gets the same reports as all others, before it has looked around.
    two.membership.heartbeat()
    one.world.pools["p0"].total = 11
    look = one.world.agent.look()
    two.world.deliver(look)
    assert limits(one.world)[POOL][:2] == (3.0, 30.0)
    one.world.deliver(look)
    assert limits(one.world)[POOL][:2] == (3.0, 33.0)
    two.catch_up()
    assert two.ratio() == 3.0
    one.world.pools["p0"].total = 12
    two.world.deliver(one.world.agent.look())
    assert limits(one.world)[POOL][:2] == (3.0, 36.0)


def test_a_suspended_scheduler_adopts_the_rules_of_the_others(
    one: Scheduler, two: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    asleep(two)
    one.apply_rules(3.0, CINDER)
    assert not two.places(100), "it would have booked by the old ones"
    assert (
        "While this scheduler was away the others have gone over to max_over_subscription_ratio = 3.0, and it follows; "
        "it was 20.0 here: correct that in its configuration, or it does not start again"
    ) in caplog.messages
    two.membership.heartbeat()
    assert said(one.world) == dict.fromkeys(("one", "two"), ("3.0", "cinder"))
    asleep(two)
    one.apply_rules(20.0, CINDER)
    assert two.places(100), "it would have refused by the old ones"


def test_a_suspended_scheduler_adopts_the_calculation_of_the_others(one: Scheduler, two: Scheduler) -> None:
    """Without a reserve the limits are the same by both, and no row of a pool tells."""
    asleep(two)
    one.apply_rules(20.0, STANDARD)
    before = one.world.rows("SELECT generation FROM pools")
    assert two.places(5)
    assert (two.world.rules.current.calculation, two.world.hosts.calculation) == (STANDARD, STANDARD)
    assert one.world.rows("SELECT generation FROM pools") == before
    two.membership.heartbeat()
    assert said(one.world)["two"] == ("20.0", "standard")


def test_rules_that_are_changed_back_are_adopted(one: Scheduler, two: Scheduler) -> None:
    asleep(two)
    one.apply_rules(3.0, CINDER)
    one.apply_rules(20.0, CINDER)
    assert two.places(100)
    assert two.membership.generation == two.world.hosts.rules_generation == 2


def test_unknown_rules_are_not_adopted(one: Scheduler, two: Scheduler) -> None:
    asleep(two)
    one.apply_rules(3.0, CINDER)
    with one.world.engine.begin() as connection:
        connection.execute(sa.update(models.Rules).values(calculation="newer"))
    for size in (1, 1000):
        [answer] = two.world.create(size)
        assert isinstance(answer, errors.Unavailable)
        assert answer.message == (
            "all schedulers go by max_over_subscription_ratio = 3.0 and over_provisioning_calculation = newer, and "
            "scheduler two cannot: stop it, or install the release of the others"
        )
    assert (two.ratio(), two.membership.generation) == (20.0, 0)


def test_limits_are_not_rewritten_by_replaced_rules(one: Scheduler, two: Scheduler) -> None:
    """It was stopped while it went over."""
    asleep(two)
    one.apply_rules(3.0, CINDER)
    with two.world.database.reading() as session:
        rows = backends.load_pools(session)
    two.world.hosts.apply_pools(rows)
    two.rules_agreement.restate(rows)
    assert limits(one.world)[POOL][:2] == (3.0, 30.0)


def test_agreed_rules_are_not_withdrawn(one: Scheduler, two: Scheduler) -> None:
    three = another(one.world, "three")
    asleep(three)
    assert one.membership.propose(3.0, CINDER, last=False)  # it waits for two
    two.apply_rules(3.0, CINDER)
    three.membership.heartbeat()  # it wakes up before one looks again, whose patience is over
    assert not one.membership.propose(3.0, CINDER, last=True)
    one.rules_agreement.apply_rules(3.0, CINDER)
    three.catch_up()
    assert [each.ratio() for each in (one, two, three)] == [3.0, 3.0, 3.0]
    three.membership.heartbeat()
    assert set(said(one.world).values()) == {("3.0", "cinder")}
