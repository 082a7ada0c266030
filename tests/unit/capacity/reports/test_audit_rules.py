# SPDX-License-Identifier: Apache-2.0
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.capacity import audited
from tests.unit.capacity.audited import Lie, Report
from tests.unit.drivers import configured
from tonnage.capacity.reports.audit_rules import Auditor, Breach, Volumes
from tonnage.drivers import loader
from tonnage.drivers.base import Driver


def _memory(folder: Path, text: str = "") -> Driver:
    text = f"[mem]\nvolume_driver = memory\nmemory_pools = pool\nmemory_pool_size_gb = 20\n{text}\n"
    return loader.load("host@mem", "mem", configured.conf(folder, text))


def _setting(field: str, value: object) -> Lie:
    return lambda report: report[0].update({field: value})


def _physical(report: Report) -> None:
    report[0]["provisioned_capacity_gb"] = report[0]["total_capacity_gb"] - report[0]["free_capacity_gb"]


def _with_snapshots(report: Report) -> None:
    report[0]["provisioned_capacity_gb"] += 5


def _half(report: Report) -> None:
    report[0]["provisioned_capacity_gb"] /= 2


def _neither(report: Report) -> None:
    report[0].update(thin_provisioning_support=False, thick_provisioning_support=False)


def _without(field: str) -> Lie:
    return lambda report: report[0].pop(field)


@pytest.mark.parametrize(
    ("lie", "breach"),
    [
        (_physical, Breach.PROVISIONED_IS_PHYSICAL),
        (_half, Breach.PROVISIONED_TOO_SMALL),
        (_with_snapshots, Breach.PROVISIONED_TOO_LARGE),
        (_without("provisioned_capacity_gb"), Breach.PROVISIONED_REQUIRED),
        (_without("max_over_subscription_ratio"), Breach.RATIO_REQUIRED),
        (_neither, Breach.THIN_OR_THICK),
        (_setting("allocated_capacity_gb", 3), Breach.NO_ALLOCATED),
        (_setting("free_capacity_gb", 20.5), Breach.FREE_WITHIN_TOTAL),
        (_setting("total_capacity_gb", 20.123), Breach.TWO_DECIMALS),
        (_setting("max_over_subscription_ratio", 0.5), Breach.RATIO_RANGE),
        (_setting("max_over_subscription_ratio", "auto"), Breach.AUTO_UNDECLARED),
        (_setting("total_capacity_gb", "infinite"), Breach.UNBOUNDED),
        (_setting("free_capacity_gb", "unknown"), Breach.UNBOUNDED),
        (_setting("reserved_percentage", 120), Breach.RESERVED_RANGE),
        (_setting("reserved_percentage", "much"), Breach.RESERVED_RANGE),
        (_setting("filter_function", "volume.size <"), Breach.RULE_UNREADABLE),
        (_setting("node_topology", {"terms": []}), Breach.RULE_UNREADABLE),
    ],
    ids=lambda value: str(value) if isinstance(value, Breach) else "",
)
def test_each_false_report_has_exactly_its_breach(tmp_path: Path, lie: Lie, breach: Breach) -> None:
    ledger = audited.Ledger(_memory(tmp_path, "memory_provisioning = thin"), lie)
    for seed in range(4):
        ledger.act(random.Random(seed))
    assert ledger.look() == {breach}


def test_figures_that_stay_unchanged_are_a_breach(tmp_path: Path) -> None:
    """The first report is told for ever. That something is missing from it is one breach, that it stays another."""
    first: Report = []

    def stuck(report: Report) -> None:
        first.extend(first or report)
        report[:] = [dict(first[0])]

    ledger = audited.Ledger(_memory(tmp_path), stuck)
    assert ledger.look() == set()
    found = set()
    for seed in range(3):
        ledger.act(random.Random(seed))
        found = ledger.look()
    assert Breach.STANDS_STILL in found


def test_a_single_unchanged_report_is_no_breach() -> None:
    auditor = Auditor(supports_auto=False)
    report = [{"pool_name": "a", "total_capacity_gb": 9, "free_capacity_gb": 9, "provisioned_capacity_gb": 4.0}]
    report[0]["thick_provisioning_support"] = True
    assert auditor.look(report, {}) == ()
    assert auditor.look(report, {"a": Volumes(moved_gb=1)}) == ()
    assert auditor.look(report, {"a": Volumes()}) == ()
    assert auditor.look([report[0] | {"provisioned_capacity_gb": 5.0}], {"a": Volumes(moved_gb=1)}) == ()
    assert auditor.look([report[0] | {"provisioned_capacity_gb": 5.0}], {"a": Volumes(moved_gb=1)}) == ()


def test_the_finding_has_the_figures() -> None:
    """The specification's example: 20 empty thin volumes of 20 GB count for 400."""
    pool: Mapping[str, Any] = {
        "pool_name": "gold",
        "total_capacity_gb": 1024,
        "free_capacity_gb": 500,
        "provisioned_capacity_gb": 524,
        "max_over_subscription_ratio": None,
        "thin_provisioning_support": True,
        "thick_provisioning_support": True,
    }
    (finding,) = Auditor(supports_auto=True).look([pool], {"gold": Volumes(least_gb=800, all_gb=924)})
    assert finding.breach is Breach.PROVISIONED_IS_PHYSICAL
    assert str(finding) == (
        "pool 'gold': provisioned_capacity_gb is 524 and there are volumes of 924: it is the sum of their full sizes, "
        "not of the space that they occupy (total less free)"
    )
    honest = {**pool, "provisioned_capacity_gb": 924}
    assert Auditor(supports_auto=True).look([honest], {"gold": Volumes(least_gb=800, all_gb=924)}) == ()


def test_pools_of_one_storage_are_compared_with_all_its_volumes() -> None:
    """Other backends may have volumes there too, so it may be more than these list, and not less."""
    common = {"storage_id": "array", "total_capacity_gb": 9, "free_capacity_gb": 9, "thick_provisioning_support": True}
    known = {"a": Volumes(least_gb=1, all_gb=2), "b": Volumes(all_gb=3)}
    for provisioned, expected in ((9.0, []), (5.0, []), (4.0, [Breach.PROVISIONED_TOO_SMALL] * 2)):
        report = [{"pool_name": name, "provisioned_capacity_gb": provisioned, **common} for name in "ab"]
        found = Auditor(supports_auto=False).look(report, known)
        assert [finding.breach for finding in found] == expected
    # With limits of its own, a pool's figures are its own.
    own = [{"pool_name": "a", "provisioned_capacity_gb": 9.0, "storage_free_capacity_gb": 9, **common}]
    (finding,) = Auditor(supports_auto=False).look(own, known)
    assert finding.breach is Breach.PROVISIONED_TOO_LARGE


@pytest.mark.parametrize("report", [[{}], [{"pool_name": None, "total_capacity_gb": [], "free_capacity_gb": {}}]])
def test_invalid_reports_do_not_raise(report: Report) -> None:
    assert Auditor(supports_auto=False).look(report, {})
