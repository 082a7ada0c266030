# SPDX-License-Identifier: Apache-2.0
"""The metrics of decisions: their number by outcome, their duration, and the reasons of refusals."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tonnage.capacity import errors
from tonnage.metrics import instruments
from tonnage.rpc.messages import Answer, DeleteVolume, GroupAnswer
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.requests.placement_requests import Work, is_drain, key_of


class DecisionMetrics(DecisionObserver):
    """Counts decisions by their outcomes, and refusals by their reasons.

    The volumes of a draining backend that find no pool are none of them: nobody has requested anything, and the drain
    tries again all the time. The ledger has their number.
    """

    def answered(self, work: Sequence[Work], answers: Sequence[Answer | GroupAnswer | Exception]) -> None:
        """Count the decisions on a batch of requests."""
        for item, answer in zip(work, answers, strict=True):
            verb = key_of(item).verb
            if isinstance(answer, errors.TonnageError):
                outcome = "unavailable" if isinstance(answer, errors.Unavailable) else "rejected"
            elif isinstance(answer, Exception):
                outcome = "error"
            elif answer.refusal is not None and is_drain(item):
                continue
            elif answer.refusal is not None:
                outcome = "refused"
                instruments.count_refusal(verb, *answer.refusal.reason)
            else:
                outcome = "placed"
            instruments.DECISIONS.labels(verb, outcome).inc()


@contextmanager
def timed(requests: Sequence[Work | DeleteVolume]) -> Iterator[None]:
    """Measure the time in which requests that arrived together are decided. Deletes are not decided."""
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    for item in requests:
        if not isinstance(item, DeleteVolume):
            instruments.DECISION_DURATION.labels(key_of(item).verb).observe(seconds)
