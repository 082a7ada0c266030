# SPDX-License-Identifier: Apache-2.0
"""Volumes that are taken over, and the quota that they need."""

from typing import Any

import pytest
from sqlalchemy import orm

from tests.unit.ledger.catalog import test_managed_volumes
from tests.unit.quotas.test_reservations import GIGABYTES, PROJECT, limit
from tests.unit.scheduler.world import BACKEND, World
from tonnage.capacity import errors
from tonnage.ledger.catalog import managed_volumes
from tonnage.ledger.locks import volume_usage
from tonnage.quotas import options, reservations
from tonnage.quotas.limits import Scope
from tonnage.quotas.quota_check import QuotaChanged
from tonnage.rpc.messages import Answer, ManageVolume, UnmanageVolume
from tonnage.scheduler.periodic.sweep import SweepTimer
from tonnage.scheduler.volume_operations import VolumeOperations


def with_files(gigabytes: int, **sizes: float) -> tuple[World, VolumeOperations]:
    """Return a world with files that may be taken over, and a project that may have so many GiB."""
    world = test_managed_volumes.with_files(sizes)
    limit(world, PROJECT, {GIGABYTES: gigabytes})
    return world, VolumeOperations(
        world.database,
        world.hosts,
        world.dispatcher,
        world,
        SweepTimer(10.0, lambda: world.now),
        options.Settings(),
    )


def asked(world: World, reference: str) -> ManageVolume:
    return test_managed_volumes.new_volume(world.request_id(), reference)


def test_an_adoption_counts_with_its_listed_size_also_after_a_recount() -> None:
    world, verbs = with_files(100, image=90)
    assert verbs.manage([asked(world, "image")]) == [None]
    # There is no room for it by the counter, so that the volumes are counted.
    [answer] = world.create(20)
    assert isinstance(answer, Answer)
    assert answer.refusal is not None
    assert answer.refusal.excess is not None
    assert answer.refusal.excess.used == 90
    [answer] = world.create(10)
    assert isinstance(answer, Answer)
    assert answer.refusal is None


def test_a_volume_that_could_not_be_adopted_gives_its_quota_back() -> None:
    world, verbs = with_files(100, image=90)
    verbs.manage([asked(world, "image")])
    [(claim_id,)] = world.rows("SELECT id FROM claims")
    world.deliver(test_managed_volumes.failed(world, claim_id))
    [answer] = world.create(20)
    assert isinstance(answer, Answer)
    assert answer.refusal is None


def test_one_that_others_are_always_faster_than_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world, verbs = with_files(100, image=9, other=1)
    hold = reservations.reserve

    def hurried(session: orm.Session, settings: Any, demands: Any, **more: Any) -> Any:
        if demands[0].size_gb == 9:
            raise QuotaChanged("others were faster")
        return hold(session, settings, demands, **more)

    monkeypatch.setattr(reservations, "reserve", hurried)
    failed, done = verbs.manage([asked(world, "image"), asked(world, "other")])
    assert isinstance(failed, errors.Unavailable)
    assert "demo" in failed.message
    assert done is None


def test_one_that_cannot_be_taken_in_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world, verbs = with_files(100, image=9, other=1)
    begin = managed_volumes.begin

    def broken(session: orm.Session, volume: ManageVolume, listed_gb: int) -> str:
        if volume.reference == "image":
            raise ValueError(volume.reference)
        return begin(session, volume, listed_gb)

    monkeypatch.setattr(managed_volumes, "begin", broken)
    failed, done = verbs.manage([asked(world, "image"), asked(world, "other")])
    assert isinstance(failed, ValueError)
    assert done is None


def test_a_request_that_took_effect_while_the_counters_were_waited_for_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, verbs = with_files(100, image=90)
    message = asked(world, "image")
    hold = reservations.reserve

    def waits(session: orm.Session, *arguments: Any, **more: Any) -> Any:
        monkeypatch.undo()
        managed_volumes.begin(session, message, 90)
        volume_usage.mark_for_recount(session, ["demo"])
        held = hold(session, *arguments, **more)
        assert held.used[Scope("demo")].gigabytes == 90, "for another one there is no quota"
        return held

    assert verbs.manage([asked(world, "gone")]) == [None]  # makes the counter
    monkeypatch.setattr(reservations, "reserve", waits)
    assert verbs.manage([message]) == [None]
    assert verbs.manage([message]) == [None]
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(2,)]


def test_one_that_was_refused_for_a_quota_does_not_take_effect_once_there_is_more() -> None:
    world, verbs = with_files(10, image=90)
    message = asked(world, "image")
    [refused] = verbs.manage([message])
    assert isinstance(refused, errors.OverQuota)
    limit(world, PROJECT, {GIGABYTES: 100})
    [again] = verbs.manage([message])
    assert isinstance(again, errors.OverQuota)
    assert again.message == refused.message
    assert verbs.manage([asked(world, "image")]) == [None]


def test_a_request_that_another_scheduler_granted_meanwhile_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    world, verbs = with_files(100, image=9)
    message = asked(world, "image")
    run = world.database.run_past_duplicates

    def refused(*arguments: Any) -> None:
        monkeypatch.undo()
        run(*arguments)
        raise errors.Conflict("it was in use")

    monkeypatch.setattr(world.database, "run_past_duplicates", refused)
    assert verbs.manage([message]) == [None]
    assert world.rows("SELECT id, status FROM volumes") == [(message.volume_id, "creating")]


def test_a_listing_is_requested_at_once_after_a_volume_was_unmanaged() -> None:
    world, operations = with_files(100)
    volume_id = world.made(20)
    request = UnmanageVolume(request_id=world.request_id(), volume_id=volume_id)
    assert operations.unmanage([request]) == [None]
    assert world.listing_requests == [BACKEND]
    [missing] = operations.unmanage([UnmanageVolume(request_id=world.request_id(), volume_id=volume_id)])
    assert isinstance(missing, errors.NotFound)
    assert world.listing_requests == [BACKEND], "there is nothing new on the storage"
