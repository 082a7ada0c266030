# SPDX-License-Identifier: Apache-2.0
"""The explainer: it observes a decider and explains each decision, at the moment and by the rules of the decision."""

from collections.abc import Sequence
from dataclasses import replace

from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.rpc.messages import RetypeVolume
from tonnage.scheduler.decisions.decider import RequestDecision
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.requests.placement_requests import Work
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.steps.group_packing import GroupPacking


class Explainer(DecisionObserver):
    """Collects the explanations of one request. Without ``detail`` they have no verdicts, which costs far less."""

    def __init__(self, *, detail: bool) -> None:
        self._detail = detail
        self._explanations: list[Explanation] = []

    def explanations(self, item: Work, decided: RequestDecision) -> list[Explanation]:
        """Return an explanation for each volume of a request, or the one of its refusal, and begin the next request."""
        explanations, self._explanations = self._explanations, []
        if isinstance(decided.result, Refusal) and decided.result.excess is not None:
            # No pool was asked.
            return [_briefly(decided.result.request, decided.result)]
        if isinstance(item, RetypeVolume):
            return _retyped(decided, *explanations)
        if isinstance(decided.staying, Refusal):
            [move] = explanations
            text = f"Cannot grow where it is: {decided.staying.message}. To move it: {move.message}"
            refusal = decided.result if isinstance(decided.result, Refusal) else None
            return [replace(move, message=text, refusal=refusal)]
        return explanations

    def decided(self, pools: PoolTable, rules: Rules, request: Request, decision: Decision, *, in_place: bool) -> None:
        """Explain the decision on one volume."""
        if not self._detail:
            explanation = _briefly(request.describe(), decision)
        elif isinstance(decision, Refusal):
            explanation = rules.explain(pools, request)
        else:
            explanation = rules.explain(pools, request, decision.pool)
        self._explanations.append(explanation)

    def packed(self, packing: GroupPacking, result: Sequence[Placement] | Refusal) -> None:
        """Explain the decision on several volumes, each with those before it in their pools."""
        if isinstance(result, Refusal):
            self._explanations.append(self._left_over(packing, result))
            return
        try:
            for number, placement in enumerate(result):
                self.decided(packing.pools, packing.rules, packing.request(number), placement, in_place=False)
                packing.claim_in(number, placement.pool)
        finally:
            packing.undo()

    def _left_over(self, packing: GroupPacking, refusal: Refusal) -> Explanation:
        """Return the explanation of the first member that finds no pool, in the order of the request."""
        if not self._detail:
            return _briefly(refusal.request, refusal)
        try:
            for number in range(len(packing.members)):
                explanation = packing.rules.explain(packing.pools, packing.request(number))
                if explanation.pool is None:
                    break
                packing.claim_in(number, explanation.pool)
            return replace(explanation, request=refusal.request, message=refusal.message, refusal=refusal)
        finally:
            packing.undo()


def _briefly(text: str, decision: Decision) -> Explanation:
    """Return an explanation without verdicts."""
    if isinstance(decision, Refusal):
        return Explanation(text, None, decision.message, (), refusal=decision)
    return Explanation(text, decision.pool, f"{text} goes to {decision.pool}", ())


def _retyped(decided: RequestDecision, stays: Explanation, moves: Explanation | None = None) -> list[Explanation]:
    """Return the explanation of a retype.

    ``stays`` explains the decision whether the volume stays in its pool, ``moves`` the move if it does not stay.
    """
    text, staying = decided.specs[0].request.describe(), decided.staying
    if isinstance(staying, Placement):
        return [replace(stays, request=text, pool=staying.pool, message=f"{text} stays in {staying.pool}")]
    if staying is not None:
        stays = replace(stays, request=text, pool=None, message=staying.message, refusal=staying)
    if moves is None:
        return [stays]
    return [replace(moves, message=f"Cannot stay where it is: {stays.message}. To move it: {moves.message}")]
