# SPDX-License-Identifier: Apache-2.0
"""The metrics of ``tonnage-cinder-shadow``."""

from prometheus_client import Counter, Histogram

from tonnage.metrics.instruments import BUCKETS

MESSAGES = Counter(
    "tonnage_cinder_shadow_messages", "Messages on Cinder's bus that the shadow has seen, by kind.", ["kind"]
)
DECISIONS = Counter(
    "tonnage_cinder_shadow_decisions",
    "Decisions of Cinder's schedulers, by verb and by their relation to Tonnage's decision.",
    ["verb", "verdict"],
)
DECISION_DURATION = Histogram(
    "tonnage_cinder_shadow_decision_duration_seconds",
    "Time of a decision: Cinder's from the request on the bus to its command, Tonnage's of the decision alone.",
    ["scheduler"],
    buckets=BUCKETS,
)
GAPS = Counter(
    "tonnage_cinder_shadow_gaps", "Losses of messages or rows that the shadow has noticed, by cause.", ["cause"]
)
FINDINGS = Counter("tonnage_cinder_shadow_findings", "Findings of the shadow about Cinder, by kind.", ["kind"])
