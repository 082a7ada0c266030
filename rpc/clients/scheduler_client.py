# SPDX-License-Identifier: Apache-2.0
"""The client side of the schedulers' RPC, for agents, the API and commands."""

import dataclasses
import datetime
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.request import LOCAL_TO_INSTANCE
from tonnage.extensions.kubernetes.fit.node_fit_messages import FitAnswer, FitQuery
from tonnage.rpc import messages, serialization
from tonnage.rpc.clients.bus_health import BusHealth
from tonnage.rpc.clients.call_batcher import CallBatcher
from tonnage.rpc.clients.pool_list_text import PoolListReader
from tonnage.rpc.packed_reports import PackedReport
from tonnage.rpc.request_batch import BatchedOperation
from tonnage.rpc.transport import TOPIC_SCHEDULER, Peer, Transport

T = TypeVar("T")
Keyed = TypeVar("Keyed", bound=messages.KeyedRequest)

#: Seconds without an answer after which a call is sent again: its scheduler may have frozen, and another one answers.
#: Each request that is sent again has a key, by which it takes effect only once.
_RESEND_SECONDS = 5.0

#: Seconds to wait for the answer to a hello. It may be repeated at once; the bus drops one without a scheduler.
_HELLO_SECONDS = 5.0

#: Seconds that a report waits for its stamps; it is sent without them after that.
_STAMP_SECONDS = 2.0

#: Most seconds to wait for the receipt of outcomes. They are sent again then, which is safe.
_OUTCOME_SECONDS = 10.0


class SchedulerClient:
    """Calls to any scheduler, and reports to all of them.

    ``clock`` returns a time by the ledger's clock, for requests that must not take effect long after it. Every call may
    raise :class:`~tonnage.capacity.errors.Unavailable`.
    """

    def __init__(self, transport: Transport, clock: Callable[[], datetime.datetime | None] = lambda: None) -> None:
        self._clock = clock
        self._conf = transport.conf
        self._peer = Peer(transport, TOPIC_SCHEDULER, "scheduler", _RESEND_SECONDS)
        self._batcher: CallBatcher[tuple[BatchedOperation, dict[str, Any]], dict[str, Any]] = CallBatcher(self._send)
        self._health = BusHealth(transport)
        self._all_pools = {factors: _AllPools(self._peer, factors) for factors in (False, True)}

    def bus_takes_messages(self) -> bool:
        """Return whether the message bus accepts messages, by a probe a few seconds ago at most. Raises nothing."""
        return self._health.probe()

    # For agents

    def hello(self, hello: messages.Hello) -> messages.Welcome:
        """Introduce a backend; the answer names its epoch."""
        return self._peer.call("hello", hello, messages.Welcome, _HELLO_SECONDS)

    def listing(self, listing: messages.Listing) -> messages.Receipt:
        """Send a listing of all volumes on a backend."""
        return self._peer.call("listing", listing, messages.Receipt)

    def outcomes(self, outcomes: Sequence[messages.Outcome]) -> list[messages.Receipt]:
        """Send outcomes of commands of one backend, and return a receipt for each.

        After an exception some may have arrived; it is safe to send them again.
        """
        message = messages.Outcomes(outcomes=list(outcomes))
        timeout = min(_OUTCOME_SECONDS, float(self._conf.rpc_response_timeout))
        return self._peer.call("outcomes", message, list[messages.Receipt], timeout)

    def stamps(self, query: messages.StampQuery) -> dict[str, int]:
        """Return stamps of storages for a report that has not begun."""
        return self._peer.call("stamps", query, dict[str, int], _STAMP_SECONDS)

    def report(self, report: messages.BackendReport) -> None:
        """Send a report to all schedulers, without an answer; the next report makes up for a lost one."""
        self._peer.cast("report", PackedReport.of(report), fanout=True)

    # For the API and commands

    def create(self, request: messages.CreateVolume) -> messages.Answer:
        """Place and create a volume. A refusal is an answer.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.NotFound` for a request that names missing objects.
        """
        # A request that waits for the compute service must not delay others.
        alone = bool(request.hints.get(LOCAL_TO_INSTANCE))
        return self._send_batched(BatchedOperation.CREATES, request, messages.Answer, alone=alone)

    def create_group(self, request: messages.CreateGroup) -> messages.GroupAnswer:
        """Place and create several volumes, or none of them. Answers and errors are as for one."""
        return self._peer.call("create_group", self._dated(request), messages.GroupAnswer)

    def extend(self, request: messages.ExtendVolume) -> messages.Answer:
        """Extend a volume in its pool.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.Conflict`.
        """
        return self._send_batched(BatchedOperation.EXTENDS, request, messages.Answer)

    def delete(self, request: messages.DeleteVolume) -> None:
        """Delete a volume.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._send_batched(BatchedOperation.DELETES, request, object)

    def retype(self, request: messages.RetypeVolume) -> messages.Answer:
        """Change the type of a volume, and move it if that is necessary and allowed.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.Conflict`.
        """
        return self._peer.call("retype_volume", self._dated(request), messages.Answer)

    def migrate(self, request: messages.MigrateVolume) -> messages.Answer:
        """Move a volume to another pool. Raises the same as :meth:`retype`."""
        return self._peer.call("migrate_volume", self._dated(request), messages.Answer)

    def manage(self, request: messages.ManageVolume) -> None:
        """Adopt a volume that is on the storage already. Raises the same as :meth:`retype`."""
        self._peer.call("manage_volume", self._dated(request), object)

    def unmanage(self, request: messages.UnmanageVolume) -> None:
        """Remove a volume from the ledger and leave it on the storage. Raises the same as :meth:`delete`."""
        self._peer.call("unmanage_volume", self._dated(request), object)

    def set_backend_state(self, request: messages.SetBackendState) -> None:
        """Enable, disable or drain a backend.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        # It has no key: sent again, it could undo a later change.
        self._peer.call("set_backend_state", request, object, once=True)

    def list_now(self, backends: Collection[str]) -> None:
        """Have these backends listed soon, by any scheduler, without an answer; the ledger gets the listings."""
        if backends:
            self._peer.cast("list_now", messages.ListBackends(backends=sorted(backends)))

    def get_pools(self, query: messages.PoolQuery) -> list[messages.PoolView]:
        """Return pools with their capabilities and capacity factors."""
        return self._peer.call("get_pools", query, list[messages.PoolView])

    def get_pool_list(self, query: messages.PoolListQuery) -> list[bytes]:
        """Return pools as JSON: parts of a list, which the caller joins with commas.

        Threads that request all pools in detail at the same moment get the same answer, which is not older than their
        requests.
        """
        everything = self._all_pools[query.factors]
        return everything.get() if query == everything.query else _get_pool_list(self._peer, query, PoolListReader())

    def explain(self, request: messages.CreateVolume) -> Explanation:
        """Return the explanation of the decision that the request would get now. Nothing is placed."""
        return self._peer.call("explain", request, Explanation, once=True)

    def what_if(self, question: messages.WhatIf) -> list[messages.SimulationResult]:
        """Return the simulated decisions on requests, with or without hypothetical changes. Nothing is placed.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that cannot be decided.
        """
        return self._peer.call("what_if", question, list[messages.SimulationResult], once=True)

    def fit_nodes(self, query: FitQuery) -> FitAnswer:
        """Return the nodes of a cluster that have room for volumes together, and reasons for the other nodes.

        Nothing is claimed. Raises :class:`~tonnage.capacity.errors.InvalidInput` for invalid volumes.
        """
        return self._peer.call("fit_nodes", query, FitAnswer, once=True)

    def _dated(self, request: Keyed) -> Keyed:
        return dataclasses.replace(request, asked_at=self._clock())

    def _send_batched(
        self, operation: BatchedOperation, request: messages.KeyedRequest, answer: type[T], *, alone: bool = False
    ) -> T:
        """Send a request in a batch with those of other threads, or ``alone``; return its answer of that type."""
        # A request that cannot be packed fails here, before it joins others.
        item = operation, serialization.pack(self._dated(request))
        return serialization.result(self._send([item])[0] if alone else self._batcher.call(item), answer)

    def _send(self, requests: list[tuple[BatchedOperation, dict[str, Any]]]) -> list[dict[str, Any]]:
        """Send requests in one message and return the answer to each, still in its envelope."""
        operations = list(BatchedOperation)
        # The answers come in the order of the message, operation by operation.
        order = sorted(range(len(requests)), key=lambda position: operations.index(requests[position][0]))
        message: dict[str, list[dict[str, Any]]] = {operation: [] for operation in operations}
        for operation, request in requests:
            message[operation].append(request)
        answered = self._peer.call("request_batch", message, object)
        if not isinstance(answered, list) or len(answered) != len(requests):
            raise errors.Unavailable(f"the scheduler's answer to {len(requests)} requests is garbled")
        by_position = dict(zip(order, answered, strict=True))
        return [by_position[position] for position in range(len(requests))]


class _AllPools:
    """The list of all pools in detail, with ``factors`` or without, with one call at a time."""

    def __init__(self, peer: Peer, factors: bool) -> None:
        self.query = messages.PoolListQuery(detail=True, factors=factors)
        self._peer = peer
        self._reader = PoolListReader()
        self._batcher: CallBatcher[None, list[bytes]] = CallBatcher(self._call, max_in_flight=1)

    def get(self) -> list[bytes]:
        """Return the list, from the next call. Raises as :meth:`SchedulerClient.get_pool_list`."""
        return self._batcher.call(None)

    def _call(self, callers: Sequence[None]) -> list[list[bytes]]:
        return [_get_pool_list(self._peer, self.query, self._reader)] * len(callers)


def _get_pool_list(peer: Peer, query: messages.PoolListQuery, reader: PoolListReader) -> list[bytes]:
    return reader.parts(peer.call("get_pool_list", query, list[messages.PoolListText]))
