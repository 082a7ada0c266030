# SPDX-License-Identifier: Apache-2.0
"""Explaining a decision without making it."""

from dataclasses import replace

from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.weighers.chain import WeigherChain


def explain(pools: PoolTable, request: Request, filters: FilterChain, weighers: WeigherChain) -> Explanation:
    """Return what becomes of a request, pool by pool: who refuses it and why, or what it weighs."""
    result = filters.run(pools, request)
    index = weighers.rank(pools, request, result.remaining)
    weights = weighers.weights(pools, request, result.remaining)
    verdicts = []
    for verdict in filters.explain(pools, request, result):
        if verdict.pool in weights:
            each, total = weights[verdict.pool]
            verdict = replace(verdict, weights=each, total_weight=total)
        verdicts.append(verdict)
    if index is None:
        message = filters.refusal(pools, request, result).message
        return Explanation(request.describe(), None, message, tuple(verdicts))
    chosen = pools.names[index]
    count = int(result.remaining.sum())
    message = f"{request.describe()} goes to {chosen}, the best of {count} candidate{'' if count == 1 else 's'}"
    return Explanation(request.describe(), chosen, message, tuple(verdicts))
