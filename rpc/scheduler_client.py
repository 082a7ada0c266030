# SPDX-License-Identifier: Apache-2.0
"""What agents, the API and commands ask the schedulers for."""

from collections.abc import Sequence
from typing import Any

from tonnage.capacity.explanation import Explanation
from tonnage.capacity.request import LOCAL_TO_INSTANCE
from tonnage.rpc import envelope, messages, serialization
from tonnage.rpc.base_client import Peer
from tonnage.rpc.batching import request_batch
from tonnage.rpc.batching.call_batcher import Convoy
from tonnage.rpc.batching.packed_reports import PackedReport
from tonnage.rpc.batching.pool_list_text import Reader
from tonnage.rpc.batching.request_batch import Kind
from tonnage.rpc.bus_health import Pulse
from tonnage.rpc.node_fit_messages import FitAnswer, FitQuery
from tonnage.rpc.transport import TOPIC_SCHEDULER, Transport, knock

#: A hello may be said again at once, and the bus drops one that comes before the first scheduler.
_HELLO_SECONDS = 5.0

#: A look at the storage waits for its stamps, and goes on without them.
_STAMP_SECONDS = 2.0

#: Most that an outcome waits for its receipt. It is told again, which is safe, and much can end meanwhile.
_OUTCOME_SECONDS = 10.0


class SchedulerClient:
    """Calls to any scheduler, and reports to all of them.

    Every call may raise :class:`~tonnage.capacity.errors.Unavailable`.
    """

    def __init__(self, transport: Transport) -> None:
        self._conf = transport.conf
        self._peer = Peer(transport, TOPIC_SCHEDULER, "scheduler")
        self._convoy: Convoy[tuple[Kind, dict[str, Any]], dict[str, Any]] = Convoy(self._send)
        self._pulse = Pulse(lambda: knock(transport))
        self._all_pools = {factors: _AllPools(self._peer, factors) for factors in (False, True)}

    def bus_takes_messages(self) -> bool:
        """Tell whether the message bus is there, as it was found a few seconds ago at most; raises nothing."""
        return self._pulse.beats()

    # What agents tell

    def hello(self, hello: messages.Hello) -> messages.Welcome:
        """Introduce a backend; the answer names its epoch."""
        return serialization.received(self._peer.call("hello", hello, timeout=_HELLO_SECONDS), messages.Welcome)

    def listing(self, listing: messages.Listing) -> messages.Receipt:
        """Tell all volumes that a backend has."""
        return serialization.received(self._peer.call("listing", listing), messages.Receipt)

    def outcomes(self, outcomes: Sequence[messages.Outcome]) -> list[messages.Receipt]:
        """Tell how commands of one backend ended, and return a receipt for each.

        If it raises, some may have arrived; it is safe to tell them again.
        """
        together = messages.Outcomes(outcomes=list(outcomes))
        timeout = min(_OUTCOME_SECONDS, float(self._conf.rpc_response_timeout))
        receipts = self._peer.call("outcomes", together, timeout)
        return serialization.received(receipts, list[messages.Receipt])

    def stamps(self, query: messages.StampQuery) -> dict[str, int]:
        """Return stamps of storages for a look that has not begun."""
        return serialization.received(self._peer.call("stamps", query, _STAMP_SECONDS), dict[str, int])

    def report(self, report: messages.BackendReport) -> None:
        """Send a report to all schedulers. Nobody answers; a lost one is made up for by the next."""
        self._peer.cast("report", PackedReport.of(report), fanout=True)

    # What users ask for

    def create(self, request: messages.CreateVolume) -> messages.Answer:
        """Have a volume placed and made.

        A refusal is an answer. Raises :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.NotFound` for a request that names what does not exist.
        """
        # A request that waits for the compute service shall not make others wait with it.
        answer = self._order(Kind.CREATES, request, alone=bool(request.hints.get(LOCAL_TO_INSTANCE)))
        return serialization.received(answer, messages.Answer)

    def create_group(self, request: messages.CreateGroup) -> messages.GroupAnswer:
        """Have several volumes placed and made, or none. Answers and errors are as for one."""
        return serialization.received(self._peer.call("create_group", request), messages.GroupAnswer)

    def extend(self, request: messages.ExtendVolume) -> messages.Answer:
        """Have a volume grown where it is.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.Conflict`.
        """
        return serialization.received(self._order(Kind.EXTENDS, request), messages.Answer)

    def delete(self, request: messages.DeleteVolume) -> None:
        """Have a volume deleted.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._order(Kind.DELETES, request)

    def retype(self, request: messages.RetypeVolume) -> messages.Answer:
        """Have a volume given another type, and moved if it has to be and may.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.Conflict`.
        """
        return serialization.received(self._peer.call("retype_volume", request), messages.Answer)

    def migrate(self, request: messages.MigrateVolume) -> messages.Answer:
        """Have a volume moved. Raises the same as :meth:`retype`."""
        return serialization.received(self._peer.call("migrate_volume", request), messages.Answer)

    def manage(self, request: messages.ManageVolume) -> None:
        """Have something taken over that is on the storage already. Raises the same as :meth:`retype`."""
        self._peer.call("manage_volume", request)

    def unmanage(self, request: messages.UnmanageVolume) -> None:
        """Have a volume forgotten and left where it is. Raises the same as :meth:`delete`."""
        self._peer.call("unmanage_volume", request)

    def set_backend_state(self, request: messages.SetBackendState) -> None:
        """Have a backend enabled, disabled or drained.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        self._peer.call("set_backend_state", request)

    def get_pools(self, query: messages.PoolQuery) -> list[messages.PoolView]:
        """Return the pools with what is reported and kept of them."""
        return serialization.received(self._peer.call("get_pools", query), list[messages.PoolView])

    def spelled_pools(self, query: messages.SpelledPoolQuery) -> list[bytes]:
        """Return the same as JSON: parts of a list, with commas to be put between them.

        Threads that ask for all pools in detail at the same moment are given the same answer, which is of no moment
        before they asked.
        """
        everything = self._all_pools[query.factors]
        return everything.look() if query == everything.query else _spelled(self._peer, query, Reader())

    def explain(self, request: messages.CreateVolume) -> Explanation:
        """Return how the request would be decided now; nothing is placed."""
        return serialization.received(self._peer.call("explain", request), Explanation)

    def what_if(self, question: messages.WhatIf) -> list[messages.Outlook]:
        """Return how requests would be decided if things were different, or as they are; nothing is placed.

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        return serialization.received(self._peer.call("what_if", question), list[messages.Outlook])

    def fit_nodes(self, query: FitQuery) -> FitAnswer:
        """Return which nodes of a cluster take volumes together, and why the others do not.

        Nothing is claimed. Raises :class:`~tonnage.capacity.errors.InvalidInput` for volumes that cannot be meant.
        """
        return serialization.received(self._peer.call("fit_nodes", query), FitAnswer)

    def _order(self, kind: Kind, request: object, *, alone: bool = False) -> Any:
        """Send a request together with those of other threads, or ``alone``; return the result of its answer."""
        # A request that cannot be packed fails here, before it joins others.
        item = kind, serialization.pack(request)
        return envelope.result(self._send([item])[0] if alone else self._convoy.call(item))

    def _send(self, requests: list[tuple[Kind, dict[str, Any]]]) -> list[dict[str, Any]]:
        answered = self._peer.call("orders", request_batch.pack(requests))
        return request_batch.unpack([kind for kind, _ in requests], answered)


class _AllPools:
    """All pools in detail, with ``factors`` or without, one call at a time: who asks meanwhile shares the next."""

    def __init__(self, peer: Peer, factors: bool) -> None:
        self.query = messages.SpelledPoolQuery(detail=True, factors=factors)
        self._peer = peer
        self._reader = Reader()
        self._convoy: Convoy[None, list[bytes]] = Convoy(self._call, flights=1)

    def look(self) -> list[bytes]:
        """Return them. Raises as :meth:`SchedulerClient.spelled_pools`."""
        return self._convoy.call(None)

    def _call(self, those: Sequence[None]) -> list[list[bytes]]:
        return [_spelled(self._peer, self.query, self._reader)] * len(those)


def _spelled(peer: Peer, query: messages.SpelledPoolQuery, reader: Reader) -> list[bytes]:
    answer = peer.call("spelled_pools", query)
    return reader.parts(serialization.received(answer, list[messages.SpelledPools]))
