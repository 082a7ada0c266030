# SPDX-License-Identifier: Apache-2.0
"""Rehearsals: requests decided one after another on a copy of the pools, each seeing what those before it took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tonnage.capacity.decision import Placement, Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning, Request
from tonnage.scheduler.decisions import decider, pool_selection
from tonnage.scheduler.decisions.group_affinity import Together
from tonnage.scheduler.decisions.group_packing import JointFit, Member
from tonnage.scheduler.decisions.pool_selection import Rules


@dataclass(frozen=True, slots=True)
class Stay:
    """What a volume that is to get another type asks of the pool that it is in.

    ``others`` has what is said if it would be of that kind there, which is not the one that it is of. If it cannot stay
    it ``may_move``.
    """

    request: Request
    others: Mapping[Provisioning, Refusal]
    may_move: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """One request: a volume, or several that are placed all or none (``together``).

    ``source`` is the pool in which a volume is already, ``stay`` what would let it stay there.
    """

    members: Sequence[Member]
    together: bool = False
    source: str | None = None
    stay: Stay | None = None


@dataclass(slots=True)
class Rehearsal:
    """Plays requests on ``pools``, which it changes; not so where they are ``apart``, and none is to see another."""

    pools: PoolTable
    rules: Rules
    apart: bool = False
    _together: Together = field(init=False)

    def __post_init__(self) -> None:
        self._together = Together(self.pools, decider.without_room(self.rules.filters))

    def play(self, scene: Scene, *, detail: bool) -> list[Explanation]:
        """Return how a request is decided: an explanation for each volume, or the one of a refusal.

        Without ``detail`` they have no verdicts, which costs far less.
        """
        if scene.together:
            return self._group(scene.members, detail)
        [member] = scene.members
        if scene.stay is None:
            return [self._one(member, scene.source, detail)]
        stays = self._in_place(scene.stay, member.request.describe(), detail)
        if stays.pool is not None or not scene.stay.may_move:
            return [stays]
        moves = self._one(member, scene.source, detail)
        return [replace(moves, message=f"Cannot stay where it is: {stays.message}. To move it: {moves.message}")]

    def _in_place(self, stay: Stay, what: str, detail: bool) -> Explanation:
        rules = replace(self.rules, filters=decider.without_room(self.rules.filters))
        decision = rules.choose(self.pools, stay.request)
        found = rules.explain(self.pools, stay.request) if detail else Explanation(what, None, "", ())
        if isinstance(decision, Placement):
            decision = stay.others.get(decision.provisioning, decision)
        if isinstance(decision, Refusal):
            return replace(found, what=what, pool=None, message=decision.message, refusal=decision)
        return replace(found, what=what, pool=decision.pool, message=f"{what} stays in {decision.pool}")

    def _one(self, member: Member, source: str | None, detail: bool) -> Explanation:
        request = pool_selection.kept_apart(self.pools, member.request, source)
        request = self._together.confined(request, member.group)
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
        if not self.apart:
            pool_selection.claim(self.pools, decision, request, member.copied_gb)
            self._together.place(member.group, decision.pool)
        return explanation

    def _group(self, members: Sequence[Member], detail: bool) -> list[Explanation]:
        members = [replace(each, request=self._together.confined(each.request, each.group)) for each in members]
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
            if not self.apart:
                self._together.place(members[number].group, placement.pool)
        if self.apart:
            fit.undo()
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
