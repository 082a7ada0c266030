# SPDX-License-Identifier: Apache-2.0
"""Advisers of extensions: they tell administrators how a refused request becomes possible."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tonnage.capacity.explanation import Explanation
from tonnage.capacity.reports import hypothetical_pools
from tonnage.extension import Hook
from tonnage.rpc.messages import CreateVolume, SimulationResult, WhatIf

LOG = logging.getLogger(__name__)


class Adviser(Hook):
    """An adviser. The threads of questions call it, several at a time; nobody who wants a volume waits for it."""

    def advise(self, message: CreateVolume, explanation: Explanation) -> Sequence[str]:
        """Return sentences about ways to make a refused create possible.

        The one who asks waits for them, so they take seconds at most.
        """
        return ()


def with_advice(
    question: WhatIf, results: Sequence[SimulationResult], advisers: Iterable[Adviser]
) -> list[SimulationResult]:
    """Return the answer to a question with the advice if it is about one create as things are, which is refused.

    An exception of an adviser is logged.
    """
    [result, *others] = results
    message = question.requests[0].create
    is_plain = question.detail and question.changes == hypothetical_pools.NO_CHANGES and not others
    if message is None or not is_plain or result.volumes[0].pool is not None:
        return list(results)
    [explanation] = result.volumes
    advice: list[str] = []
    for adviser in advisers:
        try:
            advice += adviser.advise(message, explanation)
        except Exception:
            LOG.exception("An adviser of the extension '%s' failed", adviser.extension)
    return [replace(result, volumes=[replace(explanation, advice=tuple(advice))])]
