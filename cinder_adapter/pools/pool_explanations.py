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
from tonnage.cinder_adapter.pools import capacity_rejection
from tonnage.cinder_adapter.pools.decision_record import REASONS, DecisionRecord
from tonnage.rpc.cinder_explanations import PartialExplanation

#: The filter, in the words of Tonnage, that leaves out pools before Cinder's filters see them.
_STATE = "BackendStateFilter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision to explain: the request, the pool or backend to which it is limited, if any, and the chosen pool.

    ``absent`` are pools that no filter has seen, with the reasons. With ``bounded`` a filter compares capacities. Of
    ``weighers``, classes of Cinder, the total weights are sums.
    """

    text: str
    place: str | None
    chosen: str | None
    absent: Mapping[str, Rejection]
    bounded: bool
    weighers: Sequence[type]


def explain(record: DecisionRecord, decided: Decided, most: int | None) -> PartialExplanation:
    """Return the explanation of a decision, with its nearest pools: at most so many, or all."""
    states = {state.backend_id: (state, each.properties) for each in record.refused() for state in each.states}
    verdicts = [PoolVerdict(name, _STATE, rejection) for name, rejection in decided.absent.items()]
    verdicts += [
        _verdict(state, each.properties, decided, filter_name=each.filter)
        for each in record.refused()
        for state in each.states
    ]
    verdicts += [_verdict(each.obj, record.properties, decided, weight=each.weight) for each in record.ranked]
    explanation = Explanation(
        request=decided.text,
        pool=decided.chosen,
        message="",
        verdicts=tuple(verdicts),
        filters=(_STATE, *dict.fromkeys(each.filter for each in record.refused())),
    )
    shown = explanation.ranked()[:most]
    weights = _weights(record, decided.weighers) if record.ranked else {}
    found = []
    for verdict in shown:
        if verdict.filter is None:
            verdict = replace(verdict, weights=weights.get(verdict.pool, ()))
        elif verdict.rejection is None:
            verdict = replace(verdict, rejection=REASONS.reason(verdict.filter, *states[verdict.pool]))
        found.append(verdict)
    explanation = replace(explanation, verdicts=tuple(found))
    if decided.chosen is None:
        refusal = record.refusal(decided.text, decided.place)
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
    """Return the weights of the pools that all filters left, by each weigher."""
    weighed = [WeighedHost(each.obj, 0.0) for each in record.ranked]
    found: dict[str, list[Weight]] = {each.obj.backend_id: [] for each in weighed}
    for cls in weighers:
        weigher = cls()
        raw = weigher.weigh_objects(weighed, record.properties)
        scaled = base_weight.normalize(raw, minval=weigher.minval, maxval=weigher.maxval)
        multiplier = weigher.weight_multiplier()
        for each, value, part in zip(weighed, raw, scaled, strict=True):
            found[each.obj.backend_id].append(Weight(cls.__name__, float(value), float(part), float(multiplier)))
            each.weight += multiplier * part
    return {name: tuple(weights) for name, weights in found.items()}
