# SPDX-License-Identifier: Apache-2.0
"""Cinder's filter scheduler, exact by the ledger: each decision is a claim before its command is sent."""

import contextlib
import copy
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from cinder import exception, objects
from cinder.scheduler import filter_scheduler
from oslo_config import cfg
from oslo_db import exception as db_exception

from tonnage.capacity import errors, type_specs
from tonnage.capacity.decision import AttemptsExceeded, Refusal
from tonnage.capacity.request import Provisioning
from tonnage.extensions.cinder.growth import growth_commands, storage_protocol
from tonnage.extensions.cinder.ledger import growths, observed_claims
from tonnage.extensions.cinder.ledger.growths import Growth
from tonnage.extensions.cinder.pools import capacity_rejection
from tonnage.extensions.cinder.pools.native_plugins import NativePlugins
from tonnage.extensions.cinder.scheduler import (
    failed_attempts,
    ledger_options,
    placing,
    recorded_requests,
)
from tonnage.extensions.cinder.scheduler.cinder_host_manager import LedgerHostManager
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger
from tonnage.extensions.cinder.scheduler.recorded_requests import RecordedRequest
from tonnage.extensions.cinder.scheduler.volume_rows import WaitingRow
from tonnage.ledger.catalog import refusals
from tonnage.ledger.claims import bookings, request_keys
from tonnage.ledger.models import claim_verbs
from tonnage.rpc.cinder_explanations import PartialExplanation

LOG = logging.getLogger(__name__)

CONF = cfg.CONF  # noqa: TID251  (Cinder's way)
ledger_options.register(CONF)

#: Cinder's own manager, which knows no ledger, and Tonnage's.
_STOCK_MANAGER = "cinder.scheduler.manager.SchedulerManager"
_MANAGER = "tonnage.extensions.cinder.scheduler.cinder_manager.LedgerSchedulerManager"

#: How often a request is decided again, because other schedulers took the room of all its pools meanwhile.
_ROUNDS = 10

#: Seconds between two decisions of a request that is refused by stale figures.
_PAUSE = 0.5

#: The verbs of claims and refusals for Cinder's operations on existing volumes; other operations take no capacity.
_VERBS = {
    "extend_volume": claim_verbs.EXTEND,
    "migrate_volume": claim_verbs.MIGRATE,
    "retype_volume": claim_verbs.MIGRATE,
    "create_snapshot": observed_claims.SNAPSHOT,
    "create_group": observed_claims.GROUP,  # from a source; volumes of other groups are placed one by one
}

#: The fields of requests with the ids that claims are for; the claims of other requests are for volumes.
_SUBJECTS = {observed_claims.SNAPSHOT: "snapshot_id", observed_claims.GROUP: "group_id"}

#: The operation of a request for a new volume: Cinder's manager does not always name it.
_NEW_VOLUME = (None, "create_volume")


class NoEffect(BaseException):
    """A message was delivered again, or too late. Its volume must stay as it is.

    It is not an ``Exception``: after an ``Exception`` Cinder's manager would revert the operation, which another
    message has begun.
    """


class MovesToGrow(BaseException):
    """A volume that is to be extended moves to another pool for it. Cinder's manager has nothing more to do."""


class _Extension(NamedTuple):
    """A request to extend a volume, as cinder-api has sent it."""

    volume: Any
    new_size: Any
    reservations: Sequence[str]


class LedgerScheduler(filter_scheduler.FilterScheduler):  # type: ignore[misc]
    """Cinder's scheduler with claims. By option it decides like Cinder's own while the ledger is away."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _require_manager()
        self.host_manager = LedgerHostManager()
        self.ledger: CinderLedger
        self._is_native = False
        self._stock_if_away = False
        self._timeout = 0.0
        self._local = threading.local()

    def connect(self, ledger: CinderLedger, native: NativePlugins, *, stock_if_away: bool, timeout: float) -> None:
        """Decide by a ledger from now on. A refusal by stale figures waits for ``timeout`` seconds."""
        self.ledger = ledger
        self.host_manager.connect(ledger, native)
        self._is_native = self.host_manager.is_native
        self._stock_if_away = stock_if_away
        self._timeout = timeout

    def is_ready(self) -> bool:
        return bool(super().is_ready()) and self._has_all_figures()

    def is_first_receive(self) -> bool:
        return bool(super().is_first_receive()) and self._has_all_figures()

    def schedule_create_volume(self, context: Any, request_spec: Any, filter_properties: Any) -> None:
        original_properties = copy.deepcopy(filter_properties)
        self._decide(
            context,
            request_spec.get("volume_id"),
            lambda: self._place(context, request_spec, filter_properties),
            lambda: super(LedgerScheduler, self).schedule_create_volume(context, request_spec, original_properties),
        )

    def _get_weighted_candidates(self, context: Any, request_spec: Any, filter_properties: Any = None) -> Any:
        if self._is_native and isinstance(request_spec, objects.RequestSpec) and "volume" in request_spec:
            # Plug-ins get plain values. Cinder would read more of the volume from its database to convert it.
            request_spec = copy.copy(request_spec)
            del request_spec.volume
        return super()._get_weighted_candidates(context, request_spec, filter_properties)

    def schedule_create_group(self, context: Any, group: Any, *args: Any, **kwargs: Any) -> None:
        def schedule() -> None:
            super(LedgerScheduler, self).schedule_create_group(context, group, *args, **kwargs)

        def schedule_or_refuse() -> None:
            try:
                schedule()
            except exception.NoValidBackend:
                # A group takes no capacity: its volumes are placed one by one.
                subject = getattr(group, "id", "")
                refusal = self.host_manager.decision.refusal(f"group {subject}")
                self._refuse(context, refusal, subject, observed_claims.GROUP)

        self._decide(context, getattr(group, "id", ""), schedule_or_refuse, schedule)

    def backend_passes_filters(self, context: Any, backend: str, request_spec: Any, filter_properties: Any) -> Any:
        """Return a pool of ``backend`` that takes the volume, with a claim for operations that need capacity."""

        def choose(properties: Any) -> Any:
            chosen = super(LedgerScheduler, self).backend_passes_filters(context, backend, request_spec, properties)
            self._claim(context, request_spec, properties, chosen)
            return chosen

        with self.host_manager.confined_to(backend):
            return self._choose(context, request_spec, filter_properties, choose, backend)

    def find_retype_backend(
        self, context: Any, request_spec: Any, filter_properties: Any = None, migration_policy: str = "never"
    ) -> Any:
        """Return the pool of a volume if it takes the new type, else another one, with a claim in it."""
        present = request_spec["volume_properties"].get("cluster_name") or request_spec["volume_properties"]["host"]

        def choose(properties: Any) -> Any:
            chosen = super(LedgerScheduler, self).find_retype_backend(
                context, request_spec, properties, migration_policy
            )
            self._claim(context, request_spec, properties, chosen, takes_capacity=chosen.backend_id != present)
            return chosen

        return self._choose(context, request_spec, filter_properties, choose)

    @contextlib.contextmanager
    def extending(self, volume: Any, new_size: Any, reservations: Sequence[str]) -> Iterator[None]:
        """Let the next decision of this thread, for an extend, move the volume if its type allows that."""
        self._local.extension = _Extension(volume, new_size, reservations or ())
        try:
            yield
        finally:
            self._local.extension = None

    def explain(self, request: RecordedRequest, most: int | None) -> PartialExplanation:
        """Return how a request would be decided now, with at most so many pools. Nothing is placed or claimed.

        Raises :class:`~tonnage.capacity.errors.Unavailable` while the ledger is away.
        """
        self.ledger.pools.refresh()
        text = _request_text(request.spec, request.properties)
        try:
            with self.host_manager.confined_to(request.target):
                chosen = self._chosen(request)
            return self.host_manager.explanation(text, request.target, chosen, most)
        finally:
            self.host_manager.forget_decision()

    def _chosen(self, request: RecordedRequest) -> str | None:
        """Return the name of the pool that Cinder's scheduler would choose for a request, None if there is none."""
        spec, properties = request.spec, request.properties
        operation = spec.get("operation")
        try:
            if operation == "retype_volume":
                policy = spec.get("migration_policy") or "never"
                return str(super().find_retype_backend(request.context, spec, properties, policy).backend_id)
            if operation in _NEW_VOLUME:
                candidates = self._get_weighted_candidates(request.context, spec, properties)
                return str(candidates[0].obj.backend_id) if candidates else None
            return str(super().backend_passes_filters(request.context, request.target, spec, properties).backend_id)
        except exception.NoValidBackend:
            return None

    def _choose(
        self,
        context: Any,
        request_spec: Any,
        filter_properties: Any,
        choose: Callable[[Any], Any],
        target: str | None = None,
    ) -> Any:
        """Return the pool that ``choose`` claims, by its filter properties."""
        operation = request_spec.get("operation") or ""
        subject = request_spec.get("volume_id") or request_spec.get("snapshot_id") or request_spec.get("group_id")

        def by_ledger() -> Any:
            self.ledger.pools.refresh()  # some of these decisions take no claim that the ledger could refuse
            for is_last in self._rounds():
                try:
                    return choose(copy.deepcopy(filter_properties) or {})
                except bookings.PoolsChanged as changed:
                    self.ledger.pools.refresh(changed.pool_ids)  # another scheduler was faster
                except exception.NoValidBackend:
                    if is_last():
                        break
            verb = _VERBS.get(operation, claim_verbs.MANAGE)
            refusal = self.host_manager.decision.refusal(_request_text(request_spec, filter_properties), target)
            extension = getattr(self._local, "extension", None)
            if extension is not None and verb == claim_verbs.EXTEND and _may_move_to_grow(request_spec):
                grown = self._grow_elsewhere(context, request_spec, extension, refusal)
                if not isinstance(grown, Refusal):
                    return grown
                refusal = grown
            key = _key(context, subject, verb) if subject and operation in _VERBS else None
            body = recorded_requests.body(request_spec, filter_properties, target)
            try:
                return self._refuse(context, refusal, subject or "", verb, key=key, body=body)
            except observed_claims.Repeated as error:
                raise NoEffect(f"Request {context.request_id} for {error} was answered before") from error

        def stock() -> Any:
            return choose(filter_properties or {})

        return self._decide(context, subject, by_ledger, stock)

    def _decide(self, context: Any, subject: object, by_ledger: Callable[[], Any], stock: Callable[[], Any]) -> Any:
        """Return the decision by the ledger.

        While the ledger is away Cinder's own scheduler decides, or the request is refused, by option. ``subject`` is
        the id of the volume, snapshot or group.
        """
        if self.host_manager.ledger is None:
            return stock()
        try:
            return by_ledger()
        except errors.Unavailable as error:
            if not self._stock_if_away:
                LOG.warning("Request %s of %s is refused: the ledger is away: %s", context.request_id, subject, error)
                raise exception.NoValidBackend(reason=f"the ledger is away: {error}") from error
            LOG.warning("A request is decided without the ledger, which is away")
            with self.host_manager.without_ledger():
                return stock()
        finally:
            self.host_manager.forget_decision()

    def _rounds(self) -> Iterator[Callable[[], bool]]:
        """Yield for each time that a request may be decided.

        After a refusal the yielded function tells whether it is final; if not, it has waited for figures.
        """
        deadline = time.monotonic() + self._timeout
        rounds_left = _ROUNDS

        def is_last() -> bool:
            nonlocal rounds_left
            self.ledger.pools.refresh()
            _, changed = self.ledger.pools.changes(self.host_manager.decision.version)
            if changed is None or changed:
                return False  # other schedulers, or reports, have changed the figures that were refused
            if not self.host_manager.decision.has_stale_refusals or time.monotonic() >= deadline:
                return True
            time.sleep(_PAUSE)
            rounds_left += 1
            return False

        while rounds_left > 0:
            rounds_left -= 1
            yield is_last

    def _has_all_figures(self) -> bool:
        try:
            return self.host_manager.has_all_figures()
        except (errors.Unavailable, db_exception.DBError):  # the ledger, or Cinder's database, is away
            return False

    def _claim(
        self,
        context: Any,
        request_spec: Any,
        properties: Mapping[str, Any],
        pool: Any,
        *,
        takes_capacity: bool = True,
    ) -> None:
        """Claim the capacity that an operation on an existing volume needs, and record it as sent.

        If it takes none, the claim of 0 GiB shows that the operation was decided.
        """
        row = getattr(pool, "row", None)
        verb = _VERBS.get(request_spec.get("operation") or "")
        if row is None or verb is None:
            return
        size = int(request_spec["volume_properties"]["size"])
        target = size
        if verb == claim_verbs.EXTEND:
            target = int(properties.get("new_size", size))
            size = target - size
        subject = request_spec.get(_SUBJECTS.get(verb, "volume_id"))
        if size <= 0 or not subject:
            return
        if not takes_capacity:
            size = 0
        booking = _booking(context, pool, subject, verb, size, properties, target)
        try:
            placing.claim(self.ledger.database, booking, _key(context, subject, verb))
            if verb != observed_claims.GROUP:
                placing.confirm_sent(self.ledger.database, booking)
        except (placing.Superseded, observed_claims.Repeated) as error:
            raise NoEffect(f"Request {context.request_id} for {subject} has no effect: {error}") from error
        self.ledger.pools.note_claim(row.id, booking.size_gb, booking.physical_gb)

    def _grow_elsewhere(self, context: Any, request_spec: Any, extension: _Extension, refusal: Refusal) -> Any:
        """Let a volume move to a pool that has room for its new size, or return the refusal.

        Raises :class:`MovesToGrow`. Should its own pool have got room meanwhile, it is claimed there and returned.
        """
        own = self.host_manager.outgrown()
        if own is None:
            return refusal
        volume, new_size = extension.volume, int(extension.new_size)
        obstacle = growth_commands.obstacle(volume)
        if obstacle is not None:
            return replace(refusal, request=f"{refusal.request}, which cannot move to grow: {obstacle}")
        spec = {**dict(request_spec), "volume_properties": volume.obj_clone(), "operation": "migrate_volume"}
        spec["volume_properties"].size = new_size
        is_encrypted, protocol = bool(volume.encryption_key_id), own.storage_protocol
        others: list[Any] = []
        for is_last in self._rounds():
            properties: dict[str, Any] = {}
            with self.host_manager.confined_to(None):
                candidates = self._get_weighted_candidates(context, spec, properties)
            others = [candidate for candidate in candidates or () if candidate.obj.backend_id != own.backend_id]
            suitable = [
                candidate
                for candidate in others
                if not storage_protocol.unsuitable(protocol, candidate.obj.storage_protocol, is_encrypted=is_encrypted)
            ]
            if not suitable and is_last():
                break
            for candidate in suitable:
                try:
                    if self._book_growth(context, extension, own, candidate.obj, properties):
                        raise MovesToGrow(volume.id)
                    return own
                except bookings.PoolsChanged as changed:
                    self.ledger.pools.refresh(changed.pool_ids)
        if is_encrypted and others:
            obstacle = storage_protocol.obstacle(protocol)
            return replace(refusal, request=f"{refusal.request}, which cannot move to grow: {obstacle}")
        moving = self.host_manager.decision.refusal(_request_text(spec))
        return replace(moving, outgrown=own.backend_id)

    def _book_growth(
        self, context: Any, extension: _Extension, own: Any, target: Any, properties: Mapping[str, Any]
    ) -> bool:
        """Claim the growth of a volume in its own pool or its new size in another; return whether it moves."""
        volume, new_size = extension.volume, int(extension.new_size)
        moving = _booking(context, target, volume.id, growths.GROW, new_size, properties)
        in_place = _booking(context, own, volume.id, claim_verbs.EXTEND, new_size - volume.size, properties, new_size)
        in_place = replace(in_place, id=moving.id)
        growth = Growth(
            id=moving.id,
            volume_id=volume.id,
            request_id=moving.request_id,
            project_id=volume.project_id or "",
            user_id=context.user_id or "",
            source=own.backend_id,
            target=target.backend_id,
            name_id=volume.name_id,
            size_gb=int(volume.size),
            new_size_gb=new_size,
            reservations=tuple(extension.reservations),
        )
        try:
            moves = self.ledger.book_growth(growth, in_place, moving, _key(context, volume.id, claim_verbs.EXTEND))
            if not moves:
                placing.confirm_sent(self.ledger.database, in_place)
        except (placing.Superseded, observed_claims.Repeated) as error:
            raise NoEffect(f"Request {context.request_id} for {volume.id} has no effect: {error}") from error
        booked = moving if moves else in_place
        self.ledger.pools.note_claim(booked.pool_id, booked.size_gb, booked.physical_gb)
        return moves

    def _place(self, context: Any, request_spec: Any, filter_properties: Any) -> None:
        """Place a volume in the best pool that the ledger admits, or raise ``NoValidBackend`` with the reason."""
        retry = filter_properties.get("retry") or {}
        failed = failed_attempts.exceeded(_request_text(request_spec), retry, self.max_attempts)
        if failed is not None:
            self._log_volume_error(request_spec["volume_id"], dict(retry))
            return self._refuse_create(context, request_spec, failed, str(retry["num_attempts"] + 1))
        target = request_spec.get("resource_backend")
        for is_last in self._rounds():
            properties = copy.deepcopy(filter_properties)
            with self.host_manager.confined_to(target):
                candidates = self._get_weighted_candidates(context, request_spec, properties)
            attempt = str((properties.get("retry") or {}).get("num_attempts", 1))
            if not candidates:
                if is_last():
                    break
                continue
            volume = request_spec.get("volume") or objects.Volume.get_by_id(context, request_spec["volume_id"])
            key = observed_claims.key(volume.id, claim_verbs.CREATE, attempt)
            for candidate in candidates:
                pool = candidate.obj
                booking = _booking(context, pool, volume.id, claim_verbs.CREATE, int(volume.size), properties)
                row = WaitingRow(volume, pool)
                send = self._create_command(context, volume, request_spec, properties, pool)
                try:
                    placing.place(self.ledger.database, booking, key, row, send)
                except bookings.PoolsChanged as changed:
                    self.ledger.pools.refresh(changed.pool_ids)
                    continue
                except (placing.Superseded, observed_claims.Repeated) as error:
                    LOG.warning("A request for volume %s has no effect: %s", volume.id, error)
                else:
                    self.ledger.pools.note_claim(booking.pool_id, booking.size_gb, booking.physical_gb)
                return
        refusal = self.host_manager.decision.refusal(_request_text(request_spec), target)
        body = recorded_requests.body(request_spec, filter_properties, target)
        self._refuse_create(context, request_spec, refusal, attempt, body)

    def _refuse_create(
        self,
        context: Any,
        request_spec: Any,
        refusal: Refusal | AttemptsExceeded,
        attempt: str,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """Refuse to place a volume, unless this attempt was answered before."""
        volume_id = str(request_spec.get("volume_id") or "")
        key = observed_claims.key(volume_id, claim_verbs.CREATE, attempt) if volume_id else None
        try:
            self._refuse(context, refusal, volume_id, claim_verbs.CREATE, key=key, body=body)
        except observed_claims.Repeated:
            LOG.warning("A request for volume %s has no effect: it was answered before", volume_id)

    def _create_command(
        self, context: Any, volume: Any, request_spec: Any, properties: Any, pool: Any
    ) -> Callable[[], None]:
        """Return the sending of the command to create a volume, which Cinder's own scheduler sends."""

        def send() -> None:
            self._post_select_populate_filter_properties(properties, pool)
            properties.pop("context", None)  # it cannot be sent
            LOG.info("Volume %s is placed in %s", volume.id, pool.backend_id)
            self.volume_rpcapi.create_volume(context, volume, request_spec, properties, allow_reschedule=True)

        return send

    def _refuse(
        self,
        context: Any,
        refusal: Refusal | AttemptsExceeded,
        subject: str,
        verb: str,
        *,
        key: request_keys.Key | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> NoReturn:
        """Record a refusal, and raise it with its numbers.

        With a ``body`` the same request can be explained again.
        Raises :class:`~tonnage.extensions.cinder.ledger.observed_claims.Repeated` if the request was answered before.
        """
        refused = refusals.RefusedRequest(
            request_id=(context.request_id or "")[:64],
            volume_id=subject,
            project_id=context.project_id or "",
            verb=verb,
            refusal=refusal,
            body=body,
        )
        try:
            self.ledger.refuse(refused, key)
        except errors.Unavailable as error:
            LOG.warning("The refusal could not be recorded for 'tonnage why': %s", error)
        LOG.warning("Request %s of %s is refused: %s", context.request_id, subject, refusal.message)
        raise exception.NoValidBackend(reason=refusal.message)


def _require_manager() -> None:
    """End this process with one line in the log if a ledger is configured, and Cinder's own manager never opens it."""
    if CONF.tonnage.connection and CONF.scheduler_manager == _STOCK_MANAGER:
        LOG.critical(
            "Option [DEFAULT] scheduler_manager is %s; with [tonnage] connection it has to be %s",
            _STOCK_MANAGER,
            _MANAGER,
        )
        raise SystemExit(1)


def _key(context: Any, subject: str, verb: str) -> request_keys.Key:
    """Return the key of a request for an operation on a volume or snapshot that exists."""
    return observed_claims.key(subject, verb, context.request_id or str(uuid.uuid4()))


def _booking(
    context: Any, pool: Any, volume_id: str, verb: str, size_gb: int, properties: Mapping[str, Any], target: int = 0
) -> bookings.Booking:
    thin = capacity_rejection.is_thin(pool, properties)
    return bookings.Booking(
        id=str(uuid.uuid4()),
        request_id=(context.request_id or "")[:64],
        volume_id=volume_id,
        verb=verb,
        pool_id=pool.row.id,
        pool_name=pool.backend_id,
        backend_id=pool.row.backend_id,
        generation=pool.row.generation,
        size_gb=size_gb,
        physical_gb=0 if thin else size_gb,
        target_size_gb=target or size_gb,
        provisioning=Provisioning.THIN if thin else Provisioning.THICK,
    )


def _may_move_to_grow(request_spec: Any) -> bool:
    """Return whether the volume type allows a volume to move to another pool when it grows."""
    specs = (request_spec.get("volume_type") or {}).get("extra_specs") or {}
    try:
        return type_specs.extends_by_migration(specs)
    except errors.InvalidInput as error:
        LOG.warning("The volume does not move to grow: %s", error)
        return False


def _request_text(request_spec: Any, filter_properties: Any = None) -> str:
    properties = request_spec.get("volume_properties") or {}
    volume_type = (request_spec.get("volume_type") or {}).get("name")
    new_size = (filter_properties or {}).get("new_size")
    size = f"{int(new_size) - int(properties['size'])} GiB more" if new_size else f"{properties.get('size')} GiB"
    return size + (f" {volume_type!r}" if volume_type else "")
