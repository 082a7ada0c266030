# SPDX-License-Identifier: Apache-2.0
"""The client side of the schedulers' RPC, for agents, the API and commands."""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.request import LOCAL_TO_INSTANCE
from tonnage.rpc import contract, messages, serialization
from tonnage.rpc.clients.bus_health import BusHealth
from tonnage.rpc.clients.call_batcher import CallBatcher
from tonnage.rpc.clients.pool_list_text import PoolListReader
from tonnage.rpc.contract import Answer, Delivery, Message, Method
from tonnage.rpc.transport import TOPIC_SCHEDULER, Peer, Transport

#: Seconds without an answer after which a call is sent again: its scheduler may have frozen, and another one answers.
_RESEND_SECONDS = 5.0


class SchedulerClient:
    """Calls to any scheduler, and reports to all of them, by the methods in :mod:`tonnage.rpc.contract`.

    ``clock`` returns a time by the ledger's clock, for requests that must not take effect long after it.
    """

    def __init__(self, transport: Transport, clock: Callable[[], datetime.datetime | None] = lambda: None) -> None:
        self._clock = clock
        self._peer = Peer(transport, TOPIC_SCHEDULER, "scheduler", _RESEND_SECONDS)
        # The methods of the requests, and the requests packed.
        self._batcher: CallBatcher[tuple[str, Any], Any] = CallBatcher(self._send)
        self._health = BusHealth(transport)
        self._all_pools = {factors: _AllPools(self._peer, factors) for factors in (False, True)}

    def bus_takes_messages(self) -> bool:
        """Return whether the message bus accepts messages, by a probe a few seconds ago at most. Raises nothing."""
        return self._health.probe()

    def call(self, method: Method[Message, Answer], message: Message) -> Answer:
        """Return the answer of a scheduler. The refusal of a request is an answer.

        Requests of several threads may share a message. Raises the errors of the method, and
        :class:`~tonnage.capacity.errors.Unavailable` if no scheduler answers; then the request may take effect all the
        same, and may be repeated with the same request id.
        """
        if method.keyed and isinstance(message, messages.KeyedRequest):
            message = dataclasses.replace(message, asked_at=self._clock())
        if method.delivery is not Delivery.BATCHED_CALL:
            return self._peer.call(method, message)
        # A request that cannot be packed fails here, before it joins others.
        item = method.name, serialization.pack(message)
        # A request that waits for the compute service must not delay others.
        is_slow = isinstance(message, messages.CreateVolume) and bool(message.hints.get(LOCAL_TO_INSTANCE))
        return serialization.result(self._send([item])[0] if is_slow else self._batcher.call(item), method.answer)

    def cast(self, method: Method[Message, None], message: Message) -> None:
        """Send a message without an answer.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the message bus cannot be reached.
        """
        self._peer.cast(method, message)

    def pool_list(self, query: messages.PoolListQuery) -> list[bytes]:
        """Return pools as JSON: parts of a list, which the caller joins with commas.

        Threads that request all pools in detail at the same moment get the same answer, which is not older than their
        requests. Raises the errors of :meth:`call`.
        """
        everything = self._all_pools[query.factors]
        return everything.get() if query == everything.query else _read_pool_list(self._peer, query, PoolListReader())

    def _send(self, requests: Sequence[tuple[str, Any]]) -> list[Any]:
        """Send requests in one message and return the answer to each, still in its envelope."""
        fields = [method.name for method in contract.BATCHED_METHODS]
        # The answers come in the order of the message, method by method.
        order = sorted(range(len(requests)), key=lambda position: fields.index(requests[position][0]))
        batch = messages.RequestBatch()
        for field, request in requests:
            getattr(batch, field).append(request)
        answered = self._peer.call(contract.REQUEST_BATCH, batch)
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
        """Return the list, from the next call. Raises as :meth:`SchedulerClient.pool_list`."""
        return self._batcher.call(None)

    def _call(self, callers: Sequence[None]) -> list[list[bytes]]:
        return [_read_pool_list(self._peer, self.query, self._reader)] * len(callers)


def _read_pool_list(peer: Peer, query: messages.PoolListQuery, reader: PoolListReader) -> list[bytes]:
    answer = peer.call(contract.GET_POOL_LIST, query)
    return reader.parts(answer)
