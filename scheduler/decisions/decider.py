# SPDX-License-Identifier: Apache-2.0
"""Deciding a batch of requests, in memory: each in order of arrival, seeing what those before it are given.

What is decided is counted in the table of pools at once, tentatively: until it is booked, or forgotten.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tonnage.capacity import errors
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.names import backend_of
from tonnage.capacity.request import Operation, Request
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.filters.free_space import FreeSpaceFilter
from tonnage.ledger.catalog import volumes
from tonnage.ledger.claims.bookings import Booking
from tonnage.ledger.claims.request_keys import FINAL, Key
from tonnage.ledger.inventory import backends
from tonnage.quotas.quota_budget import Allowance, Demand
from tonnage.rpc.messages import Answer, CreateGroup, GroupAnswer, MigrationPolicy, RetypeVolume
from tonnage.scheduler.decisions import group_packing, group_requests, pool_selection, quota_deltas, request_spec
from tonnage.scheduler.decisions.group_affinity import Together
from tonnage.scheduler.decisions.lookups import Lookup
from tonnage.scheduler.decisions.placement_requests import (
    Move,
    Retry,
    Single,
    Work,
    answer_before,
    answered,
    key_of,
    purpose,
)
from tonnage.scheduler.decisions.request_spec import Resolved, resolve
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.ignored_hints import IgnoredHints
from tonnage.scheduler.simulation.decision_log import DecisionLog
from tonnage.weighers.chain import WeigherChain

#: Filters that look at room.
_ROOM = (CapacityFilter, FreeSpaceFilter)


@dataclass(slots=True)
class Batch:
    """What one transaction is to change, and what is answered once it has. ``allowance`` is what it may take of quotas,
    ``together`` knows where groups are.

    ``retyped`` are volumes that get another type where they are, ``failed`` those that no pool is left for, and why.
    ``doubtful`` are requests that may find a pool by other figures than those remembered. ``bound`` are the pools of
    volumes that say where others go which are placed again.
    """

    allowance: Allowance
    together: Together
    answers: dict[int, Answer | GroupAnswer | Exception] = field(default_factory=dict)
    bookings: list[Booking] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    commands: list[backends.PendingClaim] = field(default_factory=list)
    decisions: list[tuple[Resolved, Decision]] = field(default_factory=list)
    retyped: list[volumes.Retyped] = field(default_factory=list)
    doubtful: list[Request] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    bound: dict[str, int | None] = field(default_factory=dict)


class Decider:
    """Belongs to the decision thread.

    ``counts_volumes`` tells whether a weigher looks at the numbers of volumes.
    """

    def __init__(
        self, hosts: HostManager, filters: FilterChain, weighers: WeigherChain, log: DecisionLog | None = None
    ) -> None:
        self._hosts = hosts
        self.log = log
        self._tentative: set[str] = set()
        self.decide_by(filters, weighers)

    def decide_by(self, filters: FilterChain, weighers: WeigherChain) -> None:
        """Decide by these from now on."""
        self.filters = filters
        self._fitting = without_room(filters)
        self._weighers = weighers
        self._ignored_hints = IgnoredHints(filters.filters)
        self.counts_volumes = any(each.needs_volumes for each in weighers.weighers)
        if self.log is not None:
            self.log.go_by(filters, weighers)

    def decide(self, work: Sequence[Work], known: Mapping[str, Key], lookup: Lookup, allowance: Allowance) -> Batch:
        """Decide requests; ``known`` are the keys of those that were answered before."""
        batch = Batch(allowance, Together(self._hosts.table, self._fitting))
        if self.log is not None:
            self.log.start_batch()
        first: dict[str, int] = {}
        for number, item in enumerate(work):
            key = key_of(item)
            try:
                if key in known:
                    batch.answers[number] = answer_before(item, known[key])
                    continue
                if key and key in first:
                    Key(key, *purpose(work[first[key]])).require(*purpose(item))
                    batch.answers[number] = batch.answers[first[key]]
                    continue
            except errors.TonnageError as error:
                batch.answers[number] = error
                continue
            first[key] = number
            try:
                if isinstance(item, CreateGroup):
                    batch.answers[number] = self._group(item, lookup, batch)
                elif isinstance(item, RetypeVolume):
                    batch.answers[number] = self._retype(item, lookup, batch)
                else:
                    batch.answers[number] = self._one(item, lookup, batch)
            except errors.TonnageError as error:
                batch.answers[number] = error
                if key and isinstance(error, FINAL):
                    batch.keys.append(Key.refused(key, *purpose(item), error))
                if isinstance(item, Retry) and not isinstance(error, request_spec.NotNow):
                    # What it is to be cloned from is gone, say: it would be tried again and again.
                    batch.failed[item.volume_id] = error.message
        return batch

    def show_volumes(self, numbers: Mapping[int, int] | None) -> None:
        """Bring the table's numbers of volumes to these; pools that are not among them have none."""
        if numbers is None:
            return
        table = self._hosts.table
        counted = {name: number for pool_id, number in numbers.items() for name in self._hosts.names([pool_id])}
        shown = {table.names[row]: int(table.volumes[row]) for row in np.flatnonzero(table.volumes).tolist()}
        differ = {name for name, _ in counted.items() ^ shown.items()}
        table.set_volumes({name: counted.get(name, 0) for name in differ})

    def tentative(self) -> list[int]:
        """Return the ids of the pools in which something is counted that is not booked, as far as they are known."""
        return [self._hosts.entries[name].id for name in self._tentative if name in self._hosts.entries]

    def forget(self) -> None:
        """Count no more what was decided, in pools that are still known."""
        self._hosts.reset(name for name in self._tentative if name in self._hosts.entries)
        self._tentative.clear()

    def _fits(self, request: Request, filters: FilterChain | None = None, *, final: bool = True) -> Decision:
        """Run filters and weighers: the pool for a request, or the refusal, which is logged if it is ``final``."""
        in_place = filters is not None
        decision = pool_selection.choose(self._hosts.table, request, filters or self.filters, self._weighers)
        if self.log is not None and (final or isinstance(decision, Placement)):
            self.log.decided(request, decision, in_place=in_place)
        return decision

    def _one(self, item: Single, lookup: Lookup, batch: Batch) -> Answer:
        resolved = _confined(self._kept_apart(resolve(item, lookup)), batch)
        self._ignored_hints.tell(resolved.request.hints)
        demanded = quota_deltas.of(item, lookup)
        decision = _over_quota(demanded, resolved.request.describe(), batch) or self._fits(
            resolved.request, final=resolved.unsettled is None
        )
        if isinstance(decision, Refusal) and resolved.unsettled is not None:
            raise request_spec.NotNow(f"volume {resolved.volume_id} waits until volume {resolved.unsettled} is made")
        batch.decisions.append((resolved, decision))
        batch.bound.update(resolved.bound)
        if isinstance(decision, Placement):
            answer = Answer(volume_id=resolved.volume_id, pool=decision.pool, provisioning=decision.provisioning)
            self._plan(resolved, decision, batch)
            batch.allowance.take(demanded)
        else:
            answer = Answer(volume_id=resolved.volume_id, refusal=decision)
            if decision.excess is None:
                batch.doubtful += _doubtful(resolved)
            if isinstance(item, Retry):
                batch.failed[item.volume_id] = decision.message
        if resolved.keyed:
            batch.keys.append(answered(item, answer))
        return answer

    def _retype(self, item: RetypeVolume, lookup: Lookup, batch: Batch) -> Answer:
        """Leave a volume in its pool with another type or, if that cannot be and the policy allows, move it."""
        move = Move.for_type(item)
        resolved = request_spec.move(move, lookup)
        volume = lookup.volume(item.volume_id)
        pool = "" if volume.pool is None else volume.pool.name
        request = request_spec.in_place(resolved, pool)
        demanded = quota_deltas.of(item, lookup)
        over = _over_quota(demanded, resolved.request.describe(), batch)
        decision = over or self._fits(request, self._fitting)
        if isinstance(decision, Placement) and decision.provisioning.value != volume.provisioning:
            decision = request_spec.other_provisioning(request, volume, decision.provisioning)
        if isinstance(decision, Placement):
            answer = Answer(volume_id=volume.id, pool=pool, provisioning=decision.provisioning)
            kind = lookup.type(item.volume_type)
            batch.retyped.append(volumes.Retyped(volume_id=volume.id, pool_id=volume.pool_id, volume_type_id=kind.id))
            batch.decisions.append((resolved, decision))
        elif over is None and item.migration_policy is MigrationPolicy.ON_DEMAND:
            answer = self._one(move, lookup, batch)
            if answer.refusal is not None:
                batch.doubtful.append(request)
        else:
            answer = Answer(volume_id=volume.id, refusal=decision)
            batch.doubtful += [request] if over is None else []
            batch.decisions.append((resolved, decision))
        if answer.refusal is None:
            batch.allowance.take(demanded)
        batch.keys.append(answered(item, answer))
        return answer

    def _kept_apart(self, resolved: Resolved) -> Resolved:
        """Keep a volume that moves out of pools that are the same place under another name: it is there already."""
        names = self._hosts.names([] if resolved.source_pool_id is None else [resolved.source_pool_id])
        request = pool_selection.kept_apart(self._hosts.table, resolved.request, names[0] if names else None)
        return replace(resolved, request=request)

    def _group(self, item: CreateGroup, lookup: Lookup, batch: Batch) -> GroupAnswer:
        resolved = [_confined(one, batch) for one in group_requests.resolve(item, lookup)]
        for one in resolved:
            self._ignored_hints.tell(one.request.hints)
        demanded = quota_deltas.of(item, lookup)
        found = _over_quota(demanded, f"{len(resolved)} volumes", batch) or self._fit_together(item, resolved)
        if isinstance(found, Refusal):
            answer = GroupAnswer(refusal=found)
            if found.excess is None:
                for one in resolved:
                    # Beside others of the group, wherever these are.
                    anywhere = replace(one.request, same_backends=None)
                    batch.doubtful += _doubtful(replace(one, request=anywhere))
            batch.decisions += [(one, found) for one in resolved]
        else:
            for one, placement in zip(resolved, found, strict=True):
                self._plan(one, placement, batch)
                batch.decisions.append((one, placement))
            answer = GroupAnswer(
                volumes=[
                    Answer(volume_id=one.volume_id, pool=placement.pool, provisioning=placement.provisioning)
                    for one, placement in zip(resolved, found, strict=True)
                ]
            )
            batch.allowance.take(demanded)
        batch.keys.append(answered(item, answer))
        return answer

    def _fit_together(self, item: CreateGroup, resolved: Sequence[Resolved]) -> list[Placement] | Refusal:
        members = group_requests.members(item, resolved)
        found = group_packing.JointFit(
            self._hosts.table, self.filters, self._weighers, self._hosts.calculation, members
        ).find()
        if self.log is not None:
            self.log.fitted(members, found)
        return pool_selection.worded(found) if isinstance(found, Refusal) else found

    def _plan(self, resolved: Resolved, decision: Placement, batch: Batch) -> None:
        """Add a placement to what is to be booked, and count it in the table for those that are decided after it."""
        table = self._hosts.table
        index = table.index(decision.pool)
        if index is None:
            raise errors.NotFound(f"pool {decision.pool} has gone")
        size = resolved.request.size_gb
        physical = pool_selection.physical_gb(decision, resolved.request, resolved.copied_gb)
        entry = self._hosts.entries[decision.pool]
        backend = self._hosts.backend(backend_of(decision.pool))
        if backend is None:
            raise errors.NotFound(f"the backend of pool {decision.pool} has gone")
        table.claim(index, size, physical)
        batch.together.place(resolved.group, decision.pool)
        if self.counts_volumes and resolved.request.operation is not Operation.EXTEND:
            table.set_volumes({decision.pool: int(table.volumes[index]) + 1})
        sharing = table.sharing(index)
        self._tentative.update(sharing)
        booking = Booking(
            claim_id=str(uuid.uuid4()),
            request_id=resolved.request.request_id,
            volume_id=resolved.volume_id,
            verb=resolved.request.operation.value,
            pool_id=entry.id,
            backend_id=backend.id,
            generation=entry.generation,
            size_gb=size,
            physical_gb=physical,
            target_size_gb=resolved.target_size_gb,
            provisioning=decision.provisioning,
            availability_zone=backend.availability_zone,
            volume=resolved.new_volume,
            storage_id=entry.stats.storage_id,
            sharing=[self._hosts.entries[name].id for name in sharing] if len(sharing) > 1 else (),
            source_pool_id=resolved.source_pool_id,
            clone_of=resolved.source_volume_id,
            volume_type_id=resolved.volume_type_id,
            group_id=None if resolved.group is None else resolved.group.id,
        )
        batch.bookings.append(booking)
        batch.commands.append(
            backends.PendingClaim(
                id=booking.claim_id,
                backend_id=booking.backend_id,
                pool_id=booking.pool_id,
                pool_name=decision.pool,
                volume_id=booking.volume_id,
                verb=booking.verb,
                target_size_gb=booking.target_size_gb,
                provisioning=booking.provisioning.value,
                request_id=booking.request_id,
                source=self._source(resolved),
            )
        )

    def _source(self, resolved: Resolved) -> backends.SourceVolume | None:
        if resolved.source_pool_id is None:
            return None
        names = self._hosts.names([resolved.source_pool_id])
        return backends.SourceVolume(
            volume_id=resolved.source_volume_id or resolved.volume_id,
            pool_name=names[0] if names else "",
            size_gb=resolved.copied_gb,
        )


def _confined(resolved: Resolved, batch: Batch) -> Resolved:
    """Limit a volume of a group to where that may be."""
    if resolved.group is None:
        return resolved
    return replace(resolved, request=batch.together.confined(resolved.request, resolved.group))


def _doubtful(resolved: Resolved) -> list[Request]:
    """Return what other figures may find pools for: a request that was refused, and what says where its group goes."""
    if resolved.group is None or resolved.group.backend is not None:
        return [resolved.request]
    return [replace(resolved.request, backends=None), *resolved.group.asks]


def _over_quota(demanded: Sequence[Demand], what: str, batch: Batch) -> Refusal | None:
    """Return the refusal of what goes beyond a quota."""
    excess = batch.allowance.excess(demanded)
    return None if excess is None else Refusal(what, 0, excess=excess)


def without_room(filters: FilterChain) -> FilterChain:
    """Return the filters that do not look at room: what a volume stays by that takes nothing more."""
    return FilterChain([each for each in filters.filters if not isinstance(each, _ROOM)])
