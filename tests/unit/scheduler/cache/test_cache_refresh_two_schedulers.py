# SPDX-License-Identifier: Apache-2.0
"""Two schedulers, each with a memory of its own, on one ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.ledger import faults
from tests.unit.scheduler.model import storage as model_storage
from tests.unit.scheduler.model import world as model_world
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.request import Provisioning, Request
from tonnage.filters.affinity import SameBackendFilter
from tonnage.filters.base import PoolFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger.catalog import group_types, groups, volume_types
from tonnage.ledger.db import database
from tonnage.ledger.inventory import backends
from tonnage.ledger.repair import backend_removal
from tonnage.rpc.messages import Answer, BackendReport, CreateGroup, GroupAnswer, MigrationPolicy, RetypeVolume
from tonnage.scheduler.requests.pool_selection import Rules

POOL = f"{BACKEND}#p0"


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    engine = database.create_engine("sqlite://")
    yield engine
    engine.dispose()


@pytest.fixture
def one(engine: sa.Engine) -> World:
    return World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=engine).started()


@pytest.fixture
def two(one: World) -> World:
    """A second scheduler, which the same agent reports to."""
    world = World(one.pools, engine=one.engine)
    world.agent = one.agent
    return world


def heard_of(volume_gb: int, one: World, two: World) -> str:
    """Have the first scheduler make a volume that both know of; return its id."""
    volume_id = one.made(volume_gb)
    two.deliver(one.agent.look())
    return volume_id


def deleted_unheard(volume_id: str, one: World) -> None:
    """Delete a volume: the second scheduler hears nothing of it."""
    one.delete(volume_id)
    one.settle()


def provisioned(world: World) -> float:
    return float(world.rows("SELECT provisioned_capacity_gb FROM pools")[0][0])


def placed(answer: Answer | object) -> bool:
    assert isinstance(answer, Answer)
    return answer.pool is not None


def test_a_report_between_two_reads_of_the_ledger_causes_no_refusal(
    one: World, two: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard_of(12, one, two)
    two.create(6)
    outcome = one.agent.work(fails=True, clean=True)
    assert outcome is not None
    one.deliver(outcome)  # now there is room for 8, and the second scheduler remembers 2
    load, meanwhile = backends.load_backends, []

    def interrupted(session: orm.Session, **given: Any) -> Sequence[backends.BackendRow]:
        rows = load(session, **given)
        if not meanwhile:
            # A report without the volume of 12 GiB, and then another scheduler's claim: now there is room for 5.
            meanwhile.append(session.execute(sa.text("UPDATE backends SET report_seq = report_seq + 1")))
            session.execute(sa.text("UPDATE pools SET provisioned_capacity_gb = 0, in_flight_gb = 15"))
        return rows

    monkeypatch.setattr(backends, "load_backends", interrupted)
    [answer] = two.create(5)
    assert meanwhile
    assert placed(answer)


def test_a_refusal_in_a_later_round_also_follows_the_ledger() -> None:
    """Of what is to be placed together each is refused by the ledger alone, in however many rounds."""
    pools = {
        "thin@b#p": model_storage.StoragePool(model_storage.Storage(None, 1), 1.0, thin=True, thick=False),
        "full@b#p": model_storage.StoragePool(model_storage.Storage(None, 30), 1.0, thin=False, thick=True),
        "free@b#p": model_storage.StoragePool(model_storage.Storage(None, 40), 1.0, thin=False, thick=True),
    }
    world = model_world.World(pools, schedulers=2)
    one, two = world.schedulers
    for name, wanted in (("thin", "<is> True"), ("thick", "<is> False")):
        specs = {"thin_provisioning_support": wanted}
        one.core.database.run(lambda session, name=name, specs=specs: volume_types.create(session, name, specs=specs))
    world.settle()
    two.run_periodic_tasks()  # knows all reports

    def ask(*wanted: tuple[int, str]) -> list[str | None]:
        answers = world.place(two, *(world.create_message(size, volume_type=kind) for size, kind in wanted))
        return [answer.pool for answer in answers]

    # The second scheduler remembers that the one pool has 30 GiB left and the other one 4. It is the other way round:
    # the one has been filled by hand, and what was to be made in the other has failed.
    assert ask((36, "thick")) == ["free@b#p"]
    world.deliver(world.bus.pop(), two)
    full, free = world.agents["full@b"], world.agents["free@b"]
    assert full is not None
    assert free is not None
    free.work(model_storage.Fate(fails=True, clean=True))
    world.deliver(world.bus.pop(), one)
    pools["full@b#p"].copies["by-hand"] = model_storage.Copy(30, Provisioning.THICK, 30)
    world.deliver(model_world.Letter(full.look(), one.host), one)
    assert ask((5, "thin"), (10, "thick")) == [None, "free@b#p"]


def test_a_backend_that_another_scheduler_enabled_has_its_current_headroom(one: World, two: World) -> None:
    def switch(enabled: bool) -> None:
        with one.engine.begin() as connection:
            connection.execute(sa.text("UPDATE backends SET enabled = :enabled"), {"enabled": enabled})

    heard_of(12, one, two)
    two.create(6)
    switch(False)
    two.refresh()
    outcome = one.agent.work(fails=True, clean=True)
    assert outcome is not None
    one.deliver(outcome)  # now there is room for 8, and the second scheduler remembers 2, on a disabled backend
    switch(True)
    [answer] = two.create(5)
    assert placed(answer)


def test_a_report_is_compared_with_the_last_applied_report_and_not_with_an_old_cache(one: World, two: World) -> None:
    one.create(8)
    one.settle()
    two.deliver(one.agent.look())
    assert provisioned(one) == 8
    [volume] = one.pools["p0"].volumes
    kept = one.pools["p0"].volumes.pop(volume)
    one.report()  # which the other one never gets
    assert provisioned(one) == 0
    one.pools["p0"].volumes[volume] = kept
    two.deliver(one.agent.look())  # nothing new, for who knows nothing of the report between
    assert provisioned(one) == 8
    one.check()


def test_a_report_is_applied_by_a_scheduler_that_missed_the_previous_one(one: World, two: World) -> None:
    two.deliver(one.agent.look())
    for total in (30, 40):
        one.pools["p0"].total = total
        one.report()
    one.pools["p0"].total = 50
    two.deliver(one.agent.look())
    assert one.rows("SELECT total_capacity_gb FROM pools") == [(50,)]
    row = two.hosts.table.get(POOL)
    assert row is not None
    assert row.total == 50


def test_a_report_applied_by_another_scheduler_is_adopted(one: World, two: World) -> None:
    one.create(5)
    one.agent.work()
    report = one.agent.look()
    one.deliver(report)
    two.deliver(report)
    row = two.hosts.table.get(POOL)
    assert row is not None
    assert (row.provisioned, row.allocated) == (5, 5)
    assert two.hosts.backend(BACKEND).report_seq == report.seq  # type: ignore[union-attr]


def test_refused_figures_leave_the_age_of_the_old_ones_in_every_scheduler(one: World, two: World) -> None:
    first = one.agent.look()
    one.deliver(first)
    two.deliver(first)
    for _ in range(2):
        one.pass_time(10)
        two.now = one.now
        look = one.agent.look()
        look = replace(look, pools=[{**look.pools[0], "free_capacity_gb": "many"}])
        one.deliver(look)
        # The second scheduler finds it in the ledger before it gets the report.
        two.refresh()
        two.deliver(look)
    assert two.hosts.backend(BACKEND).report_seq == one.hosts.backend(BACKEND).report_seq  # type: ignore[union-attr]
    assert [world.hosts.age(POOL, 20.0) for world in (one, two)] == [pytest.approx(20, abs=5)] * 2
    one.report()
    assert one.hosts.age(POOL, 20.0) == 0


def test_a_request_is_refused_only_by_figures_of_the_ledger(one: World, two: World) -> None:
    volume_id = heard_of(20, one, two)
    assert not placed(two.create(20)[0])
    deleted_unheard(volume_id, one)
    # By its memory the second one would refuse.
    assert placed(two.create(20)[0])


def test_a_batch_with_refusals_is_booked_once_if_the_ledger_has_not_changed(one: World, two: World) -> None:
    heard_of(5, one, two)
    with faults.executions(two.engine, "INSERT INTO claims") as booked:
        assert list(map(placed, two.create(9, 9, 6))) == [True, False, True]
    assert list(map(len, booked)) == [2]


class AlmostEmpty(PoolFilter):
    """One of somebody else, that looks at a figure."""

    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        return pool.allocated < 6


def failed_unheard(size: int, one: World, two: World) -> None:
    """Have the second scheduler order a volume that is not made: only the first one hears that."""
    two.create(size)
    outcome = one.agent.work(fails=True, clean=True)
    assert outcome is not None
    one.deliver(outcome)


def goes_by_figures(world: World) -> None:
    """Let a scheduler run a filter that looks at figures, and one for types."""
    conf = SimpleNamespace()
    chain = FilterChain([AlmostEmpty(conf), CapabilitiesFilter(conf), *world.filters.filters])
    world.rules.apply(Rules(chain, world.weighers, world.calculation))


def typed(world: World, name: str, pool: str) -> str:
    """Return the id of a new type for volumes of one pool."""

    def make(session: orm.Session) -> str:
        return volume_types.create(session, name, specs={"pool_name": pool}).id

    return world.database.run(make)


def test_a_filter_of_figures_refuses_by_those_of_the_ledger(one: World, two: World) -> None:
    heard_of(1, one, two)
    goes_by_figures(two)
    failed_unheard(5, one, two)
    assert placed(two.create(1)[0])


def test_the_backend_of_a_group_is_chosen_by_figures_of_the_ledger(engine: sa.Engine) -> None:
    """The group asks for a pool for each of two types. That for the other type seems to be too full."""
    rooms = {"p0": 20, "p1": 10}
    pools = {name: StoragePool(room, 1.0, thin=True, thick=False) for name, room in rooms.items()}
    one, two = World(pools, engine=engine).started(), World(pools, engine=engine)
    two.agent = one.agent
    gold, silver = typed(one, "gold", "p1"), typed(one, "silver", "p0")

    def group(session: orm.Session) -> str:
        of_groups = group_types.create(session, "together").id
        wanted = groups.NewGroup(
            project_id="demo",
            user_id="",
            name=None,
            description=None,
            group_type_id=of_groups,
            volume_type_ids=[gold, silver],
        )
        return groups.create(session, wanted).id

    wanted = replace(two.create_message(1), volume_type=gold, group_id=one.database.run(group))
    heard_of(1, one, two)
    goes_by_figures(two)
    failed_unheard(5, one, two)
    assert [entry.counters.allocated for entry in two.hosts.entries.values()] == [6, 0]
    assert placed(two.place([wanted])[0])


def test_a_group_is_refused_by_the_ledger_and_not_by_an_old_cache(one: World, two: World) -> None:
    heard_of(1, one, two)
    failed_unheard(19, one, two)
    messages = [two.create_message(5), two.create_message(5)]
    bound = [
        replace(each, hints={"same_host": other.volume_id})
        for each, other in zip(messages, messages[::-1], strict=True)
    ]
    chain = FilterChain([SameBackendFilter(SimpleNamespace()), *two.filters.filters])
    two.rules.apply(Rules(chain, two.weighers, two.calculation))
    [answer] = two.place([CreateGroup(request_id=two.request_id(), volumes=bound)])
    assert isinstance(answer, GroupAnswer)
    assert answer.refusal is None


def test_a_retype_stays_in_its_pool_if_the_ledger_permits_it(one: World, two: World) -> None:
    volume_id = heard_of(1, one, two)
    kind = typed(one, "gold", "p0")
    goes_by_figures(two)
    failed_unheard(5, one, two)
    wanted = RetypeVolume(
        request_id="t", volume_id=volume_id, volume_type=kind, migration_policy=MigrationPolicy.ON_DEMAND
    )
    [answer] = two.place([wanted])
    assert isinstance(answer, Answer)
    assert answer.pool == POOL


def test_two_requests_of_a_batch_are_refused_by_the_ledger_and_not_by_an_old_cache(one: World, two: World) -> None:
    deleted_unheard(heard_of(20, one, two), one)
    assert all(placed(answer) for answer in two.create(10, 10))


def test_a_backend_that_another_scheduler_enabled_again_takes_volumes(one: World, two: World) -> None:
    two.deliver(one.agent.look())
    for enabled in (False, True):
        row = one.database.run(backends.set_state, BACKEND, enabled=enabled, draining=False, reason=None)
        if not enabled:
            two.hosts.apply_backend_state(row)
    assert placed(two.create(5)[0])


def test_an_unknown_backend_that_is_silent_takes_no_volumes(engine: sa.Engine) -> None:
    one, two = (World({"p0": StoragePool(20, 1.0, thin=True, thick=False)}, engine=engine) for _ in range(2))
    one.started()
    long_ago = sa.text("UPDATE backends SET last_report_at = '2000-01-01 00:00:00'")
    one.database.run(lambda session: session.execute(long_ago) and None)
    assert not placed(two.create(5)[0])
    one.report()
    assert placed(two.create(5)[0])


def test_a_lone_scheduler_refuses_by_its_cache(one: World, two: World) -> None:
    deleted_unheard(heard_of(20, one, two), one)
    two.placer.agreement = SimpleNamespace(is_alone=lambda session: True)
    assert not placed(two.create(20)[0])


def test_a_removed_backend_that_returns_takes_volumes(one: World, two: World) -> None:
    two.deliver(one.agent.look())
    long_ago = sa.text("UPDATE backends SET last_report_at = '2000-01-01 00:00:00'")
    one.database.run(lambda session: session.execute(long_ago) and None)
    one.database.run(backend_removal.remove_backend, BACKEND, 60.0)
    # Another backend has taken the number meanwhile, as it may on SQLite.
    one.database.run(backends.hello, "other@backend", "n", "nova", "memory")
    for world in (one, two):
        world.agent.nonce = one.agent.nonce
    one.start_agent()
    one.report()
    two.agent = one.agent
    two.deliver(one.agent.look())
    assert placed(two.create(5)[0])
    assert placed(one.create(5)[0])


def test_a_pool_that_leaves_its_storage_is_counted_separately(engine: sa.Engine) -> None:
    world = World({name: StoragePool(20, 1.0, thin=True, thick=False) for name in ("p0", "p1")}, engine=engine)
    world.start_agent()

    def on_storage(*names: str) -> BackendReport:
        report = world.agent.look()
        pools = [{**pool, "storage_id": "array" if pool["pool_name"] in names else None} for pool in report.pools]
        return replace(report, pools=pools, stamps={"array": 0})

    def shared() -> list[tuple[str, int, int]]:
        return world.rows("SELECT name, shared_allocated_gb, shared_in_flight_gb FROM pools ORDER BY name")

    world.deliver(on_storage("p0", "p1"))
    world.create(3)
    assert sorted(row[1:] for row in shared()) == [(0, 0), (3, 3)]
    world.deliver(on_storage("p0"))
    assert [row[1:] for row in shared()] == [(0, 0), (0, 0)]
    world.deliver(on_storage("p0", "p1"))
    assert sorted(row[1:] for row in shared()) == [(0, 0), (3, 3)]


def test_only_pools_that_were_written_are_read_again(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = {name: StoragePool(20, 1.0, thin=True, thick=False) for name in ("p0", "p1", "p2")}
    one, two = World(pools, engine=engine).started(), World(pools, engine=engine)
    two.agent = one.agent
    one.report()
    two.refresh()
    load, read = backends.load_pools, []

    def counted(session: orm.Session, **given: Any) -> list[backends.PoolRow]:
        rows = load(session, **given)
        read.extend(row.name for row in rows)
        return rows

    monkeypatch.setattr(backends, "load_pools", counted)
    one.pools["p1"].total = 30
    one.report()
    one.report()
    two.refresh()
    assert read == [f"{BACKEND}#p1"]
    assert [(pool.name, pool.total) for pool in map(two.hosts.table.get, two.hosts.table.names) if pool] == [
        (f"{BACKEND}#p0", 20),
        (f"{BACKEND}#p1", 30),
        (f"{BACKEND}#p2", 20),
    ]
    # The next report changes one pool, by the comparison with a cache that is up to date.
    one.pools["p2"].total = 40
    two.deliver(one.agent.look())
    assert two.rows("SELECT total_capacity_gb FROM pools ORDER BY name") == [(20,), (30,), (40,)]
