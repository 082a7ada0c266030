# SPDX-License-Identifier: Apache-2.0
"""Managed copies: each becomes one volume only, and sizes between whole GiB are counted in full."""

import uuid
from dataclasses import replace

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger.catalog import managed_volumes
from tonnage.ledger.claims import deletions
from tonnage.ledger.repair import orphans
from tonnage.rpc.messages import ManageVolume, Outcome

THIN, THICK = Provisioning.THIN, Provisioning.THICK


def with_files(sizes: dict[str, float], kind: Provisioning = THIN, reports_provisioned: bool = True) -> World:
    """Return a world with one pool whose unmanaged sparse files have been reported and listed."""
    pool = StoragePool(100, 2.0, thin=kind is THIN, thick=kind is THICK, reports_provisioned=reports_provisioned)
    world = World({"p0": pool})
    world.start_agent()
    for name, size in sizes.items():
        pool.volumes[name] = (size, THIN)  # type: ignore[assignment]
    world.report()
    for _ in range(2):
        world.registration.listings([world.agent.listing()])
    return world


def new_volume(request_id: str = "req-1", reference: str = "image") -> ManageVolume:
    return ManageVolume(
        request_id=request_id,
        volume_id=str(uuid.uuid4()),
        pool=f"{BACKEND}#p0",
        reference=reference,
        project_id="demo",
    )


def manage(world: World, reference: str, size_gb: int, kind: Provisioning = THIN) -> str:
    """Manage a file as the drivers do: it grows to whole GiB, and its outcome arrives before a report does."""
    volume = new_volume(world.request_id(), reference)
    claim_id = world.database.run(managed_volumes.begin, volume)
    finish(world, claim_id, volume.volume_id, reference, size_gb, kind)
    return volume.volume_id


def finish(
    world: World, claim_id: str, volume_id: str, reference: str, size_gb: int, kind: Provisioning = THIN
) -> None:
    files = world.pools["p0"].volumes
    del files[reference]
    files[volume_id] = (size_gb, kind)
    world.deliver(
        Outcome(
            backend=BACKEND,
            epoch=world.agent.epoch,
            claim_id=claim_id,
            ok=True,
            end_tick=world.agent.next_tick(),
            size_gb=float(size_gb),
        )
    )


def counted(world: World) -> float:
    """Return the capacity that the capacity rule takes as provisioned."""
    [(provisioned, in_flight, allocated, external)] = world.rows(
        "SELECT provisioned_capacity_gb, in_flight_gb, allocated_capacity_gb, external_gb FROM pools"
    )
    return float(allocated + external if provisioned is None else provisioned + in_flight)


def test_a_fractional_size_becomes_a_volume_of_whole_gib() -> None:
    world = with_files({"image": 1.5, "other": 10})
    volume_id = manage(world, "image", 2)
    assert world.rows("SELECT id, size_gb, status FROM volumes") == [(volume_id, 2, "available")]
    for table in ("pools", "backends"):
        assert world.rows(f"SELECT allocated_capacity_gb FROM {table}") == [(2,)]
    world.report()
    assert counted(world) == 12
    assert world.rows("SELECT in_flight_gb FROM pools") == [(0,)]


@pytest.mark.parametrize("reports_provisioned", [True, False])
def test_a_fractional_size_is_counted_once_after_a_report_and_a_listing(reports_provisioned: bool) -> None:
    world = with_files({"image": 1.5, "other": 10}, reports_provisioned=reports_provisioned)
    assert counted(world) == 11.5
    manage(world, "image", 2)
    world.report()
    world.registration.listings([world.agent.listing()])
    assert counted(world) == 12


@pytest.mark.parametrize("reports_provisioned", [True, False])
def test_a_managed_copy_is_never_counted_too_low(reports_provisioned: bool) -> None:
    world = with_files({"image": 1.5, "other": 10}, reports_provisioned=reports_provisioned)
    manage(world, "image", 2)
    assert counted(world) >= 12


def test_a_managed_copy_that_the_figures_contain_is_not_in_flight() -> None:
    world = with_files({"image": 2, "other": 10})
    manage(world, "image", 2)
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb, in_flight_physical_gb FROM pools") == [(2, 0, 0)]
    assert counted(world) == 12


def test_a_copy_becomes_one_volume_only() -> None:
    world = with_files({"image": 2, "other": 1})
    first, second = new_volume(), new_volume("req-2")
    claim_id = world.database.run(managed_volumes.begin, first)
    with pytest.raises(errors.Conflict, match=f"image in {BACKEND}#p0 is about to become volume {first.volume_id}"):
        world.database.run(managed_volumes.begin, second)
    world.database.run(managed_volumes.begin, replace(second, request_id="req-3", reference="other"))
    finish(world, claim_id, first.volume_id, "image", 2)
    with pytest.raises(errors.Conflict, match="is a volume of Tonnage"):
        world.database.run(managed_volumes.begin, new_volume("req-4", first.volume_id))


def test_a_new_copy_with_a_managed_name_can_be_managed_too() -> None:
    world = with_files({"image": 2})
    first = manage(world, "image", 2)
    world.pools["p0"].volumes["image"] = (3, THIN)
    second = manage(world, "image", 3)
    assert sorted(world.rows("SELECT size_gb, status FROM volumes")) == [(2, "available"), (3, "available")]
    assert first != second


def test_the_failure_message_has_the_new_name_of_the_copy() -> None:
    world = with_files({"image": 2})
    volume = new_volume()
    claim_id = world.database.run(managed_volumes.begin, volume)
    # An earlier process has renamed the copy and died before it sent an outcome.
    outcome = Outcome(
        backend=BACKEND,
        epoch=world.agent.epoch,
        claim_id=claim_id,
        ok=False,
        size_gb=2,
        message="the storage failed",
        end_tick=world.agent.next_tick(),
    )
    world.deliver(outcome)
    assert world.rows("SELECT status, pool_id, status_reason FROM volumes") == [
        ("error_managing", None, f"the storage failed (on the storage it is named {volume.volume_id} now)")
    ]


def test_a_failed_manage_can_be_requested_again() -> None:
    world = with_files({"image": 2})
    volume = new_volume()
    claim_id = world.database.run(managed_volumes.begin, volume)
    outcome = Outcome(
        backend=BACKEND, epoch=world.agent.epoch, claim_id=claim_id, ok=False, end_tick=world.agent.next_tick()
    )
    world.deliver(outcome)
    assert world.rows("SELECT status FROM volumes") == [("error_managing",)]
    manage(world, "image", 2)
    assert sorted(world.rows("SELECT status FROM volumes")) == [("available",), ("error_managing",)]


def test_a_repeated_manage_request_has_no_second_effect() -> None:
    world = with_files({"image": 2})
    volume = new_volume()
    claim_id = world.database.run(managed_volumes.begin, volume)
    assert world.database.run(managed_volumes.begin, volume) == claim_id
    finish(world, claim_id, volume.volume_id, "image", 2)
    world.database.run(deletions.unmanage, "req-2", volume.volume_id)
    assert world.database.run(managed_volumes.begin, volume) == claim_id
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]
    with pytest.raises(errors.KeyReused, match="req-1 has been used for another request"):
        world.database.run(managed_volumes.begin, new_volume())


def begin(world: World, reference: str) -> tuple[str, str]:
    volume = new_volume(world.request_id(), reference)
    return volume.volume_id, world.database.run(managed_volumes.begin, volume)


@pytest.mark.parametrize("reports_provisioned", [True, False])
def test_an_unlisted_copy_does_not_lower_external_capacity(reports_provisioned: bool) -> None:
    world = with_files({"other": 20}, reports_provisioned=reports_provisioned)
    world.pools["p0"].volumes["image"] = (10, THIN)
    manage(world, "image", 10)
    assert counted(world) == 30


@pytest.mark.parametrize("ok", [True, False])
def test_a_listing_during_a_manage_keeps_the_copy_counted(ok: bool) -> None:
    world = with_files({"image": 10, "other": 20}, reports_provisioned=False)
    volume_id, claim_id = begin(world, "image")
    world.registration.listings([world.agent.listing()])
    assert counted(world) == 30
    if ok:
        finish(world, claim_id, volume_id, "image", 10)
    else:
        world.deliver(failed(world, claim_id))
    assert counted(world) == 30
    world.report()
    world.registration.listings([world.agent.listing()])
    assert counted(world) == 30


def test_an_agent_restart_during_a_manage_gives_no_room_away() -> None:
    world = with_files({"image": 90, "other": 50, "more": 50}, reports_provisioned=False)
    begin(world, "image")
    world.start_agent()
    assert world.create(11)[0].refusal is not None  # the pool has 100 GiB and ratio 2
    assert world.create(10)[0].refusal is None


def test_a_thick_managed_copy_takes_physical_space_until_a_report() -> None:
    world = with_files({"image": 60}, THICK)
    manage(world, "image", 60, THICK)
    assert world.create(60)[0].refusal is not None
    world.report()
    assert world.rows("SELECT in_flight_gb, in_flight_physical_gb FROM pools") == [(0, 0)]
    assert world.create(60)[0].refusal is not None
    assert world.create(40)[0].refusal is None


def test_a_copy_stays_counted_until_its_purge_has_ended() -> None:
    world = with_files({"image": 10, "other": 20}, reports_provisioned=False)
    claim_id = world.database.run(orphans.purge, f"{BACKEND}#p0", "image")
    world.deliver(failed(world, claim_id))
    for _ in range(3):
        world.registration.listings([world.agent.listing()])
    assert counted(world) == 30


def failed(world: World, claim_id: str) -> Outcome:
    return Outcome(
        backend=BACKEND,
        epoch=world.agent.epoch,
        claim_id=claim_id,
        ok=False,
        clean=True,
        end_tick=world.agent.next_tick(),
    )
