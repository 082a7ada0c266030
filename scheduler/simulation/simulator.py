# SPDX-License-Identifier: Apache-2.0
"""Questions: how requests would be decided, now or if some things were different. None of them has an effect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tonnage.capacity import errors, over_subscription
from tonnage.capacity.decision import Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.pools import hypothetical_pools
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning
from tonnage.ledger.catalog import volumes
from tonnage.ledger.db.database import Database
from tonnage.quotas import options as quota_options
from tonnage.quotas import reservations
from tonnage.quotas.quota_budget import Demand
from tonnage.rpc.messages import (
    Asked,
    CreateGroup,
    CreateVolume,
    MigrateVolume,
    MigrationPolicy,
    Outlook,
    RetypeVolume,
    WhatIf,
)
from tonnage.scheduler.compute.instance_hosts import InstanceHosts
from tonnage.scheduler.decisions import group_requests, lookups, quota_deltas, request_spec
from tonnage.scheduler.decisions.group_packing import Member
from tonnage.scheduler.decisions.lookups import Lookup
from tonnage.scheduler.decisions.placement_requests import Move, Work, taken_apart
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.decisions.request_spec import resolve
from tonnage.scheduler.ignored_hints import IgnoredHints
from tonnage.scheduler.reports.backend_state import PoolEntry
from tonnage.scheduler.simulation.rehearsal import Rehearsal, Scene, Stay

#: Most requests that are played for one question.
MAX_REQUESTS = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """What requests are decided by at one moment: a copy of the pools, the rules, and what counts by default."""

    pools: PoolTable
    rules: Rules
    default_ratio: float | str
    entries: Mapping[str, PoolEntry]
    availability_zone: str

    @property
    def defaults(self) -> hypothetical_pools.Defaults:
        """What counts where a pool, one of those named, says nothing."""
        names = {name for name, entry in self.entries.items() if entry.stats.ratio is None}
        return hypothetical_pools.Defaults(self.default_ratio, names, self.availability_zone)

    def auto_ratios(self, pools: PoolTable) -> dict[str, over_subscription.WorkedOut]:
        """Return how ``auto`` ratios were worked out, of the pools in a table that still have them."""
        found = {}
        for name, entry in self.entries.items():
            index = pools.index(name)
            if index is not None and pools.ratio[index] == entry.ratio:
                worked_out = over_subscription.worked_out(entry.stats, entry.ratio, self.default_ratio)
                if worked_out is not None:
                    found[name] = worked_out
        return found


@dataclass(frozen=True, slots=True)
class _Act:
    """A request, and what it takes of quotas: that is asked first, as when it is decided."""

    scene: Scene
    demanded: Sequence[Demand]

    @property
    def what(self) -> str:
        members = self.scene.members
        return f"{len(members)} volumes" if self.scene.together else members[0].request.describe()


class Oracle:
    """Answers questions. Safe to use from many threads. ``moment`` returns what holds now."""

    def __init__(
        self,
        database: Database,
        moment: Callable[[], Moment],
        instance_hosts: InstanceHosts,
        quotas: quota_options.Settings | None = None,
    ) -> None:
        self._database = database
        self._quotas = quotas or quota_options.Settings()
        self._moment = moment
        self._instance_hosts = instance_hosts

    def explain(self, message: CreateVolume) -> Explanation:
        """Return how a create would be decided now.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        [outlook] = self.what_if(WhatIf(requests=[Asked(create=message)]))
        return outlook.volumes[0]

    def what_if(self, question: WhatIf) -> list[Outlook]:
        """Return how each request would be decided, after those before it. Raises as :meth:`explain`."""
        if not 1 <= len(question.requests) <= MAX_REQUESTS:
            raise errors.InvalidInput(f"requests are {len(question.requests)}: a question takes 1 to {MAX_REQUESTS}")
        work = self._instance_hosts.located([_work(asked, place) for place, asked in enumerate(question.requests)])
        moment = self._moment()
        # Others may ask at the same moment, and playing changes the table.
        pools = moment.pools.snapshot()
        with self._database.reading() as session:
            lookup = lookups.look_up(session, taken_apart(work))
            scenes = [_scene(item, lookup) for item in work]
            # Without a project it is asked what the pools would say.
            demanded = [[each for each in quota_deltas.of(item, lookup) if each.project_id] for item in work]
            held = reservations.look(session, self._quotas, [each for some in demanded for each in some])
            if moment.rules.count_volumes:
                _show_volumes(pools, moment.entries, volumes.per_pool(session))
        acts = [_Act(scene, some) for scene, some in zip(scenes, demanded, strict=True)]
        if not question.changes:
            of_all = moment.auto_ratios(pools) if question.detail else {}
            played = _play(Rehearsal(pools, moment.rules, question.apart), acts, held, question.detail)
            return [Outlook(volumes=_with_ratios(each, of_all)) for each in played]
        changed = pools.snapshot()
        hypothetical_pools.apply(changed, question.changes, moment.defaults)
        rules = moment.rules.judged_by(question.changes.calculation or moment.rules.calculation)
        of_all = moment.auto_ratios(changed) if question.detail else {}
        then = _play(Rehearsal(changed, rules, question.apart), acts, held, question.detail)
        played = [_with_ratios(each, of_all) for each in then]
        unchanged = _play(Rehearsal(pools, moment.rules, question.apart), acts, held, False)
        return [Outlook(volumes=then, unchanged=now) for then, now in zip(played, unchanged, strict=True)]


def _with_ratios(
    explanations: list[Explanation], of_all: Mapping[str, over_subscription.WorkedOut]
) -> list[Explanation]:
    """Add to the verdicts how the ratio that binds a thin volume was worked out."""
    if not of_all:
        return explanations
    return [
        replace(
            each,
            verdicts=tuple(
                replace(verdict, auto_ratio=of_all.get(verdict.pool)) if verdict.thin else verdict
                for verdict in each.verdicts
            ),
        )
        for each in explanations
    ]


def _show_volumes(pools: PoolTable, entries: Mapping[str, PoolEntry], numbers: Mapping[int, int]) -> None:
    """Bring in how many volumes the pools have; ``numbers`` are by the ledger's ids."""
    pools.set_volumes({name: numbers.get(entry.id, 0) for name, entry in entries.items()})


def _work(asked: Asked, place: int) -> Work:
    all_kinds = (asked.create, asked.group, asked.extend, asked.migrate, asked.retype)
    given = [each for each in all_kinds if each is not None]
    if len(given) != 1:
        raise errors.InvalidInput(f"requests[{place}] takes one of create, group, extend, migrate and retype")
    [one] = given
    return Move(one) if isinstance(one, MigrateVolume) else one


def _scene(item: Work, lookup: Lookup) -> Scene:
    if isinstance(item, CreateGroup):
        return Scene(group_requests.members(item, group_requests.resolve(item, lookup)), together=True)
    resolved = resolve(Move.for_type(item) if isinstance(item, RetypeVolume) else item, lookup)
    scene = Scene([Member(request=resolved.request, copied_gb=resolved.copied_gb, group=resolved.group)])
    volume = lookup.volumes.get(resolved.volume_id)
    if volume is None or volume.pool is None:
        return scene
    scene = replace(scene, source=volume.pool.name)
    if not isinstance(item, RetypeVolume):
        return scene
    request = request_spec.in_place(resolved, volume.pool.name)
    others = {
        kind: request_spec.other_provisioning(request, volume, kind)
        for kind in Provisioning
        if kind.value != volume.provisioning
    }
    return replace(scene, stay=Stay(request, others, item.migration_policy is MigrationPolicy.ON_DEMAND))


def _play(rehearsal: Rehearsal, acts: Sequence[_Act], held: reservations.Held, detail: bool) -> list[list[Explanation]]:
    allowance, ignored = held.allowance(), IgnoredHints(rehearsal.rules.filters.filters)
    played = []
    for act in acts:
        excess = allowance.excess(act.demanded)
        if excess is None:
            found = rehearsal.play(act.scene, detail=detail)
            if not rehearsal.apart and all(each.refusal is None for each in found):
                allowance.take(act.demanded)
        else:
            refusal = Refusal(act.what, 0, excess=excess)
            found = [Explanation(act.what, None, refusal.message, (), refusal=refusal)]
        hints = {key: value for one in act.scene.members for key, value in one.request.hints.items()}
        told = tuple(ignored.among(hints))
        played.append([replace(each, ignored_hints=told) for each in found] if told else found)
    return played
