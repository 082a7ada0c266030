# SPDX-License-Identifier: Apache-2.0
"""The metrics of decisions: their number by outcome, their duration, and the reasons of refusals.

A scheduler without metrics enters none of this.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tonnage.capacity import errors
from tonnage.metrics import instruments
from tonnage.rpc.messages import Answer, DeleteVolume, GroupAnswer
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.requests.placement_requests import Work, key_of


class MeteredPlacer(Placer):
    """A placer that counts its decisions."""

    def place(self, work: Sequence[Work]) -> list[Answer | GroupAnswer | Exception]:
        """Place a batch of requests, and count the decisions on them."""
        answers = super().place(work)
        for item, answer in zip(work, answers, strict=True):
            verb = key_of(item).verb
            if isinstance(answer, errors.TonnageError):
                outcome = "unavailable" if isinstance(answer, errors.Unavailable) else "rejected"
            elif isinstance(answer, Exception):
                outcome = "error"
            elif answer.refusal is not None:
                outcome = "refused"
                instruments.count_refusal(verb, *answer.refusal.reason)
            else:
                outcome = "placed"
            instruments.DECISIONS.labels(verb, outcome).inc()
        return answers


@contextmanager
def timed(requests: Sequence[Work | DeleteVolume]) -> Iterator[None]:
    """Measure the time in which requests that arrived together are decided. Deletes are not decided."""
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    for item in requests:
        if not isinstance(item, DeleteVolume):
            instruments.DECISION_DURATION.labels(key_of(item).verb).observe(seconds)
