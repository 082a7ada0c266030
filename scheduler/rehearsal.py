# SPDX-License-Identifier: Apache-2.0
"""Rehearsals: requests decided one after another on a copy of the pools, each seeing what those before it took."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace

from tonnage.capacity.decision import Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools import PoolTable
from tonnage.scheduler import choice
from tonnage.scheduler.choice import Rules
from tonnage.scheduler.groups import JointFit
from tonnage.scheduler.groups import Member


@dataclass(frozen=True, slots=True)
class Scene:
    """One request: a volume, or several that are placed all or none (``together``)."""

    members: Sequence[Member]
    together: bool = False


@dataclass(slots=True)
class Rehearsal:
    """Plays requests on ``pools``, which it changes."""

    pools: PoolTable
    rules: Rules

    def play(self, scene: Scene, *, detail: bool) -> list[Explanation]:
        """Return how a request is decided: an explanation for each volume, or the one of a refusal.

        Without ``detail`` they have no verdicts, which costs far less.
        """
        return self._group(scene.members, detail) if scene.together else [self._one(scene.members[0], detail)]

    def _one(self, member: Member, detail: bool) -> Explanation:
        request = member.request
        decision = self.rules.choose(self.pools, request)
        if isinstance(decision, Refusal):
            if detail:
                return self.rules.explain(self.pools, request)
            return Explanation(decision.what, None, decision.message, (), refusal=decision)
        if detail:
            explanation = self.rules.explain(self.pools, request, decision.pool)
        else:
            message = f"{request.describe()} goes to {decision.pool}"
            explanation = Explanation(request.describe(), decision.pool, message, ())
        choice.claim(self.pools, decision, request, member.copied_gb)
        return explanation

    def _group(self, members: Sequence[Member], detail: bool) -> list[Explanation]:
        found = self.rules.fit(self.pools, members)
        rules = self.rules
        # To be asked what each asks for, once those before it have their places.
        fit = JointFit(self.pools, rules.filters, rules.weighers, rules.calculation, members)
        if isinstance(found, Refusal):
            return [self._left_over(fit, found, detail)]
        explanations = []
        for number, placement in enumerate(found):
            request = fit.request(number)
            if detail:
                explanations.append(rules.explain(self.pools, request, placement.pool))
            else:
                message = f"{request.describe()} goes to {placement.pool}"
                explanations.append(Explanation(request.describe(), placement.pool, message, ()))
            index = self.pools.index(placement.pool)
            if index is not None:
                fit.claim(number, index)
        return explanations

    def _left_over(self, fit: JointFit, refusal: Refusal, detail: bool) -> Explanation:
        """Return the explanation of the first member that finds no pool, in the order asked for."""
        if not detail:
            return Explanation(refusal.what, None, refusal.message, (), refusal=refusal)
        try:
            for number in range(len(fit.members)):
                request = fit.request(number)
                explanation = self.rules.explain(self.pools, request)
                index = None if explanation.pool is None else self.pools.index(explanation.pool)
                if index is None:
                    break
                fit.claim(number, index)
            return replace(explanation, what=refusal.what, message=refusal.message, refusal=refusal)
        finally:
            fit.undo()
