# SPDX-License-Identifier: Apache-2.0
"""Placement: from a request to a claim.

The story of a batch of requests that arrived together::

    answered before?  ->  resolve  ->  filters -> weighers -> a pool, or a refusal   (each in order of arrival)
                                                     |
                      book all of them in one transaction  ->  send the commands  ->  answer

If the ledger finds that a pool changed meanwhile, nothing was booked, its row is read again and the batch decided anew.
"""

import logging
import uuid
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Any
from typing import TypeAlias

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity import units
from tonnage.capacity.decision import Decision
from tonnage.capacity.decision import Placement
from tonnage.capacity.decision import Refusal
from tonnage.capacity.request import Operation
from tonnage.capacity.request import Provisioning
from tonnage.capacity.request import Request
from tonnage.capacity.request import asked_provisioning
from tonnage.capacity.request import judged_thin
from tonnage.filters.chain import FilterChain
from tonnage.ledger import backends
from tonnage.ledger import bookings
from tonnage.ledger import counters
from tonnage.ledger import endings
from tonnage.ledger import models
from tonnage.ledger.bookings import Booking
from tonnage.ledger.bookings import Key
from tonnage.ledger.counters import Counters
from tonnage.ledger.database import Database
from tonnage.rpc import wire
from tonnage.rpc.messages import Answer
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import ExtendVolume
from tonnage.scheduler.dispatcher import Dispatcher
from tonnage.scheduler.host_manager import HostManager
from tonnage.weighers.chain import WeigherChain

LOG = logging.getLogger(__name__)

#: How often a batch is decided anew because pools changed under it, before its requests are taken one by one.
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Retry:
    """A volume whose last pool could not make it and that needs another."""

    volume_id: str


Work: TypeAlias = CreateVolume | ExtendVolume | Retry


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A piece of work as a request, with what its booking needs."""

    request: Request
    volume_id: str
    target_size_gb: int
    new_volume: bookings.NewVolume | None = None
    keyed: bool = True


@dataclass(slots=True)
class _Batch:
    """What one transaction is to change, and what is answered once it has."""

    answers: dict[int, Answer | Exception] = field(default_factory=dict)
    bookings: list[Booking] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    commands: list[backends.PendingClaim] = field(default_factory=list)
    decisions: list[tuple[_Resolved, Decision]] = field(default_factory=list)
    counters: Mapping[int, Counters] = field(default_factory=dict)


class Placer:
    """Decides requests and books the decisions. Belongs to the decision thread."""

    def __init__(
        self,
        database: Database,
        hosts: HostManager,
        filters: FilterChain,
        weighers: WeigherChain,
        dispatcher: Dispatcher,
    ) -> None:
        self._database = database
        self._hosts = hosts
        self._filters = filters
        self._weighers = weighers
        self._dispatcher = dispatcher
        self._tentative: set[str] = set()

    def place(self, work: Sequence[Work]) -> list[Answer | Exception]:
        """Decide a batch of requests, book what was decided, and send the commands."""
        failure: Exception = errors.Unavailable("other requests were faster on every pool that fits; try again")
        for _ in range(_ROUNDS):
            try:
                batch = self._database.run(self._decide_and_book, work)
            except bookings.PoolsTaken as taken:
                self._reload(taken.pool_ids)
            except (db_exc.DBDuplicateEntry, errors.Conflict) as error:
                # Another scheduler has the same request or the same volume in hand: what it did shows when read again.
                failure = errors.Conflict("another request with this id, or for this volume, is under way")
                LOG.debug("Deciding %d request(s) again: %s", len(work), error)
            except db_exc.DBError as error:
                LOG.exception("%d request(s) could not be booked", len(work))
                failure = error
                break
            else:
                self._tentative.clear()
                self._settle(batch)
                return [batch.answers[number] for number in range(len(work))]
            finally:
                self._forget_tentative()
        if len(work) > 1:
            # Whatever is wrong with one of them shall not keep the others.
            return [answer for item in work for answer in self.place([item])]
        return [failure]

    def resolve(self, session: orm.Session, message: CreateVolume) -> Request:
        """Return the request that a message stands for.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown volume type and for values out of range.
        """
        return self._resolve_create(message, _types(session, [message])).request

    def _decide_and_book(self, session: orm.Session, work: Sequence[Work]) -> _Batch:
        # Left from a try whose connection was lost: it may have been committed all the same.
        unsure = [self._hosts.entries[name].id for name in self._tentative]
        self._forget_tentative()
        batch = _Batch()
        known = bookings.answers(session, [item.request_id for item in work if not isinstance(item, Retry)])
        types = _types(session, work)
        first: dict[str, int] = {}
        for number, item in enumerate(work):
            if not isinstance(item, Retry):
                if item.request_id in known:
                    batch.answers[number] = wire.unpack(known[item.request_id], Answer)
                    continue
                if item.request_id in first:
                    batch.answers[number] = batch.answers[first[item.request_id]]
                    continue
                first[item.request_id] = number
            try:
                batch.answers[number] = self._one(session, item, types, batch)
            except errors.TonnageError as error:
                batch.answers[number] = error
        booked = bookings.book(session, batch.bookings, batch.keys, self._hosts.calculation)
        batch.counters = {**counters.read(session, unsure), **booked} if unsure else booked
        return batch

    def _one(self, session: orm.Session, item: Work, types: dict[str, models.VolumeType], batch: _Batch) -> Answer:
        if isinstance(item, CreateVolume):
            resolved = self._resolve_create(item, types)
        elif isinstance(item, ExtendVolume):
            resolved = _resolve_extend(session, item)
        else:
            resolved = _resolve_retry(session, item)
        decision = self.decide(resolved.request)
        batch.decisions.append((resolved, decision))
        if isinstance(decision, Placement):
            answer = Answer(volume_id=resolved.volume_id, pool=decision.pool, provisioning=decision.provisioning)
            self._plan(resolved, decision, batch)
        else:
            answer = Answer(volume_id=resolved.volume_id, refusal=decision)
            if isinstance(item, Retry):
                endings.fail_volume(session, item.volume_id, decision.message)
        if resolved.keyed:
            packed = wire.pack(answer)
            batch.keys.append(Key(resolved.request.request_id, resolved.volume_id, packed))
        return answer

    def decide(self, request: Request) -> Decision:
        """Run filters and weighers: the pool for a request, or the refusal."""
        pools = self._hosts.table
        result = self._filters.run(pools, request)
        index = self._weighers.rank(pools, request, result.remaining)
        if index is None:
            return _worded(self._filters.refusal(pools, request, result))
        pool = pools.row(index)
        thin = judged_thin(pool.thin, pool.thick, request.provisioning)
        return Placement(pool.name, Provisioning.THIN if thin else Provisioning.THICK)

    def _plan(self, resolved: _Resolved, decision: Placement, batch: _Batch) -> None:
        """Add a placement to what is to be booked, and count it in the table for those that are decided after it."""
        table = self._hosts.table
        index = table.index(decision.pool)
        if index is None:
            raise errors.NotFound(f"pool {decision.pool} has gone")
        size = resolved.request.size_gb
        physical = size if decision.provisioning is Provisioning.THICK else 0
        table.claim(index, size, physical)
        self._tentative.add(decision.pool)
        entry = self._hosts.entries[decision.pool]
        backend = self._hosts.backend(decision.pool.rpartition("#")[0])
        if backend is None:
            raise errors.NotFound(f"the backend of pool {decision.pool} has gone")
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
            )
        )

    def _settle(self, batch: _Batch) -> None:
        """After the commit: take over the counters, send the commands, log one line a decision."""
        self._hosts.set_counters(batch.counters)
        for claim in batch.commands:
            self._dispatcher.send(claim)
        for resolved, decision in batch.decisions:
            request = resolved.request
            if isinstance(decision, Refusal):
                LOG.info("[%s] volume %s refused: %s", request.request_id, resolved.volume_id, decision.message)
            else:
                LOG.info(
                    "[%s] volume %s: %s of %s placed in %s",
                    request.request_id,
                    resolved.volume_id,
                    request.operation,
                    request.describe(),
                    decision.pool,
                )

    def _forget_tentative(self) -> None:
        self._hosts.reset(name for name in self._tentative if name in self._hosts.entries)
        self._tentative.clear()

    def _reload(self, pool_ids: frozenset[int]) -> None:
        with self._database.reading() as session:
            rows = backends.load_pools(session, ids=sorted(pool_ids))
        self._hosts.forget_pools(self._hosts.names(pool_ids - {row.id for row in rows}))
        for row in rows:
            self._hosts.put_pool(row)

    def _resolve_create(self, message: CreateVolume, types: dict[str, models.VolumeType]) -> _Resolved:
        _check_create(message)
        volume_type = None
        if message.volume_type is not None:
            volume_type = types.get(message.volume_type)
            if volume_type is None:
                raise errors.InvalidInput(f"volume type {message.volume_type!r} could not be found")
        specs = {} if volume_type is None else volume_type.extra_specs
        request = Request(
            request_id=message.request_id,
            size_gb=message.size_gb,
            provisioning=asked_provisioning(specs),
            volume_type=None if volume_type is None else volume_type.name,
            extra_specs=specs,
            project_id=message.project_id,
            availability_zone=message.availability_zone,
            hints=message.hints,
        )
        row = bookings.NewVolume(
            id=message.volume_id,
            size_gb=message.size_gb,
            project_id=message.project_id,
            user_id=message.user_id,
            name=message.name,
            description=message.description,
            volume_type_id=None if volume_type is None else volume_type.id,
            requested_zone=message.availability_zone,
            metadata=message.metadata,
            hints=message.hints,
        )
        return _Resolved(request, message.volume_id, message.size_gb, row)


def _check_create(message: CreateVolume) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for what the ledger could not hold."""
    if not 1 <= message.size_gb <= units.MAX_SIZE_GB:
        raise errors.InvalidInput(f"size is {message.size_gb}: it takes 1 to {units.MAX_SIZE_GB} GiB")
    _check_uuid(message.volume_id)
    _check_length("request_id", message.request_id, 64)
    for field_name in ("project_id", "user_id", "name", "description", "availability_zone"):
        _check_length(field_name, getattr(message, field_name) or "", 255)


def _check_uuid(volume_id: str) -> None:
    try:
        canonical = str(uuid.UUID(volume_id))
    except ValueError:
        canonical = ""
    if canonical != volume_id:
        raise errors.InvalidInput(f"volume_id is {volume_id!r}: it takes a UUID in its usual form")


def _check_length(name: str, value: str, most: int) -> None:
    if len(value) > most or "\0" in value:
        raise errors.InvalidInput(f"{name} is {value[:40]!r}...: it takes at most {most} characters, none of them NUL")


def _types(session: orm.Session, work: Sequence[Work]) -> dict[str, models.VolumeType]:
    """Return the volume types that the messages name, by id and by name; an id wins."""
    wanted = {item.volume_type for item in work if isinstance(item, CreateVolume) and item.volume_type}
    if not wanted:
        return {}
    kind = models.VolumeType
    found = session.scalars(sa.select(kind).where(sa.or_(kind.id.in_(wanted), kind.name.in_(wanted)))).all()
    return {kind.name: kind for kind in found} | {kind.id: kind for kind in found}


def _resolve_extend(session: orm.Session, message: ExtendVolume) -> _Resolved:
    volume = session.get(models.Volume, message.volume_id)
    if volume is None:
        raise errors.NotFound(f"volume {message.volume_id} could not be found")
    if volume.status != "available" or volume.pool is None:
        raise errors.Conflict(f"volume {volume.id} is {volume.status}: only an available volume can be extended")
    if not volume.size_gb < message.new_size_gb <= units.MAX_SIZE_GB:
        raise errors.InvalidInput(
            f"new size is {message.new_size_gb} GiB: it takes more than the current {volume.size_gb} GiB "
            f"and at most {units.MAX_SIZE_GB}"
        )
    request = _request_of(volume, message.request_id)
    request = replace(
        request,
        size_gb=message.new_size_gb - volume.size_gb,
        operation=Operation.EXTEND,
        provisioning=None if volume.provisioning is None else Provisioning(volume.provisioning),
        availability_zone=None,
        pool=volume.pool.name,
    )
    return _Resolved(request, volume.id, message.new_size_gb)


def _resolve_retry(session: orm.Session, item: Retry) -> _Resolved:
    volume = session.get(models.Volume, item.volume_id)
    if volume is None or volume.status != "creating" or volume.pool_id is not None:
        raise errors.NotFound(f"volume {item.volume_id} no longer waits for a pool")
    request = replace(_request_of(volume, volume.request_id), attempted=frozenset(volume.attempted_pools))
    return _Resolved(request, volume.id, volume.size_gb, keyed=False)


def _request_of(volume: models.Volume, request_id: str) -> Request:
    specs: dict[str, str] = {} if volume.volume_type is None else volume.volume_type.extra_specs
    return Request(
        request_id=request_id,
        size_gb=volume.size_gb,
        provisioning=asked_provisioning(specs),
        volume_type=None if volume.volume_type is None else volume.volume_type.name,
        extra_specs=specs,
        project_id=volume.project_id,
        availability_zone=volume.requested_zone,
        hints=volume.hints,
    )


def _worded(refusal: Refusal) -> Refusal:
    """Return the refusal with unknown and infinite figures as words, as messages and the ledger carry them."""
    if refusal.nearest is None:
        return refusal
    numbers: dict[str, Any] = {
        key: units.to_wire(value) if isinstance(value, float) else value
        for key, value in refusal.nearest.rejection.numbers.items()
    }
    rejection = replace(refusal.nearest.rejection, numbers=numbers)
    return replace(refusal, nearest=replace(refusal.nearest, rejection=rejection))
