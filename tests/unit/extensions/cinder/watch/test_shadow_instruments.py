# SPDX-License-Identifier: Apache-2.0
"""The metrics of the shadow, under the names that alerts use."""

import pathlib

import pytest
from prometheus_client import REGISTRY

from tonnage.extensions.cinder.watch import shadow_instruments

DOCS = pathlib.Path(__file__).parents[5] / "docs"


@pytest.mark.parametrize(
    ("counter", "labels", "name"),
    [
        (shadow_instruments.MESSAGES, {"kind": "test"}, "tonnage_cinder_shadow_messages_total"),
        (shadow_instruments.DECISIONS, {"verb": "test", "verdict": "same"}, "tonnage_cinder_shadow_decisions_total"),
        (shadow_instruments.GAPS, {"cause": "test"}, "tonnage_cinder_shadow_gaps_total"),
        (shadow_instruments.FINDINGS, {"kind": "test"}, "tonnage_cinder_shadow_findings_total"),
    ],
)
def test_a_counter_has_its_labels_and_is_documented(counter: object, labels: dict[str, str], name: str) -> None:
    counter.labels(**labels).inc(2)  # type: ignore[attr-defined]
    assert REGISTRY.get_sample_value(name, labels) == 2
    assert name.removesuffix("_total") in "".join(page.read_text() for page in DOCS.glob("*.rst"))


def test_the_times_of_both_schedulers_are_measured_apart() -> None:
    for scheduler, seconds in (("cinder-test", 0.2), ("tonnage-test", 0.001)):
        shadow_instruments.DECISION_DURATION.labels(scheduler).observe(seconds)
        labels = {"scheduler": scheduler}
        name = "tonnage_cinder_shadow_decision_duration_seconds_sum"
        assert REGISTRY.get_sample_value(name, labels) == pytest.approx(seconds)
