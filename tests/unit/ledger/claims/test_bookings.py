# SPDX-License-Identifier: Apache-2.0
"""Bookings by schedulers whose caches lack changes of the ledger."""

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.model.scheduler import Scheduler
from tests.unit.scheduler.model.storage import Storage, StoragePool
from tests.unit.scheduler.model.world import World
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.ledger import models
from tonnage.ledger.claims import bookings
from tonnage.ledger.models import claim_verbs
from tonnage.rpc.messages import Answer, BackendState, CreateGroup, SetBackendState


def shared_storage(count: int = 2, **more: object) -> World:
    """Return a world of two schedulers whose pools each draw on the whole of one storage of 40 GiB."""
    storage = Storage("array", 40)
    pools = {
        f"host{number}@b#p": StoragePool(storage, 1.0, thin=True, thick=False, **more)  # type: ignore[arg-type]
        for number in range(count)
    }
    world = World(pools, schedulers=2)
    world.settle()
    return world


def place(world: World, scheduler: Scheduler, *sizes: int) -> list[str | None]:
    """Request volumes of these sizes at once; return their pools."""
    answers = world.place(scheduler, *map(world.create_message, sizes))
    assert all(isinstance(answer, Answer) for answer in answers), answers
    return [answer.pool for answer in answers]


@pytest.mark.parametrize("reports_provisioned", [True, False])
def test_pools_of_one_storage_see_each_other_within_a_batch(reports_provisioned: bool) -> None:
    world = shared_storage(reports_provisioned=reports_provisioned)
    first, second = world.schedulers
    assert place(world, first, 10) != [None]
    # The second scheduler's cache shows room for 40 GiB, and each pool alone would still take its part.
    single_pool = world.create_message(20)
    two = world.create_message(20, hints={"different_host": [single_pool.volume_id]})
    [answer] = world.place(second, CreateGroup(request_id=world.request_id(), volumes=[single_pool, two]))
    assert answer.refusal is not None
    assert world.rows("SELECT SUM(allocated_capacity_gb) FROM pools") == [(10,)]


def test_a_pool_sees_what_another_scheduler_claimed_on_its_storage() -> None:
    world = shared_storage()
    first, second = world.schedulers
    # The pools have equal weights, so each scheduler may choose either.
    placed = [pool for _ in range(3) for scheduler in (first, second) for pool in place(world, scheduler, 9)]
    assert [pool is not None for pool in placed] == [True] * 4 + [False] * 2


@pytest.mark.parametrize("state", [BackendState.DISABLED, BackendState.DRAINING])
def test_no_booking_on_a_backend_that_another_scheduler_disabled_or_drains(state: BackendState) -> None:
    world = shared_storage(count=1)
    first, second = world.schedulers
    first.core.operations.set_backend_state([SetBackendState(backend="host0@b", state=state)])
    # A report carries the pools' generations, and nothing of the backend.
    agent = world.agents["host0@b"]
    assert agent is not None
    world.report(agent)
    for letter in list(world.bus):
        world.deliver(letter, first)
    assert place(world, second, 1) == [None]
    assert world.rows("SELECT COUNT(*) FROM claims") == [(0,)]


@pytest.mark.parametrize("twice_in_one_batch", [True, False])
def test_a_repeated_request_makes_one_volume_on_any_scheduler(twice_in_one_batch: bool) -> None:
    world = shared_storage()
    first, second = world.schedulers
    message = world.create_message(9)
    answers = world.place(first, *([message, message] if twice_in_one_batch else [message]))
    answers += world.place(second, message)
    world.start_scheduler(1)
    answers += world.place(world.schedulers[1], message)
    assert all(answer == answers[0] for answer in answers)
    assert isinstance(answers[0], Answer)
    assert world.rows("SELECT COUNT(*), SUM(size_gb) FROM claims") == [(1, 9)]


def single_pool(thin: bool, **more: object) -> World:
    """Return a world of two schedulers and one pool of 40 GiB."""
    pool = StoragePool(Storage(None, 40), 2.0, thin=thin, thick=True, **more)  # type: ignore[arg-type]
    world = World({"host0@b#p": pool}, schedulers=2)
    world.settle()
    return world


@pytest.mark.parametrize(
    ("thin", "sizes", "more"),
    [
        (True, (40, 41), {}),
        (True, (40, 41), {"reports_provisioned": False}),
        (False, (20, 21), {}),
    ],
    ids=["thin", "no provisioned capacity", "thick"],
)
def test_a_booking_respects_the_claims_of_another_scheduler(
    thin: bool, sizes: tuple[int, int], more: dict[str, object]
) -> None:
    world = single_pool(thin, **more)
    first, second = world.schedulers
    assert place(world, first, sizes[0]) == ["host0@b#p"]
    assert place(world, second, sizes[1]) == [None]
    assert place(world, second, sizes[1] - 1) == ["host0@b#p"]


@pytest.mark.parametrize("closed", [{"enabled": False}, {"draining": True}], ids=["disabled", "drained"])
def test_no_booking_on_a_backend_closed_after_the_decision(closed: dict[str, bool]) -> None:
    world = single_pool(thin=True)
    with world.engine.begin() as connection:
        connection.execute(sa.update(models.Backend).values(**closed))
    answers = world.place(world.schedulers[0], world.create_message(1))
    assert not any(isinstance(answer, Answer) and answer.pool is not None for answer in answers)
    with world.engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(models.Claim)).scalar_one() == 0


@pytest.fixture
def mixed_pool() -> World:
    """A world of two schedulers, one pool of 40 GiB with ratio 2, and a volume type for thick volumes."""
    world = single_pool(thin=True)
    with world.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType).values(id="thick", name="thick", is_public=True))
        connection.execute(
            sa.insert(models.ExtraSpec).values(volume_type_id="thick", key="provisioning:type", value="thick")
        )
    return world


def place_thick(world: World, scheduler: Scheduler, size: int) -> str | None:
    """Request a thick volume; return its pool."""
    [answer] = world.place(scheduler, world.create_message(size, volume_type="thick"))
    assert isinstance(answer, Answer), answer
    return answer.pool


def test_thick_claims_of_another_scheduler_limit_thin_volumes(mixed_pool: World) -> None:
    first, second = mixed_pool.schedulers
    assert place_thick(mixed_pool, first, 30) is not None
    # 10 GiB are free, times the ratio 2.
    assert place(mixed_pool, second, 21) == [None]
    assert place(mixed_pool, second, 20) == ["host0@b#p"]


def test_a_batch_of_thin_volumes_needs_free_space_for_its_largest_only(mixed_pool: World) -> None:
    scheduler = mixed_pool.schedulers[0]
    assert place_thick(mixed_pool, scheduler, 30) is not None
    request_id = mixed_pool.request_id()
    members = [mixed_pool.create_message(size, request_id=request_id) for size in (20, 15, 15)]
    [answer] = mixed_pool.place(scheduler, CreateGroup(request_id=request_id, volumes=members))
    assert [each.pool for each in answer.volumes] == ["host0@b#p"] * 3
    # The limit is 2 * 40 GiB, thick volumes included.
    assert place(mixed_pool, scheduler, 1) == [None]


def test_thick_volumes_depend_on_free_space_only(mixed_pool: World) -> None:
    first, second = mixed_pool.schedulers
    assert place(mixed_pool, first, 70) == ["host0@b#p"]
    assert place_thick(mixed_pool, second, 41) is None
    assert place_thick(mixed_pool, second, 40) == "host0@b#p"
    assert mixed_pool.rows("SELECT in_flight_gb, thin_limit_gb FROM pools") == [(110, 80)]


def test_external_capacity_counts_without_reported_provisioned_capacity() -> None:
    world = single_pool(thin=True, reports_provisioned=False)
    [scheduler, _] = world.schedulers
    with world.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(external_gb=50))
    assert place(world, scheduler, 31) == [None]
    assert place(world, scheduler, 30) == ["host0@b#p"]


@pytest.mark.parametrize("verb", [claim_verbs.MIGRATE, claim_verbs.EXTEND])
def test_a_volume_that_was_moved_meanwhile_is_not_moved_or_extended(verb: str) -> None:
    world = World({f"host{n}@b#p": StoragePool(Storage(None, 40), 1.0, thin=True, thick=False) for n in range(3)})
    world.settle()
    [scheduler] = world.schedulers
    [made] = world.place(scheduler, world.create_message(5))
    world.settle()
    [(elsewhere, backend, generation)] = world.rows(
        f"SELECT id, backend_id, generation FROM pools WHERE name <> '{made.pool}' ORDER BY id LIMIT 1"
    )
    booking = bookings.Booking(
        id="c",
        request_id="r",
        volume_id=made.volume_id,
        verb=verb,
        pool_id=elsewhere,
        pool_name="elsewhere",
        backend_id=backend,
        generation=generation,
        size_gb=5,
        physical_gb=5,
        target_size_gb=10 if verb == claim_verbs.EXTEND else 5,
        provisioning=Provisioning.THIN,
        source_pool_id=99 if verb == claim_verbs.MIGRATE else None,
    )
    seen = {made.volume_id: bookings.SeenVolume(5, None)}
    with pytest.raises(errors.Conflict, match="changed by another request"):
        scheduler.core.database.run(bookings.book, [booking], [], Calculation.CINDER, 0, seen)
