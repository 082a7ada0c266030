# SPDX-License-Identifier: Apache-2.0
"""The decider: the one way in which requests are decided, to place them, to explain them or to replay them.

It decides one request after another on a table of pools, and counts each placement there for the requests after it. It
books nothing: a scheduler hands its decisions to a :class:`~tonnage.scheduler.decisions.booking_plan.BookingPlan`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tonnage.capacity import errors
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Operation, Request
from tonnage.extension import attributed_to
from tonnage.quotas.quota_check import Demand, QuotaBudget
from tonnage.rpc.messages import CreateGroup, ExtendVolume, MigrationPolicy, RetypeVolume
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.decisions.resolution import resolve
from tonnage.scheduler.requests.placement_requests import Work
from tonnage.scheduler.requests.pool_selection import Rules, physical_gb
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec, RetryLater
from tonnage.scheduler.steps import group_requests, moves
from tonnage.scheduler.steps.group_affinity import GroupAffinity
from tonnage.scheduler.steps.group_packing import GroupPacking, Member


@dataclass(slots=True)
class RequestDecision:
    """The decision on one request.

    ``specs`` are the volumes. ``result`` is a placement for each of them, or the refusal of the request. ``staying`` is
    the decision whether a retyped volume stays in its pool, or the refusal to let a volume grow there that moves
    instead; None for every other request. ``stale_refusals`` are the refused requests that may find pools by newer
    figures.
    """

    specs: Sequence[RequestSpec]
    result: Sequence[Placement] | Refusal
    staying: Decision | None = None
    stale_refusals: Sequence[Request] = ()

    @property
    def request(self) -> str:
        """The request in a few words."""
        return self.specs[0].request.describe()


@dataclass(slots=True)
class Decider:
    """Decides requests on ``pools`` by ``rules``.

    ``budget`` is the rest of the quotas, None if nothing is limited. Unless ``counting``, no request sees the
    placements of those before it. ``counted`` are the names of the pools whose rows contain placements.
    """

    pools: PoolTable
    rules: Rules
    budget: QuotaBudget | None = None
    observers: Sequence[DecisionObserver] = ()
    counting: bool = field(default=True, kw_only=True)
    counted: set[str] = field(default_factory=set, init=False)
    _affinity: GroupAffinity | None = field(default=None, init=False)

    def decide(self, item: Work, lookup: Lookup, demands: Sequence[Demand] = ()) -> RequestDecision:
        """Decide one request.

        ``demands`` is its share of the quotas, which are compared first. Raises the errors of
        :func:`tonnage.scheduler.decisions.resolution.resolve`, and
        :class:`~tonnage.scheduler.requests.request_spec.RetryLater` for a refusal that is not final yet.
        """
        specs = resolve(item, lookup)
        excess = None if self.budget is None else self.budget.excess(demands)
        if excess is not None:
            text = f"{len(specs)} volumes" if isinstance(item, CreateGroup) else specs[0].request.describe()
            return RequestDecision(specs, Refusal(text, 0, excess=excess))
        if isinstance(item, CreateGroup):
            decided = self._decide_group(item, specs)
        elif isinstance(item, RetypeVolume):
            decided = self._decide_retype(item, specs[0], lookup)
        elif isinstance(item, ExtendVolume):
            decided = self._decide_extend(specs[0], moves.resolve_growth(item, lookup))
        else:
            decided = self._decide_volume(specs[0])
        if self.budget is not None and self.counting and not isinstance(decided.result, Refusal):
            self.budget.take(demands)
        return decided

    def choose(self, request: Request, *, in_place: bool = False, final: bool = True) -> Decision:
        """Return the pool for one volume, or the refusal, which is recorded if it is ``final``."""
        rules = self.rules.without_room if in_place else self.rules
        decision = rules.choose(self.pools, request)
        if final or isinstance(decision, Placement):
            for observer in self.observers:
                with attributed_to(observer):
                    observer.decided(self.pools, rules, request, decision, in_place=in_place)
        return decision

    def pack(self, members: Sequence[Member]) -> list[Placement] | Refusal:
        """Return the pools for several volumes, all or none."""
        packing = GroupPacking(self.pools, self.rules, members)
        result = packing.placements()
        for observer in self.observers:
            with attributed_to(observer):
                observer.packed(packing, result)
        return result

    def _decide_volume(self, spec: RequestSpec) -> RequestDecision:
        if spec.group is not None or spec.request.operation is Operation.MIGRATE:
            spec = self._confined(spec)
        decision = self.choose(spec.request, final=spec.waits_for is None)
        if isinstance(decision, Refusal) and spec.waits_for is not None:
            raise RetryLater(f"volume {spec.volume_id} waits until volume {spec.waits_for} is made")
        if isinstance(decision, Refusal):
            return RequestDecision([spec], decision, stale_refusals=_stale_refusals(spec))
        self._count(spec, decision)
        return RequestDecision([spec], [decision])

    def _decide_group(self, item: CreateGroup, specs: Sequence[RequestSpec]) -> RequestDecision:
        specs = [self._confined(spec) for spec in specs]
        result = self.pack(group_requests.members(item, specs))
        if isinstance(result, Refusal):
            stale_refusals: list[Request] = []
            for spec in specs:
                # The other volumes of the group may go to any backend.
                anywhere = replace(spec.request, same_backends=None)
                stale_refusals += _stale_refusals(replace(spec, request=anywhere))
            return RequestDecision(specs, result, stale_refusals=stale_refusals)
        for spec, placement in zip(specs, result, strict=True):
            self._count(spec, placement)
        return RequestDecision(specs, result)

    def _decide_retype(self, item: RetypeVolume, spec: RequestSpec, lookup: Lookup) -> RequestDecision:
        """Leave a volume in its pool with another type or, if that cannot be and the policy allows, move it."""
        request, volume = moves.in_place(spec), lookup.volume(item.volume_id)
        staying = self.choose(request, in_place=True)
        if isinstance(staying, Placement) and staying.provisioning.value != volume.provisioning:
            staying = moves.other_provisioning(request, volume, staying.provisioning)
        if isinstance(staying, Placement):
            return RequestDecision([spec], [staying], staying)
        if item.migration_policy is not MigrationPolicy.ON_DEMAND:
            return RequestDecision([spec], staying, staying, [request])
        moved = self._decide_volume(spec)
        moved.staying = staying
        if isinstance(moved.result, Refusal):
            moved.stale_refusals = [*moved.stale_refusals, request]
        return moved

    def _decide_extend(self, spec: RequestSpec, move: RequestSpec | None) -> RequestDecision:
        """Let a volume grow in its pool or, if only room is missing there, by a move that its type allows.

        Both are decided on the same figures, and one of them is booked. A volume that finds no other pool gets the
        refusal of the move, which names its own pool too.
        """
        if move is None:
            return self._decide_volume(spec)
        growing = self.choose(spec.request, final=False)
        if isinstance(growing, Placement):
            self._count(spec, growing)
            return RequestDecision([spec], [growing])
        if not self.rules.without_room.filters.candidates(self.pools, spec.request).any():
            return self._decide_volume(spec)
        moved = self._decide_volume(move)
        if isinstance(moved.result, Refusal):
            moved.result = replace(moved.result, outgrown=spec.request.pool)
        moved.staying = growing
        moved.stale_refusals = [*moved.stale_refusals, spec.request]
        return moved

    def _confined(self, spec: RequestSpec) -> RequestSpec:
        """Exclude the source pool of a move, and confine a volume of a group to the group's backend."""
        request = spec.request
        if request.operation is Operation.MIGRATE and spec.source is not None:
            request = moves.without_source(self.pools, request, spec.source.pool_name)
        if spec.group is not None:
            request = self._groups.confined(request, spec.group)
        return spec if request is spec.request else replace(spec, request=request)

    def _count(self, spec: RequestSpec, placement: Placement) -> None:
        """Count a placement in the table, for the requests that are decided after it."""
        if not self.counting:
            return
        pools, request = self.pools, spec.request
        index = pools.index(placement.pool)
        if index is None:
            raise errors.NotFound(f"pool {placement.pool} has gone")
        self.counted.update(pools.sharing(index))
        pools.claim(index, request.size_gb, physical_gb(placement, request, spec.copied_gb))
        if self.rules.counts_volumes and request.operation is not Operation.EXTEND:
            pools.set_volumes({placement.pool: int(pools.volumes[index]) + 1})
        if spec.group is not None:
            self._groups.record_placement(spec.group, placement.pool)

    @property
    def _groups(self) -> GroupAffinity:
        if self._affinity is None:
            self._affinity = GroupAffinity(self.pools, self.rules.without_room.filters)
        return self._affinity


def _stale_refusals(spec: RequestSpec) -> list[Request]:
    """Return the requests to check against newer figures: the refused one, and those that choose a group's backend."""
    if spec.group is None or spec.group.backend is not None:
        return [spec.request]
    return [replace(spec.request, backends=None), *spec.group.asks]
