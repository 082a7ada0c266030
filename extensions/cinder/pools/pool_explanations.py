# SPDX-License-Identifier: Apache-2.0
"""Explanations of decisions of Cinder's scheduler: the verdict on each pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cinder.scheduler import base_weight
from cinder.scheduler.weights import WeighedHost

from tonnage.capacity import units
from tonnage.capacity.decision import Rejection
from tonnage.capacity.explanation import Explanation, PoolVerdict, Weight
from tonnage.extensions.cinder.pools import capacity_rejection
from tonnage.extensions.cinder.pools.decision_record import DecisionRecord
from tonnage.rpc.cinder_explanations import PartialExplanation

#: The filter, in the words of Tonnage, that leaves out pools before Cinder's filters see them.
_STATE = "BackendStateFilter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision to explain: the request, the pool or backend to which it is limited, if any, and the chosen pool.

    ``absent`` are the pools that no filter got, with the reasons. ``bounded`` tells that a filter compares capacities.
    ``weighers`` are Cinder's classes whose weights add up to the total weight.
    """

    text: str
    target: str | None
    chosen: str | None
    absent: Mapping[str, Rejection]
    bounded: bool
    weighers: Sequence[type]


def explain(record: DecisionRecord, decided: Decided, most: int | None) -> PartialExplanation:
    """Return the explanation of a decision, with its nearest pools: at most so many, or all."""
    refused_pools = {state.backend_id: (refused, state) for refused in record.refused() for state in refused.states}
    verdicts = [PoolVerdict(name, _STATE, rejection) for name, rejection in decided.absent.items()]
    verdicts += [
        _verdict(state, refused.properties, decided, filter_name=refused.filter)
        for refused in record.refused()
        for state in refused.states
    ]
    verdicts += [
        _verdict(candidate.obj, record.properties, decided, weight=candidate.weight) for candidate in record.ranked
    ]
    explanation = Explanation(
        request=decided.text,
        pool=decided.chosen,
        message="",
        verdicts=tuple(verdicts),
        filters=(_STATE, *dict.fromkeys(refused.filter for refused in record.refused())),
    )
    shown = explanation.ranked()[:most]
    weights = _weights(record, decided.weighers) if record.ranked else {}
    explained = []
    for verdict in shown:
        if verdict.filter is None:
            verdict = replace(verdict, weights=weights.get(verdict.pool, ()))
        elif verdict.rejection is None:
            refused, state = refused_pools[verdict.pool]
            verdict = replace(verdict, rejection=refused.reason(state))
        explained.append(verdict)
    explanation = replace(explanation, verdicts=tuple(explained))
    if decided.chosen is None:
        refusal = record.refusal(decided.text, decided.target)
        return PartialExplanation(replace(explanation, message=refusal.message, refusal=refusal), len(verdicts))
    count = len(record.ranked)
    best = f"the best of {count} candidate{'' if count == 1 else 's'}"
    return PartialExplanation(
        replace(explanation, message=f"{decided.text} goes to {decided.chosen}, {best}"), len(verdicts)
    )


def _verdict(
    state: Any,
    properties: Mapping[str, Any],
    decided: Decided,
    *,
    filter_name: str | None = None,
    weight: float | None = None,
) -> PoolVerdict:
    """Return the verdict on a pool, still without reason and weights."""
    headroom = capacity_rejection.largest_size(state, properties) if decided.bounded else None
    return PoolVerdict(
        state.backend_id,
        filter_name,
        total_weight=weight,
        headroom=None if headroom is None else units.to_wire(headroom),
        thin=capacity_rejection.is_thin(state, properties),
    )


def _weights(record: DecisionRecord, weighers: Sequence[type]) -> dict[str, tuple[Weight, ...]]:
    """Return the weights of the pools that all filters accept, by each weigher."""
    weighed = [WeighedHost(candidate.obj, 0.0) for candidate in record.ranked]
    weights_by_pool: dict[str, list[Weight]] = {candidate.obj.backend_id: [] for candidate in weighed}
    for cls in weighers:
        weigher = cls()
        raw = weigher.weigh_objects(weighed, record.properties)
        scaled = base_weight.normalize(raw, minval=weigher.minval, maxval=weigher.maxval)
        multiplier = weigher.weight_multiplier()
        for candidate, value, part in zip(weighed, raw, scaled, strict=True):
            weights_by_pool[candidate.obj.backend_id].append(
                Weight(cls.__name__, float(value), float(part), float(multiplier))
            )
            candidate.weight += multiplier * part
    return {name: tuple(weights) for name, weights in weights_by_pool.items()}
