# SPDX-License-Identifier: Apache-2.0
"""Drift of ``allocated_capacity_gb`` and its causes."""

import pytest

from tests.unit.extensions.cinder.watch.scenes import BACKEND, OTHER, POOL, command, report, rows, volume
from tonnage.extensions.cinder.decoding.cinder_messages import Report, Verb
from tonnage.extensions.cinder.decoding.cinder_rows import VolumeRow
from tonnage.extensions.cinder.watch.allocated_drift import AllocatedDrift
from tonnage.extensions.cinder.watch.findings import Category, Finding
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity

POOLS = ("a", "z")


class Scene:
    """Two pools of a backend, and the watch on their allocated capacity."""

    def __init__(self, *volumes: VolumeRow) -> None:
        self.promised = PromisedCapacity(20.0, 60.0)
        self.drift = AllocatedDrift(self.promised)
        self.now = 1000.0
        self.read(*volumes)

    def read(self, *volumes: VolumeRow) -> None:
        """Read rows."""
        before = self.promised.volumes.copy()
        self.promised.apply_rows(rows(self.now, *volumes))
        for volume_id in before.keys() - self.promised.volumes.keys():
            self.drift.note_gone(before[volume_id])

    def report(self, allocated: float | None, **more: object) -> None:
        """Take three reports, after which all that ended before is in the figures."""
        for _ in range(3):
            self.now += 10
            self._take(report(self.now, 0, pools=POOLS, allocated_capacity_gb=allocated, **more))  # type: ignore[arg-type]

    def _take(self, sent: Report) -> None:
        self.promised.apply_report(sent, self.now)
        self.drift.note_report([POOL], sent.sent_at)

    def compare(self) -> tuple[list[Finding], list[tuple[str, str, str]]]:
        """Compare with the rows some seconds later."""
        return self.drift.compare(self.now + 5)


def test_equal_sums_are_no_drift() -> None:
    scene = Scene(volume("v", 10, "available", 500))
    scene.report(10)
    assert scene.compare() == ([], [(Category.ALLOCATED_DRIFT.value, POOL, "allocated")])
    assert scene.compare() == ([], []), "each report is compared once"


def test_the_volume_that_was_moved_away_still_counts_at_its_source() -> None:
    scene = Scene(volume("v", 10, "available", 500))
    scene.drift.note_command(command("v", 10, OTHER, Verb.MIGRATE), POOL)
    scene.read(volume("v", 10, "available", 990, OTHER))
    scene.report(10)
    [found], _ = scene.compare()
    assert found.text == (
        "allocated_capacity_gb is 10 and the volumes have 0: 1 volume(s) that were moved away still count there"
    )
    assert (found.numbers, found.volumes) == ({"allocated": 10, "volumes": 0, "drift": 10}, ("v",))


def test_the_volume_that_was_moved_here_does_not_count() -> None:
    scene = Scene(volume("v", 10, "available", 500, OTHER))
    scene.drift.note_command(command("v", 10, POOL, Verb.MIGRATE), OTHER)
    scene.read(volume("v", 10, "available", 990))
    scene.report(0)
    [found], _ = scene.compare()
    assert "1 volume(s) that were moved here are not counted" in found.text


def test_a_retype_in_its_pool_is_no_move() -> None:
    scene = Scene(volume("v", 10, "available", 500))
    scene.drift.note_command(command("v", 0, POOL, Verb.RETYPE), POOL)
    scene.report(20)
    [found], _ = scene.compare()
    assert "it was so when the watch began" in found.text


def test_cached_images_do_not_count() -> None:
    scene = Scene(volume("v", 10, "available", 500), volume("cache", 5, "available", 500, counted=False))
    scene.report(10)
    [found], _ = scene.compare()
    assert "volumes that Cinder made for itself, such as cached images, are not counted" in found.text


def test_deleted_volumes_of_cinder_itself_still_count() -> None:
    scene = Scene(volume("temporary", 5, "available", 500, counted=False))
    scene.read()
    scene.report(5)
    [found], _ = scene.compare()
    assert "deleted volumes that Cinder had made for itself still count" in found.text


def test_each_service_of_a_cluster_counts_for_itself() -> None:
    scene = Scene(volume("v", 10, "available", 500))
    scene.report(5, host="one@b")
    assert BACKEND != "one@b"
    [found], _ = scene.compare()
    assert "several volume services of its cluster count" in found.text


@pytest.mark.parametrize("status", ["creating", "extending", "deleting"])
def test_a_pool_in_which_something_is_under_way_is_not_compared(status: str) -> None:
    scene = Scene(volume("v", 10, status, 500))
    scene.report(0)
    assert scene.compare() == ([], [])


def test_a_pool_with_a_volume_in_error_is_compared() -> None:
    scene = Scene(volume("v", 10, "error", 500))
    scene.report(0)
    assert len(scene.compare()[0]) == 1


def test_a_change_since_the_report_before_hides_drift() -> None:
    scene = Scene(volume("v", 10, "available", 500))
    scene.report(20)
    scene.read(volume("v", 10, "available", 500), volume("w", 10, "available", scene.now))
    assert scene.compare() == ([], [])


def test_a_report_without_the_field_is_not_compared() -> None:
    scene = Scene(volume("v", 10, "available", 500))
    scene.report(None)
    assert scene.compare() == ([], [])


def test_rows_that_were_read_too_early_are_not_compared() -> None:
    scene = Scene(volume("v", 10, "available", 500))
    scene.report(20)
    assert scene.drift.compare(scene.now + 1) == ([], [])
    assert len(scene.drift.compare(scene.now + 3)[0]) == 1
