# SPDX-License-Identifier: Apache-2.0
"""Messages become specifications of requests, by the rows that they refer to."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors, units
from tonnage.capacity.request import Locality, Operation, Provisioning
from tonnage.ledger.catalog import volume_types
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume, MigrateVolume, RetypeVolume
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.requests import placement_requests
from tonnage.scheduler.requests.placement_requests import Move, Retry, Work
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec, RetryLater
from tonnage.scheduler.steps.affinity_hints import AffinityHints
from tonnage.scheduler.steps.clone_source import CloneSource
from tonnage.scheduler.steps.group_affinity import GroupMembership


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool("host@b#p")


def look_up(records: Records, items: Sequence[Work]) -> Lookup:
    return records.run(resolution.read_references, placement_requests.by_volume(items))


def resolve(records: Records, item: Work) -> list[RequestSpec]:
    return resolution.resolve(item, look_up(records, [item]))


def create(**fields: Any) -> CreateVolume:
    usual = {"request_id": "req-1", "volume_id": new_id(), "size_gb": 4, "project_id": "demo"}
    return CreateVolume(**usual | fields)


def test_a_request_takes_only_the_steps_that_it_asks_for() -> None:
    assert list(resolution.steps_of(create())) == []
    message = create(hints={"same_host": "a"}, group_id="g", source_volume_id="s")
    steps = [type(step) for step in resolution.steps_of(message)]
    assert steps == [AffinityHints, GroupMembership, CloneSource]


def test_a_new_volume_has_the_requirements_of_its_type(records: Records) -> None:
    specs = {"provisioning:type": "thin", "tier": "1"}
    type_id = records.run(volume_types.create, "gold", None, True, specs).id
    message = create(volume_type="gold", availability_zone="north")
    [spec] = resolve(records, message)
    assert (spec.volume_id, spec.target_size_gb, spec.volume_type_id) == (message.volume_id, 4, type_id)
    assert spec.new_volume is message
    request = spec.request
    assert (request.size_gb, request.availability_zone, request.volume_type) == (4, "north", "gold")
    assert (request.provisioning, request.extra_specs) == (Provisioning.THIN, specs)


def test_a_volume_without_a_type_has_no_requirements(records: Records) -> None:
    [spec] = resolve(records, create())
    assert (spec.volume_type_id, spec.request.volume_type, spec.request.extra_specs) == (None, None, {})


def test_an_unknown_type_and_an_invalid_size_are_refused(records: Records) -> None:
    with pytest.raises(errors.InvalidInput, match="volume type 'gold' could not be found"):
        resolve(records, create(volume_type="gold"))
    with pytest.raises(errors.InvalidInput):
        resolve(records, create(size_gb=0))


def test_the_volumes_of_one_request_share_its_id(records: Records) -> None:
    volumes = [create(size_gb=1), create(size_gb=2)]
    specs = resolve(records, CreateGroup(request_id="req-all", volumes=volumes))
    assert [(spec.request.request_id, spec.target_size_gb) for spec in specs] == [("req-all", 1), ("req-all", 2)]


def test_no_volume_and_one_volume_twice_are_refused(records: Records) -> None:
    volume = create()
    for volumes in ([], [volume, volume]):
        with pytest.raises(errors.InvalidInput, match="each has an id of its own"):
            resolve(records, CreateGroup(request_id="req-all", volumes=volumes))


def test_an_extension_asks_for_the_growth_in_the_volumes_pool(records: Records, pool: int) -> None:
    volume_id = records.volume(pool, size_gb=3, requested_zone="north", hints={"query": "x"})
    [spec] = resolve(records, ExtendVolume(request_id="req-1", volume_id=volume_id, new_size_gb=8))
    request = spec.request
    assert (spec.target_size_gb, request.size_gb, request.operation) == (8, 5, Operation.EXTEND)
    assert (request.pool, request.provisioning) == ("host@b#p", Provisioning.THIN)
    assert (request.availability_zone, request.hints) == (None, {})


@pytest.mark.parametrize("new_size", [2, 3, units.MAX_SIZE_GB + 1])
def test_a_volume_grows_and_not_beyond_the_limit(records: Records, pool: int, new_size: int) -> None:
    message = ExtendVolume(request_id="r", volume_id=records.volume(pool, size_gb=3), new_size_gb=new_size)
    with pytest.raises(errors.InvalidInput, match=f"new size is {new_size} GiB"):
        resolve(records, message)


def test_only_an_available_volume_without_clones_in_the_making_is_extended(records: Records, pool: int) -> None:
    def extend(volume_id: str) -> list[RequestSpec]:
        return resolve(records, ExtendVolume(request_id="r", volume_id=volume_id, new_size_gb=8))

    with pytest.raises(errors.Conflict, match="is in-use"):
        extend(records.volume(pool, status="in-use"))
    source = records.volume(pool)
    clone = records.volume(status="creating", source_volume_id=source)
    with pytest.raises(errors.Conflict, match=f"once volume {clone} is made"):
        extend(source)
    with pytest.raises(errors.NotFound):
        extend(new_id())


def test_a_volume_that_is_tried_again_avoids_the_pools_that_failed(records: Records) -> None:
    volume_id = records.volume(
        status="creating", size_gb=5, attempted_pools=["host@b#p"], request_id="req-1", requested_zone="north"
    )
    locality = Locality(host="node1")
    [spec] = resolve(records, Retry(volume_id, locality))
    request = spec.request
    assert (spec.new_volume, spec.target_size_gb, request.request_id) == (None, 5, "req-1")
    assert (request.attempted, request.locality, request.availability_zone) == ({"host@b#p"}, locality, "north")


def test_only_a_volume_that_waits_for_a_pool_is_tried_again(records: Records, pool: int) -> None:
    for volume_id in (records.volume(pool, status="creating"), records.volume(status="error"), new_id()):
        with pytest.raises(RetryLater, match="no longer waits for a pool"):
            resolve(records, Retry(volume_id))


def test_volumes_that_waiting_ones_name_in_turn_are_read(records: Records, pool: int) -> None:
    placed = records.volume(pool, hints={"same_host": new_id()})
    unread = records.volume(pool)
    second = records.volume(status="creating", hints={"same_host": placed})
    first = records.volume(status="creating", hints={"different_host": [second]})
    assert look_up(records, [Retry(first)]).volumes.keys() == {first, second, placed}
    assert look_up(records, [create(hints={"same_host": unread})]).volumes.keys() == {unread}


def test_a_move_knows_the_pools_with_a_copy(records: Records, pool: int) -> None:
    volume_id = records.claimed_volume(pool)
    released, listed, of_others = (records.pool(f"host@c#{name}") for name in ("released", "listed", "of others"))
    records.claim(volume_id, released, state="released")
    records.discrepancy(listed, volume_id, "orphan")
    records.discrepancy(of_others, new_id(), "orphan")
    move = Move(MigrateVolume(request_id="r", volume_id=volume_id))
    assert look_up(records, [move]).copies == {volume_id: {"host@b#p", "host@c#listed"}}
    [spec] = resolve(records, move)
    assert (spec.request.operation, spec.request.attempted) == (Operation.MIGRATE, {"host@b#p", "host@c#listed"})


def test_a_move_of_a_plan_keeps_the_hints_about_other_volumes_and_an_instance(records: Records, pool: int) -> None:
    instance, foreign = new_id(), records.claimed_volume(records.pool("host@f#p"), project_id="other")
    near, apart = records.claimed_volume(records.pool("host@n#p")), records.claimed_volume(records.pool("host@d#p"))
    # It is being moved.
    records.claim(apart, records.pool("host@e#p"), state="pending")
    hints = {"same_host": near, "different_host": [apart, foreign], "local_to_instance": instance, "query": "x"}
    volume_id = records.claimed_volume(pool, hints=hints)
    message = MigrateVolume(request_id="r", volume_id=volume_id)
    [spec] = resolve(records, Move(message, keeps_affinity=True))
    assert spec.request.hints == {name: value for name, value in hints.items() if name != "query"}
    assert spec.request.same_backends == {"host@n"}
    assert spec.request.different_backends == {"host@d", "host@e"}
    assert spec.request.locality == Locality("host")
    [spec] = resolve(records, Move(message))
    assert (spec.request.hints, spec.request.same_backends, spec.request.different_backends) == ({}, None, None)
    assert spec.request.locality is None


def test_a_retype_becomes_the_move_to_a_pool_for_the_other_type(records: Records, pool: int) -> None:
    type_id = records.run(volume_types.create, "gold", None, True, {"tier": "1"}).id
    volume_id = records.claimed_volume(pool)
    [spec] = resolve(records, RetypeVolume(request_id="r", volume_id=volume_id, volume_type="gold"))
    assert (spec.volume_type_id, spec.request.extra_specs) == (type_id, {"tier": "1"})


def test_a_batch_without_references_reads_nothing(records: Records) -> None:
    lookup = look_up(records, [create()])
    assert (lookup.types, lookup.volumes, lookup.copies, lookup.groups, lookup.cloned) == ({}, {}, {}, {}, {})


def test_a_probe_of_a_type_asks_for_its_features_alone(records: Records) -> None:
    records.run(volume_types.create, "gold", None, True, {"tier": "1"})
    request = records.run(resolution.type_request, "gold")
    assert (request.extra_specs, request.project_id) == ({"tier": "1"}, "")
    with pytest.raises(errors.InvalidInput, match="'silver' could not be found"):
        records.run(resolution.type_request, "silver")


SIZES = {"provisioning:min_vol_size": "2", "provisioning:max_vol_size": "5"}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "Specified volume size of '1' is less than the minimum required size of '2' for volume type 'tier'."),
        (6, "Specified volume size of '6' is greater than the maximum allowable size of '5' for volume type 'tier'."),
    ],
)
def test_a_type_limits_the_sizes_of_its_volumes(records: Records, pool: int, size: int, text: str) -> None:
    type_id = records.run(volume_types.create, "tier", None, True, SIZES).id
    works: list[Work] = [
        create(volume_type="tier", size_gb=size),
        CreateGroup(
            request_id="r", volumes=[create(volume_type="tier", size_gb=2), create(volume_type=type_id, size_gb=size)]
        ),
        RetypeVolume(request_id="r", volume_id=records.claimed_volume(pool, size_gb=size), volume_type="tier"),
    ]
    if size > 5:
        grown = records.claimed_volume(pool, volume_type_id=type_id, size_gb=3)
        works.append(ExtendVolume(request_id="r", volume_id=grown, new_size_gb=size))
    for work in works:
        with pytest.raises(errors.InvalidInput) as refused:
            resolve(records, work)
        assert refused.value.message == text


def test_sizes_at_the_limits_of_a_type_are_accepted(records: Records, pool: int) -> None:
    type_id = records.run(volume_types.create, "tier", None, True, SIZES).id
    for size in (2, 5):
        resolve(records, create(volume_type="tier", size_gb=size))
        resolve(
            records,
            RetypeVolume(request_id="r", volume_id=records.claimed_volume(pool, size_gb=size), volume_type="tier"),
        )
    volume_id = records.claimed_volume(pool, volume_type_id=type_id, size_gb=1)
    resolve(records, ExtendVolume(request_id="r", volume_id=volume_id, new_size_gb=5))
    resolve(records, Move(MigrateVolume(request_id="r", volume_id=volume_id)))


def test_a_requested_zone_is_one_of_the_types_zones(records: Records, pool: int) -> None:
    records.run(volume_types.create, "far", None, True, {"RESKEY:availability_zones": "north, south"})
    for zone in ("north", "south", None, ""):
        [spec] = resolve(records, create(volume_type="far", availability_zone=zone))
        assert spec.request.availability_zone == zone
    here = records.claimed_volume(pool, requested_zone="nova")
    for work in (
        create(volume_type="far", availability_zone="nova"),
        RetypeVolume(request_id="r", volume_id=here, volume_type="far"),
    ):
        with pytest.raises(errors.InvalidInput) as refused:
            resolve(records, work)
        assert (
            refused.value.message == "Availability zone 'nova' is invalid: volume type 'far' takes 'north' or 'south'."
        )
