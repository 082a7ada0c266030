# SPDX-License-Identifier: Apache-2.0
"""Metrics of a process."""

from prometheus_client import REGISTRY

from tonnage.metrics import instruments


def refusals(filter_name: str, code: str) -> float:
    labels = {"verb": "test", "filter": filter_name, "code": code}
    return REGISTRY.get_sample_value("tonnage_scheduler_refusals_total", labels) or 0.0


def test_counters_with_known_labels_begin_at_zero() -> None:
    """Otherwise the first refusal would be no increase."""
    assert REGISTRY.get_sample_value("tonnage_scheduler_reports_total", {"result": "failed"}) is not None
    for verb in ("create", "extend", "group", "migrate", "retype"):
        labels = {"verb": verb, "outcome": "refused"}
        assert REGISTRY.get_sample_value("tonnage_scheduler_decisions_total", labels) is not None


def test_the_reasons_of_refusals_are_bounded() -> None:
    for number in range(300):
        instruments.count_refusal("test", "OddFilter", f"code{number}")
    samples = [sample for metric in REGISTRY.collect() for sample in metric.samples]
    counted = [each for each in samples if each.name == "tonnage_scheduler_refusals_total"]
    kept = sum(each.value for each in counted if each.labels["filter"] == "OddFilter")
    assert 0 < kept <= 100
    assert kept + refusals("other", "other") == 300
    instruments.count_refusal("test", "OddFilter", "code0")
    assert refusals("OddFilter", "code0") == 2
