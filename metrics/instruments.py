# SPDX-License-Identifier: Apache-2.0
"""The counters and histograms of a process, in the default registry of the Prometheus client.

Names end with the base unit or with ``_total``, as Prometheus recommends. Labels have few values: no name of a volume,
project, user or pool is one.
"""

import itertools
import threading
from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram, Info

import tonnage

#: Buckets in seconds, from a decision alone on an idle machine to a request that waits for its time-out.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)

#: The most combinations of filter and code in :data:`REFUSALS`: out-of-tree filters choose their codes.
_MOST_REASONS = 100

BUILD = Info("tonnage_build", "Version of Tonnage.")
BUILD.info({"version": tonnage.__version__})

DECISIONS = Counter(
    "tonnage_scheduler_decisions", "Requests that were decided, by verb and outcome.", ["verb", "outcome"]
)
DECISION_DURATION = Histogram(
    "tonnage_scheduler_decision_duration_seconds",
    "Time from the arrival of a request at the scheduler to its durable decision.",
    ["verb"],
    buckets=BUCKETS,
)
REFUSALS = Counter(
    "tonnage_scheduler_refusals",
    "Refused requests, by the filter and the code of the nearest pool.",
    ["verb", "filter", "code"],
)
QUEUE = Gauge("tonnage_scheduler_queue_requests", "Requests and messages that wait for the decision thread.")
CONFLICTS = Counter(
    "tonnage_scheduler_conflicts",
    "Transactions of the scheduler that were repeated because another scheduler had changed the same rows.",
)
REPORTS = Counter("tonnage_scheduler_reports", "Reports of backends, by result.", ["result"])
OUTCOMES = Counter("tonnage_scheduler_outcomes", "Ended operations of agents, by result.", ["result"])
DATABASE_RETRIES = Counter(
    "tonnage_database_retries", "Transactions that were repeated after an error of the database, by cause.", ["cause"]
)
API_REQUESTS = Counter(
    "tonnage_api_requests", "Requests to the REST API, by method, route and status.", ["method", "route", "code"]
)
API_DURATION = Histogram(
    "tonnage_api_request_duration_seconds",
    "Time from the headers of a request to its answer.",
    ["route"],
    buckets=BUCKETS,
)


def _begin_at_zero(counter: Counter, *values: Sequence[str]) -> None:
    """Make the series of all combinations of labels. Without its 0, the first event would be no increase."""
    for combination in itertools.product(*values):
        counter.labels(*combination)


_begin_at_zero(
    DECISIONS,
    ("create", "extend", "group", "migrate", "retype"),
    ("placed", "refused", "rejected", "unavailable", "error"),
)
_begin_at_zero(REPORTS, ("applied", "late", "failed"))
_begin_at_zero(OUTCOMES, ("succeeded", "failed"))
_begin_at_zero(DATABASE_RETRIES, ("away", "collision"))

_reasons: set[tuple[str, str]] = set()
_lock = threading.Lock()


def count_refusal(verb: str, filter_name: str, code: str) -> None:
    """Count a refusal. Beyond 100 combinations of filter and code, a new one is counted as ``other``."""
    reason = (filter_name, code)
    with _lock:
        if reason not in _reasons:
            if len(_reasons) >= _MOST_REASONS:
                reason = ("other", "other")
            else:
                _reasons.add(reason)
    REFUSALS.labels(verb, *reason).inc()
