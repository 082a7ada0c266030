# SPDX-License-Identifier: Apache-2.0
"""Over-commitments that Cinder made."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.extensions.cinder.watch.scenes import POOL, command, report, rows, volume
from tonnage.capacity.arithmetic import Calculation
from tonnage.extensions.cinder.decoding.cinder_messages import Command
from tonnage.extensions.cinder.watch.findings import Category, Finding
from tonnage.extensions.cinder.watch.over_commitments import OverCommitments
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity


class Scene:
    """A pool of 100 GiB and its watch."""

    def __init__(self, provisioned: float | None = 0, earlier: Sequence[Finding] = ()) -> None:
        self.promised = PromisedCapacity(20.0, 60.0)
        self.promised.apply_report(report(1000, provisioned), 0.0)
        self.promised.apply_rows(rows(1000))
        self.watched = OverCommitments(self.promised, Calculation.CINDER, earlier)
        self.watched.check([POOL])

    def place(self, *commands: Command) -> None:
        for each in commands:
            self.promised.promise(each)
            self.watched.note(each)
        self.promised.apply_rows(
            rows(1004, *(volume(each.volume_id, each.size_gb, "available", 1003) for each in commands))
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_over_commitment_is_in_the_figures_of_the_driver(scene: Scene) -> None:
    scene.place(command("v", 10), command("w", 95))
    scene.promised.apply_report(report(1010, 0), 10.0)
    assert scene.watched.check([POOL])[0] == []
    scene.promised.apply_report(report(1020, 105), 20.0)
    [found], _ = scene.watched.check([POOL])
    assert found.volumes == ("v", "w")
    assert (found.numbers["held"], found.numbers["limit"]) == (105, 100)


def test_it_ends_when_the_pool_is_within_its_limit_again(scene: Scene) -> None:
    scene.place(command("v", 105))
    scene.promised.apply_report(report(1010, 105), 10.0)
    [found], ended = scene.watched.check([POOL])
    assert ended == []
    scene.promised.apply_report(report(1020, 95), 20.0)
    assert scene.watched.check([POOL]) == ([], [found.key])


def test_one_of_an_earlier_shadow_goes_on_until_it_ends() -> None:
    numbers = {"held": 120.0, "limit": 100.0, "placed": 90.0, "before": 40.0}
    earlier = Finding(
        category=Category.OVER_COMMITMENT, subject=POOL, code="limit", text="", numbers=numbers, volumes=("u",)
    )
    scene = Scene(120, [earlier, replace(earlier, category=Category.ALLOCATED_DRIFT)])
    scene.place(command("v", 10))
    scene.promised.apply_report(report(1010, 130), 10.0)
    [found], ended = scene.watched.check([POOL])
    assert (found.key, found.volumes, ended) == (earlier.key, ("u", "v"), [])
    assert found.numbers == {"held": 130, "limit": 100, "placed": 100, "before": 40}
    scene.promised.apply_report(report(1020, 95), 20.0)
    assert scene.watched.check([POOL]) == ([], [earlier.key])
    scene.place(command("w", 20))
    scene.promised.apply_report(report(1030, 115), 30.0)
    [again], _ = scene.watched.check([POOL])
    assert again.volumes == ("w",)


def test_growth_outside_of_cinder_is_no_over_commitment(scene: Scene) -> None:
    scene.place(command("v", 10))
    scene.promised.apply_report(report(1010, 150), 10.0)
    assert scene.watched.check([POOL]) == ([], [])


def test_a_pool_that_shrinks_is_no_over_commitment(scene: Scene) -> None:
    scene.place(command("v", 90))
    scene.promised.apply_report(report(1010, 90), 10.0)
    scene.watched.check([POOL])
    scene.promised.apply_report(report(1020, 90, total_capacity_gb=80, free_capacity_gb=80), 20.0)
    assert scene.watched.check([POOL]) == ([], [])


def test_volumes_that_went_make_room_for_others(scene: Scene) -> None:
    """Cinder placed 150 GiB since the pool was within its limit, and deleted 80: others use the rest."""
    scene.place(command("v", 80))
    scene.promised.apply_report(report(1010, 80), 10.0)
    scene.watched.check([POOL])
    scene.place(command("w", 70))
    scene.promised.apply_report(report(1020, 120), 20.0)
    assert scene.watched.check([POOL]) == ([], [])


def test_what_others_hold_counts_when_cinder_places_beside_it(scene: Scene) -> None:
    for sent_at in (1010, 1020):
        scene.promised.apply_report(report(sent_at, 50), 10.0)
    assert scene.promised.is_quiet(POOL)
    scene.watched.check([POOL])
    scene.place(command("v", 60))
    scene.promised.apply_report(report(1030, 110), 30.0)
    [found], _ = scene.watched.check([POOL])
    assert found.numbers["before"] == 50


def test_nothing_is_found_before_the_rows_are_known() -> None:
    promised = PromisedCapacity(20.0, 60.0)
    promised.apply_report(report(1000, 150), 0.0)
    watched = OverCommitments(promised, Calculation.CINDER)
    watched.note(command("v", 10))
    assert watched.check([POOL]) == ([], [])


def test_rows_show_it_where_the_driver_reports_nothing_provisioned() -> None:
    scene = Scene(None)
    scene.place(command("v", 60), command("w", 60))
    [found], _ = scene.watched.check([POOL])
    assert found.numbers["held"] == 120


def test_a_thick_pool_is_over_its_limit_when_its_reserve_is_used() -> None:
    promised = PromisedCapacity(20.0, 60.0)
    thick = {"thin_provisioning_support": False, "thick_provisioning_support": True, "reserved_percentage": 10}
    promised.apply_report(report(1000, 0, **thick), 0.0)
    promised.apply_rows(rows(1000))
    watched = OverCommitments(promised, Calculation.CINDER)
    watched.check([POOL])
    promised.promise(command("v", 95))
    watched.note(command("v", 95))
    promised.apply_rows(rows(1004, volume("v", 95, "creating", 1003)))
    promised.apply_report(report(1010, 95, free_capacity_gb=5, **thick), 10.0)
    [found], _ = watched.check([POOL])
    assert (found.numbers["held"], found.numbers["limit"]) == (95, 90)
