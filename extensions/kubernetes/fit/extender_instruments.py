# SPDX-License-Identifier: Apache-2.0
"""The counters and histograms of the kube-scheduler extender, in the default registry of the Prometheus client."""

from prometheus_client import Counter, Histogram

#: Buckets of the extender, whose budgets are 2 and 25 ms, and 60 ms with reservations.
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

DURATION = Histogram(
    "tonnage_extender_request_duration_seconds",
    "Time from the headers of a request of kube-scheduler to its answer.",
    ["verb"],
    buckets=_BUCKETS,
)
PODS = Counter("tonnage_extender_pods", "Pods that were filtered, by result.", ["result"])
ADMISSIONS = Counter("tonnage_admissions", "Nodes of waiting pods that were admitted or not, by result.", ["result"])
REFUSALS = Counter("tonnage_extender_refusals", "Nodes that were refused for pods, by code of the reason.", ["code"])
