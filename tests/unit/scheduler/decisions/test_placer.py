# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler import ledgers
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.rpc.messages import Answer, CreateGroup, ExtendVolume
from tonnage.scheduler.requests import request_spec
from tonnage.scheduler.requests.placement_requests import Retry


def thin_world(total: int = 20, ratio: float = 2.0, pools: int = 1) -> World:
    return World({f"p{number}": StoragePool(total, ratio, thin=True, thick=False) for number in range(pools)}).started()


def answer(result: Answer | Exception) -> Answer:
    assert isinstance(result, Answer)
    return result


def test_a_batch_is_decided_in_order_and_later_requests_see_earlier_ones() -> None:
    world = thin_world()
    first, second, third = map(answer, world.create(20, 19, 2))
    assert first.pool == second.pool == f"{BACKEND}#p0"
    assert third.refusal is not None
    assert third.refusal.nearest is not None
    assert third.refusal.nearest.rejection.numbers["headroom"] == 1
    world.check()


def test_a_refusal_stores_only_its_answer() -> None:
    world = thin_world()
    assert answer(world.create(41)[0]).refusal is not None
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]
    assert world.rows("SELECT COUNT(*) FROM claims") == [(0,)]
    assert world.rows("SELECT COUNT(*) FROM request_keys") == [(1,)]


def test_an_invalid_request_does_not_affect_others_in_its_batch() -> None:
    world = thin_world()
    bad = world.create_message(0)
    good = world.create_message(5)
    refused, placed = world.place([bad, good])
    assert isinstance(refused, errors.InvalidInput)
    assert "size is 0" in refused.message
    assert answer(placed).pool is not None
    world.check()


def test_pools_taken_by_another_scheduler_are_read_again_and_the_next_is_chosen() -> None:
    world = thin_world(pools=2)
    other = World(world.pools, engine=world.engine)
    sizes = [answer(result).pool for result in other.create(39, 39)]
    assert sorted(sizes, key=str) == [f"{BACKEND}#p0", f"{BACKEND}#p1"]
    result = answer(world.create(2)[0])
    assert result.refusal is not None
    assert result.refusal.nearest is not None
    assert result.refusal.nearest.rejection.numbers["headroom"] == 1
    assert answer(world.create(1)[0]).pool is not None
    world.check()


def test_a_failed_create_is_retried_in_the_next_pool_and_then_in_error_with_the_reasons() -> None:
    world = thin_world(pools=2)
    volume = answer(world.create(3)[0]).volume_id
    tried = []
    for _ in range(2):
        tried.append(world.agent.commands[0].pool)
        outcome = world.agent.work(fails=True, clean=True)
        assert outcome is not None
        world.deliver(outcome)
        world.place([Retry(volume_id) for volume_id in world.waiting])
        world.waiting.clear()
        world.check()
    assert sorted(tried) == ["p0", "p1"]
    status, reason = world.rows(f"SELECT status, status_reason FROM volumes WHERE id = '{volume}'")[0]
    assert status == "error"
    assert all(f"#{pool}: the storage failed" in reason for pool in tried)
    assert reason.startswith("No pool could make the volume. ")
    assert "BackendStateFilter refused 2" in reason
    assert world.rows("SELECT text FROM messages") == [(reason,)]
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(0, 0), (0, 0)]


def test_a_create_is_attempted_in_a_limited_number_of_pools() -> None:
    world = thin_world(pools=5)
    answer(world.create(3)[0])
    for _ in range(3):
        outcome = world.agent.work(fails=True, clean=True)
        assert outcome is not None
        world.deliver(outcome)
        world.place([Retry(volume_id) for volume_id in world.waiting])
        world.waiting.clear()
    assert not world.agent.commands
    [(reason,)] = world.rows("SELECT status_reason FROM volumes WHERE status = 'error'")
    assert reason.count(BACKEND) == 3
    assert reason.endswith("the storage failed")


def test_an_extend_stays_in_its_pool_and_names_it_when_refused() -> None:
    world = thin_world(pools=2)
    made = answer(world.create(10)[0])
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    refused = world.extend(made.volume_id, 41)
    assert answer(refused).refusal is not None
    assert made.pool is not None
    assert made.pool in str(answer(refused).refusal)
    assert answer(world.extend(made.volume_id, 40)).pool == made.pool
    again = world.extend(made.volume_id, 40)
    assert isinstance(again, errors.Conflict)
    world.settle()
    assert world.rows("SELECT size_gb, status FROM volumes") == [(40, "available")]


@pytest.mark.parametrize(("new_size", "problem"), [(10, "more than the current 10 GiB"), (3, "more than the current")])
def test_an_extend_never_shrinks(new_size: int, problem: str) -> None:
    world = thin_world()
    made = answer(world.create(10)[0])
    world.settle()
    refused = world.extend(made.volume_id, new_size)
    assert isinstance(refused, errors.InvalidInput)
    assert problem in refused.message


@pytest.mark.parametrize("calculation", Calculation)
def test_commands_have_the_ratio_and_calculation_of_the_decision(calculation: Calculation) -> None:
    world = World({"p0": StoragePool(20, 3.0, thin=True, thick=True)}, calculation).started()
    answer(world.create(7)[0])
    [command] = world.agent.commands
    assert (command.ratio, command.calculation, command.size_gb) == (3.0, calculation, 7)
    assert command.provisioning == "thin"


def test_an_unclean_failed_create_stays_counted_in_its_pool_until_deleted() -> None:
    world = thin_world(pools=2)
    volume = answer(world.create(3)[0]).volume_id
    outcome = world.agent.work(fails=True, leaves=True)
    assert outcome is not None
    world.deliver(outcome)
    assert world.waiting == []
    assert world.rows("SELECT status, size_gb, pool_id IS NULL FROM volumes") == [("error", 3, 0)]
    assert world.rows("SELECT SUM(allocated_capacity_gb) FROM pools") == [(3,)]
    world.delete(volume)
    world.settle()
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]
    assert world.rows("SELECT SUM(allocated_capacity_gb), SUM(in_flight_gb) FROM pools") == [(0, 0)]
    assert all(not pool.volumes for pool in world.pools.values())
    world.check()


def test_a_type_deleted_during_a_batch_refuses_only_requests_of_that_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = thin_world()
    kind = world.database.run(volume_types.create, "gold", None, True, {})

    def delete_type(session: orm.Session, _: request_spec.Lookup) -> None:
        session.execute(sa.delete(models.VolumeType).where(models.VolumeType.id == kind.id))

    ledgers.change_after_look_up(monkeypatch, delete_type)
    golden = replace(world.create_message(1), volume_type="gold")
    results = world.place([golden, world.create_message(2)])
    assert all(answer(result).pool is not None for result in results), "it is decided again"
    world.check()


def test_a_volume_that_another_scheduler_has_just_placed_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was placed when this one looked; that pool may fail in turn, and others may be left."""
    world = thin_world(pools=3)
    volume = answer(world.create(3)[0]).volume_id

    def overtake(session: orm.Session, _: request_spec.Lookup) -> None:
        session.expunge_all()
        waits = sa.update(models.Volume).values(pool_id=None, provisioning=None)
        session.execute(waits.execution_options(synchronize_session=False))

    ledgers.change_after_look_up(monkeypatch, overtake)
    [result] = world.place([Retry(volume)])
    assert isinstance(result, request_spec.RetryLater)
    assert world.rows("SELECT status, pool_id FROM volumes") == [("creating", None)]
    assert world.rows("SELECT COUNT(*) FROM messages") == [(0,)]


def test_a_request_id_cannot_be_used_for_another_request() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    first, other = world.create_message(1), world.create_message(1)
    stranger = replace(other, request_id=first.request_id)
    assert isinstance(world.place([first])[0], Answer)
    group = CreateGroup(request_id=first.request_id, volumes=[world.create_message(1)])
    extend = ExtendVolume(request_id=first.request_id, volume_id=first.volume_id, new_size_gb=2)
    results = world.place([stranger, group, extend, first, world.create_message(1)])
    for refused in results[:3]:
        assert isinstance(refused, errors.KeyReused)
        assert f"{first.request_id} has been used for another request (create of volume {first.volume_id})" in str(
            refused
        )
    assert all(isinstance(answer, Answer) and answer.pool for answer in results[3:]), "and nobody else suffers"


def test_a_request_id_cannot_be_used_twice_within_a_batch() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    first = world.create_message(1)
    stranger = replace(world.create_message(1), request_id=first.request_id)
    made, refused, again = world.place([first, stranger, first])
    assert made == again
    assert isinstance(refused, errors.KeyReused)
