# SPDX-License-Identifier: Apache-2.0
"""The audit of Cinder's reports."""

from typing import Any

import pytest

from tests.unit.extensions.cinder.watch.scenes import BACKEND, POOL, report, rows, service, volume
from tonnage.extensions.cinder.decoding.cinder_messages import Report
from tonnage.extensions.cinder.watch.findings import Category, Finding
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity
from tonnage.extensions.cinder.watch.report_audit import ReportAudit


class Scene:
    """A backend whose reports are audited."""

    def __init__(self) -> None:
        self.promised = PromisedCapacity(20.0, 60.0)
        self.audit = ReportAudit(self.promised, stale_after=180.0, down_time=60.0)

    def look(self, sent: Report, now: float = 0.0) -> list[Finding]:
        checked, _ = self.promised.apply_report(sent, now)
        self.audit.note_report(sent, checked, now)
        return self.audit.audit(now + 1, [])[0]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_ordinary_report_has_no_findings(scene: Scene) -> None:
    assert scene.look(report(1000, 0)) == []


@pytest.mark.parametrize("stats", [{"max_over_subscription_ratio": "auto"}, {"max_over_subscription_ratio": None}])
def test_reports_in_cinders_way_have_no_findings(scene: Scene, stats: dict[str, Any]) -> None:
    assert scene.look(report(1000, 0, **stats)) == []


@pytest.mark.parametrize(
    ("stats", "code"),
    [
        ({"free_capacity_gb": 200}, "free_within_total"),
        ({"reserved_percentage": 150}, "reserved_range"),
        ({"total_capacity_gb": "many"}, "refused_total_capacity_gb"),
    ],
)
def test_a_report_that_breaks_a_definition_is_a_finding(scene: Scene, stats: dict[str, Any], code: str) -> None:
    found = scene.look(report(1000, 0, **stats))
    assert (Category.WRONG_REPORT, POOL, code) in {(each.category, each.subject, each.code) for each in found}


def test_a_provisioned_capacity_below_the_volumes_is_a_finding(scene: Scene) -> None:
    scene.promised.apply_rows(rows(900, volume("v", 50, "available", 500)))
    found = [finding for sent_at in (1000, 1010, 1020, 1030) for finding in scene.look(report(sent_at, 10))]
    assert {each.code for each in found} == {"provisioned_too_small"}


def test_a_volume_that_may_not_be_in_the_figures_yet_is_no_finding(scene: Scene) -> None:
    scene.look(report(1000, 10))
    scene.promised.apply_rows(rows(1005, volume("v", 50, "available", 1004), volume("w", 50, "creating", 1004)))
    assert scene.look(report(1010, 10)) == []


def test_a_mended_report_ends_its_findings(scene: Scene) -> None:
    open_keys = [each.key for each in scene.look(report(1000, 0, free_capacity_gb=200))]
    elsewhere = (Category.WRONG_REPORT.value, "other@b#p", "free_within_total")
    for sent_at, wanted in ((1010, []), (1020, open_keys)):
        sent = report(sent_at, 0, free_capacity_gb=100 if wanted else 200)
        checked, _ = scene.promised.apply_report(sent, 0.0)
        scene.audit.note_report(sent, checked, 0.0)
        assert scene.audit.audit(1.0, [*open_keys, elsewhere])[1] == wanted


def test_a_volume_that_was_deleted_before_the_look_is_no_finding(scene: Scene) -> None:
    """The last read still shows it."""
    scene.promised.apply_rows(rows(900, volume("v", 50, "available", 500)))
    for sent_at in (1000, 1010, 1020):
        assert scene.look(report(sent_at, 50)) == []
    sent = report(1030, 0)
    checked, _ = scene.promised.apply_report(sent, 30.0)
    scene.audit.note_report(sent, checked, 30.0)
    assert scene.audit.audit(29.0, []) == ([], [])
    scene.promised.apply_rows(rows(1031))
    assert scene.audit.audit(31.0, []) == ([], [])


def test_a_backend_that_is_up_and_silent_is_stale(scene: Scene) -> None:
    scene.look(report(1000, 0), 0.0)
    scene.promised.apply_rows(rows(1001, services=(service(),)))
    assert scene.audit.silent(180.0) == ([], [(Category.STALE_REPORT.value, BACKEND, "silent")])
    [found], _ = scene.audit.silent(181.0)
    assert (found.category, found.subject, found.numbers) == (Category.STALE_REPORT, BACKEND, {"seconds": 181})


def test_a_backend_whose_service_is_down_is_not_stale(scene: Scene) -> None:
    scene.look(report(1000, 0), 0.0)
    scene.promised.apply_rows(rows(1001, services=(service(61),)))
    assert scene.audit.silent(500.0) == ([], [])
