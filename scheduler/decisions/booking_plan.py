# SPDX-License-Identifier: Apache-2.0
"""The booking plan of a batch: the changes of one transaction, and the answers and commands that follow its commit."""

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.request import Request
from tonnage.ledger.catalog import refusals, volumes
from tonnage.ledger.catalog.refusals import RefusedRequest
from tonnage.ledger.claims.bookings import Booking
from tonnage.ledger.claims.request_keys import STORED_ERRORS, Key
from tonnage.quotas.quota_check import QuotaBudget
from tonnage.rpc import serialization
from tonnage.rpc.messages import Answer, CreateGroup, CreateVolume, GroupAnswer
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.decisions.decider import RequestDecision
from tonnage.scheduler.requests.placement_requests import Retry, Work, is_drain, key_of
from tonnage.scheduler.requests.pool_selection import physical_gb
from tonnage.scheduler.requests.request_spec import RequestSpec, RetryLater


@dataclass(slots=True)
class BookingPlan:
    """The bookings, request keys and answers of a batch.

    ``budget`` has the quotas that the batch uses, None if nothing is limited. ``answers`` maps the index of each
    request to its answer. ``refused`` are the refusals to record. ``retyped`` are volumes that get another type in
    their pools. ``failed`` maps volumes without any remaining pool to the reason. ``stale_refusals`` are refused
    requests that may find a pool by newer figures. ``hint_targets`` maps the volumes that hints of retried volumes name
    to the pools that the decision saw them in. ``undrained`` maps volumes of draining backends that find no other pool
    to the reason; ``newly_undrained`` are those of them with another reason than at the last attempt.
    """

    hosts: HostManager
    budget: QuotaBudget | None = None
    answers: dict[int, Answer | GroupAnswer | Exception] = field(default_factory=dict, init=False)
    bookings: list[Booking] = field(default_factory=list, init=False)
    keys: list[Key] = field(default_factory=list, init=False)
    decisions: list[tuple[RequestSpec, Decision]] = field(default_factory=list, init=False)
    refused: list[RefusedRequest] = field(default_factory=list, init=False)
    retyped: list[volumes.Retyped] = field(default_factory=list, init=False)
    stale_refusals: list[Request] = field(default_factory=list, init=False)
    failed: dict[str, str] = field(default_factory=dict, init=False)
    undrained: dict[str, str] = field(default_factory=dict, init=False)
    newly_undrained: set[str] = field(default_factory=set, init=False)
    hint_targets: dict[str, int | None] = field(default_factory=dict, init=False)

    def add(self, item: Work, decided: RequestDecision) -> Answer | GroupAnswer:
        """Plan the bookings of a decision and return the answer to the request."""
        for spec in decided.specs:
            self.hint_targets.update(spec.hint_targets)
        if isinstance(decided.result, Refusal):
            self._refuse(item, decided, decided.result)
        elif isinstance(decided.staying, Placement):
            [spec], [placement] = decided.specs, decided.result
            self.retyped.append(
                volumes.Retyped(
                    volume_id=spec.volume_id, pool_id=spec.source_pool_id, volume_type_id=spec.volume_type_id or ""
                )
            )
            self.decisions.append((spec, placement))
        else:
            placed = list(zip(decided.specs, decided.result, strict=True))
            # All of a group or none.
            self.bookings += [self._booking(spec, placement) for spec, placement in placed]
            self.decisions += placed
        answer = _answer(item, decided)
        key = key_of(item)
        if key.request_id:
            self.keys.append(replace(key, answer=serialization.pack(answer), refused=bool(answer.refusal)))
        return answer

    def fail(self, item: Work, error: errors.TonnageError) -> errors.TonnageError:
        """Plan the consequences of an error that a request is answered with, and return it."""
        key = key_of(item)
        if key.request_id and isinstance(error, STORED_ERRORS):
            self.keys.append(Key.of_error(key.request_id, key.volume_id, key.verb, error))
        if isinstance(item, Retry) and not isinstance(error, RetryLater):
            # The source of a clone is gone, for example: the volume would be tried again and again.
            self.failed[item.volume_id] = error.message
        if is_drain(item) and isinstance(error, STORED_ERRORS):
            self.undrained[key.volume_id] = error.message
        return error

    def _refuse(self, item: Work, decided: RequestDecision, refusal: Refusal) -> None:
        if refusal.excess is None:
            self.stale_refusals += decided.stale_refusals
        if isinstance(item, Retry):
            self.failed[item.volume_id] = refusal.message
        self.decisions += [(spec, refusal) for spec in decided.specs]
        request, key = decided.specs[0].request, key_of(item)
        if is_drain(item):  # it tries again all the time
            self.undrained[key.volume_id] = refusal.message
        else:
            self.refused.append(
                RefusedRequest(
                    request_id=request.request_id,
                    volume_id=key.volume_id,
                    project_id=request.project_id,
                    verb=key.verb,
                    refusal=refusal,
                    body=_body(item, request),
                )
            )

    def _booking(self, spec: RequestSpec, placement: Placement) -> Booking:
        """Return the claim of a placement."""
        hosts = self.hosts
        entry = hosts.entries[placement.pool]
        backend = hosts.backend(backend_of(placement.pool))
        if backend is None:
            raise errors.NotFound(f"the backend of pool {placement.pool} has gone")
        index = hosts.table.index(placement.pool)
        if index is None:
            raise errors.NotFound(f"pool {placement.pool} has gone")
        sharing = hosts.table.sharing(index)
        return Booking(
            id=str(uuid.uuid4()),
            request_id=spec.request.request_id,
            volume_id=spec.volume_id,
            verb=spec.request.operation.value,
            pool_id=entry.id,
            pool_name=placement.pool,
            backend_id=backend.id,
            generation=entry.generation,
            size_gb=spec.request.size_gb,
            physical_gb=physical_gb(placement, spec.request, spec.copied_gb),
            target_size_gb=spec.target_size_gb,
            provisioning=placement.provisioning,
            availability_zone=backend.availability_zone,
            volume=spec.new_volume,
            requested_zone=spec.request.availability_zone,
            storage_id=entry.stats.storage_id,
            sharing=[hosts.entries[name].id for name in sharing] if len(sharing) > 1 else (),
            source=spec.source,
            source_pool_id=spec.source_pool_id,
            clone_of=spec.clone_of,
            volume_type_id=spec.volume_type_id,
            group_id=None if spec.group is None else spec.group.id,
        )


def _answer(item: Work, decided: RequestDecision) -> Answer | GroupAnswer:
    """Return the answer to a request that has been decided."""
    if isinstance(decided.result, Refusal):
        if isinstance(item, CreateGroup):
            return GroupAnswer(refusal=decided.result)
        return Answer(volume_id=decided.specs[0].volume_id, refusal=decided.result)
    answers = [
        Answer(volume_id=spec.volume_id, pool=placement.pool, provisioning=placement.provisioning)
        for spec, placement in zip(decided.specs, decided.result, strict=True)
    ]
    return GroupAnswer(volumes=answers) if isinstance(item, CreateGroup) else answers[0]


def _body(item: Work, request: Request) -> dict[str, Any] | None:
    """Return the body of a request for one new volume. The group of a volume has no place in it: then None."""
    if not isinstance(item, CreateVolume) or item.group_id is not None:
        return None
    return refusals.create_body(
        size_gb=item.size_gb,
        volume_type=request.volume_type,
        zone=item.availability_zone,
        hints=item.hints,
        source_volume_id=item.source_volume_id,
    )
