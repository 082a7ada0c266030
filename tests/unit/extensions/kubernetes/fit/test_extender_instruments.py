# SPDX-License-Identifier: Apache-2.0
"""The metrics of the extender: their names, their labels, and buckets around its budgets."""

from prometheus_client import REGISTRY

from tonnage.extensions.kubernetes.fit import extender_instruments


def test_budgets_of_2_25_and_60_ms_are_bounds_of_buckets() -> None:
    extender_instruments.DURATION.labels("test").observe(0.0019)
    extender_instruments.DURATION.labels("test").observe(0.059)

    def below(bound: str) -> float | None:
        labels = {"verb": "test", "le": bound}
        return REGISTRY.get_sample_value("tonnage_extender_request_duration_seconds_bucket", labels)

    assert [below(bound) for bound in ("0.001", "0.002", "0.025", "0.06", "+Inf")] == [0, 1, 1, 2, 2]


def test_pods_and_refusals_are_counted_apart() -> None:
    extender_instruments.PODS.labels("test").inc()
    extender_instruments.REFUSALS.labels("test").inc(3)
    assert REGISTRY.get_sample_value("tonnage_extender_pods_total", {"result": "test"}) == 1
    assert REGISTRY.get_sample_value("tonnage_extender_refusals_total", {"code": "test"}) == 3
