# SPDX-License-Identifier: Apache-2.0
"""Requests that place nothing: deletion, adoption and release of volumes, and the state of backends."""

import logging
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.ledger.catalog import managed_volumes, volume_types
from tonnage.ledger.claims import deletions, request_keys
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import backends, pending_claims
from tonnage.ledger.models import claim_verbs
from tonnage.quotas import options as quota_options
from tonnage.quotas import reservations
from tonnage.quotas.quota_check import Demand, QuotaBudget, QuotaChanged, Usage
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.rpc.messages import BackendState, DeleteVolume, ManageVolume, SetBackendState, UnmanageVolume
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.periodic.sweep import SweepTimer
from tonnage.scheduler.requests import request_validation

LOG = logging.getLogger(__name__)

#: Number of attempts for a request whose quota others keep changing.
_ROUNDS = 5

Message = TypeVar("Message")
P = ParamSpec("P")
Result = TypeVar("Result")


class VolumeOperations:
    """Handlers of the decision thread. Each returns a list with None or the sender's error for each request.

    A change of a backend's state requests a sweep from ``sweep_timer``. After a volume was unmanaged, ``agents`` are
    asked for a listing, so that it can be managed again.
    """

    def __init__(
        self,
        database: Database,
        hosts: HostManager,
        dispatcher: Dispatcher,
        agents: AgentMessages,
        sweep_timer: SweepTimer,
        quotas: quota_options.Settings | None = None,
    ) -> None:
        self._database = database
        self._hosts = hosts
        self._dispatcher = dispatcher
        self._agents = agents
        self._sweep_timer = sweep_timer
        self._quotas = quotas or quota_options.Settings()

    def delete(self, messages: Sequence[DeleteVolume]) -> list[Exception | None]:
        """Order deletions, all in one transaction."""
        orders = [deletions.Order(request.volume_id, request.request_id, request.asked_at) for request in messages]
        try:
            begun = self._database.run_past_duplicates(deletions.begin, orders)
        except errors.Unavailable as error:
            return [error for _ in messages]
        for deletion in begun:
            if isinstance(deletion, deletions.Deletion) and deletion.order is not None:
                self._dispatcher.send(deletion.order)
        results: list[Exception | None] = []
        for message, outcome in zip(messages, begun, strict=True):
            if isinstance(outcome, deletions.Deletion):
                LOG.info("[%s] volume %s: delete ordered", message.request_id, message.volume_id)
                results.append(None)
            else:
                results.append(outcome)
        return results

    def manage(self, messages: Sequence[ManageVolume]) -> list[Exception | None]:
        """Have agents adopt volumes that are on their storage."""
        return [_answered(self._manage, message) for message in messages]

    def unmanage(self, messages: Sequence[UnmanageVolume]) -> list[Exception | None]:
        """Remove volumes from the ledger and leave them on their storage."""
        return [_answered(self._unmanage, message) for message in messages]

    def set_backend_state(self, messages: Sequence[SetBackendState]) -> list[Exception | None]:
        """Enable, disable or drain backends."""
        return [_answered(self._set_backend_state, message) for message in messages]

    def _manage(self, message: ManageVolume) -> None:
        _check(message)
        self._send(self._begun(message))
        LOG.info(
            "[%s] volume %s: %s in %s is taken over",
            message.request_id,
            message.volume_id,
            message.reference,
            message.pool,
        )

    def _begun(self, volume: ManageVolume) -> str:
        for _ in range(_ROUNDS):
            try:
                key = request_keys.Key(volume.request_id, volume.volume_id, claim_verbs.MANAGE)
                return self._once(key, self._begin, volume)
            except QuotaChanged as taken:
                LOG.debug("[%s] volume %s is looked at again: %s", volume.request_id, volume.volume_id, taken)
                if taken.missing_counters:
                    self._database.run(reservations.insert_missing, taken.missing_counters)
        raise errors.Unavailable(f"other requests were faster on the quota of project {volume.project_id}; try again")

    def _begin(self, session: orm.Session, volume: ManageVolume) -> str:
        """Begin to adopt a volume, if the quota of its project permits the size that was last listed.

        That size counts until the agent has reported the real one.
        """
        request_times = {volume.request_id: volume.asked_at}
        size = 0
        if not request_keys.find(session, request_times):
            size = managed_volumes.find_listed_gb(session, volume.pool, volume.reference)
            volume_type = None if volume.volume_type is None else volume_types.find(session, volume.volume_type)
            demanded = [
                Demand(
                    project_id=volume.project_id,
                    user_id=volume.user_id,
                    takes=Usage(1, size),
                    size_gb=size,
                    volume_type_id="" if volume_type is None else volume_type.id,
                    volume_type="" if volume_type is None else volume_type.name,
                )
            ]
            budget = QuotaBudget(reservations.reserve(session, self._quotas, demanded, lock_counters=True))
            # While this waited for the counters the same request may have taken effect, so that it counts already.
            if not request_keys.find(session, request_times):
                if (excess := budget.excess(demanded)) is not None:
                    raise errors.OverQuota(excess.sentence)
                budget.take(demanded)
                reservations.consume(session, budget)
        return managed_volumes.begin(session, volume, size)

    def _unmanage(self, message: UnmanageVolume) -> None:
        request_validation.check_length("volume_id", message.volume_id, 36)
        key = request_keys.Key(message.request_id, message.volume_id, request_keys.UNMANAGE)
        counters = self._once(key, deletions.unmanage, message.request_id, message.volume_id, message.asked_at)
        self._hosts.set_counters(counters)
        for pool in self._hosts.names(counters):
            self._agents.list_now(backend_of(pool))
        LOG.info("[%s] volume %s: let go of, and left on the storage", message.request_id, message.volume_id)

    def _once(
        self,
        key: request_keys.Key,
        work: Callable[Concatenate[orm.Session, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Run the transaction of a request, and keep a final refusal as its answer."""
        try:
            return self._database.run_past_duplicates(work, *args, **kwargs)
        except request_keys.STORED_ERRORS as error:
            refused = request_keys.Key.of_error(key.request_id, key.volume_id, key.verb, error)
            try:
                self._database.run(request_keys.insert, [refused])
            except db_exc.DBDuplicateEntry:
                # It has an answer already, an earlier one or one of another scheduler just now.
                return self._database.run_past_duplicates(work, *args, **kwargs)
            raise

    def _set_backend_state(self, message: SetBackendState) -> None:
        row = self._database.run(
            backends.set_state,
            message.backend,
            enabled=message.state is BackendState.ENABLED,
            draining=message.state is BackendState.DRAINING,
            reason=message.reason,
        )
        self._hosts.apply_backend_state(row)
        self._sweep_timer.request()
        LOG.info("Backend %s is %s (%s)", message.backend, message.state, message.reason or "no reason given")

    def _send(self, claim_id: str) -> None:
        with self._database.reading() as session:
            pending = pending_claims.load(session, ids=[claim_id])
        for claim in pending:
            self._dispatcher.send(claim)


def _answered(work: Callable[[Message], None], message: Message) -> Exception | None:
    """Do the work and return None or, so that other requests are handled, the error for the sender."""
    try:
        work(message)
    except errors.TonnageError as error:
        return error
    except Exception as error:
        LOG.exception("A request could not be carried out")
        return error
    return None


def _check(message: ManageVolume) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for a value that does not fit into the row of a volume."""
    request_validation.check_uuid(message.volume_id)
    for name in ("reference", "project_id", "user_id", "name", "description"):
        request_validation.check_length(name, getattr(message, name) or "", 255)
