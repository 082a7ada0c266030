# SPDX-License-Identifier: Apache-2.0
"""The plan of a batch: what is booked, answered and recorded for each kind of decision."""

from typing import Any

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.decision import Placement, Refusal
from tonnage.capacity.request import Operation, Provisioning, Request
from tonnage.rpc.messages import Answer, CreateGroup, CreateVolume, GroupAnswer, MigrateVolume, RetypeVolume
from tonnage.scheduler.decisions.booking_plan import BookingPlan
from tonnage.scheduler.decisions.decider import RequestDecision
from tonnage.scheduler.requests.placement_requests import Move, Retry
from tonnage.scheduler.requests.request_spec import RequestSpec, RetryLater

POOL = f"{BACKEND}#p0"
THIN, THICK = (Placement(POOL, provisioning) for provisioning in (Provisioning.THIN, Provisioning.THICK))
REFUSAL = Refusal("3 GiB", 1)


@pytest.fixture
def plan() -> BookingPlan:
    """A plan on a scheduler that knows one pool."""
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=True)}).started()
    return BookingPlan(world.hosts)


def create(volume_id: str = "v", request_id: str = "r", **values: Any) -> CreateVolume:
    return CreateVolume(request_id=request_id, volume_id=volume_id, size_gb=3, project_id="demo", **values)


def spec(volume_id: str = "v", **values: Any) -> RequestSpec:
    request = Request(request_id="r", size_gb=3, project_id="demo")
    return RequestSpec(**{"request": request, "volume_id": volume_id, "target_size_gb": 3} | values)


def test_a_placement_is_booked_and_answered_under_its_key(plan: BookingPlan) -> None:
    answer = plan.add(create(), RequestDecision([spec(copied_gb=2)], [THIN]))
    assert answer == Answer(volume_id="v", pool=POOL, provisioning=Provisioning.THIN)
    [booking], [key] = plan.bookings, plan.keys
    entry = plan.hosts.entries[POOL]
    assert (booking.pool_id, booking.generation, booking.verb) == (entry.id, entry.generation, "create")
    assert (booking.size_gb, booking.physical_gb, booking.availability_zone) == (3, 2, "nova")
    assert (key.request_id, key.refused, key.answer["pool"]) == ("r", False, POOL)
    assert (plan.refused, plan.failed) == ([], {})


def test_a_thick_volume_takes_all_its_room_at_once(plan: BookingPlan) -> None:
    plan.add(create(), RequestDecision([spec()], [THICK]))
    assert plan.bookings[0].physical_gb == 3


def test_a_group_is_booked_whole_and_answered_once(plan: BookingPlan) -> None:
    group = CreateGroup(request_id="g", volumes=[create("a"), create("b")])
    answer = plan.add(group, RequestDecision([spec("a"), spec("b")], [THIN, THICK]))
    assert isinstance(answer, GroupAnswer)
    assert [volume.volume_id for volume in answer.volumes] == ["a", "b"]
    assert [booking.volume_id for booking in plan.bookings] == ["a", "b"]
    assert [key.request_id for key in plan.keys] == ["g"]


def test_a_refusal_is_recorded_with_the_body_of_its_request(plan: BookingPlan) -> None:
    request = Request(request_id="r", size_gb=3, project_id="demo")
    answer = plan.add(create(), RequestDecision([spec()], REFUSAL, stale_refusals=[request]))
    assert (answer.refusal, plan.bookings, plan.keys[0].refused) == (REFUSAL, [], True)
    [refused] = plan.refused
    assert (refused.verb, refused.volume_id, refused.body) == ("create", "v", {"volume": {"size": 3}})
    assert plan.stale_refusals == [request]


def test_a_volume_without_another_pool_fails_and_a_drain_tries_again(plan: BookingPlan) -> None:
    plan.add(Retry("v"), RequestDecision([spec()], REFUSAL))
    assert plan.failed == {"v": REFUSAL.message}
    assert [refused.volume_id for refused in plan.refused] == ["v"]
    drain = Move(MigrateVolume(request_id="d", volume_id="w"), keyed=False)
    plan.add(drain, RequestDecision([spec("w")], REFUSAL))
    assert (len(plan.refused), plan.keys) == (1, [])
    assert plan.undrained == {"w": REFUSAL.message}
    plan.fail(Move(MigrateVolume(request_id="e", volume_id="x"), keyed=False), errors.Conflict("x is in use"))
    assert plan.undrained == {"w": REFUSAL.message, "x": "x is in use"}


def test_a_volume_that_stays_in_its_pool_gets_its_type_without_a_booking(plan: BookingPlan) -> None:
    retype = RetypeVolume(request_id="r", volume_id="v", volume_type="gold", migration_policy="never")  # type: ignore[arg-type]
    request = Request("r", 3, operation=Operation.MIGRATE)
    staying = spec(request=request, source_pool_id=1, volume_type_id="gold-id")
    answer = plan.add(retype, RequestDecision([staying], [THIN], THIN))
    assert (answer.pool if isinstance(answer, Answer) else None) == POOL
    assert plan.bookings == []
    assert [(row.volume_id, row.pool_id, row.volume_type_id) for row in plan.retyped] == [("v", 1, "gold-id")]


def test_errors_that_depend_on_the_state_are_stored(plan: BookingPlan) -> None:
    plan.fail(create(), errors.Conflict("in use"))
    plan.fail(create(request_id="s"), errors.InvalidInput("size is 0"))
    assert [(key.request_id, key.refused) for key in plan.keys] == [("r", True)]


def test_a_volume_that_waits_for_another_does_not_fail(plan: BookingPlan) -> None:
    plan.fail(Retry("v"), RetryLater("volume v waits"))
    assert plan.failed == {}
    plan.fail(Retry("v"), errors.NotFound("its source is gone"))
    assert plan.failed == {"v": "its source is gone"}


def test_the_plan_keeps_where_hint_targets_were_seen(plan: BookingPlan) -> None:
    plan.add(create(), RequestDecision([spec(hint_targets={"peer": 4, "waiting": None})], REFUSAL))
    assert plan.hint_targets == {"peer": 4, "waiting": None}
