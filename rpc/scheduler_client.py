# SPDX-License-Identifier: Apache-2.0
"""What agents, the API and commands ask the schedulers for."""

from collections.abc import Callable, Sequence
from typing import Any

from tonnage.capacity.explanation import Explanation
from tonnage.capacity.request import LOCAL_TO_INSTANCE
from tonnage.rpc import envelope, messages, serialization, versions
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

#: What came with version 1.1.
_SECOND = "1.1"


class SchedulerClient:
    """Calls to any scheduler, and reports to all of them.

    ``version_of`` tells what version of the RPC all schedulers understand; without it they are taken for old ones.

    Every call may raise :class:`~tonnage.capacity.errors.Unavailable`; one that needs a later version than may be sent
    raises :class:`~tonnage.rpc.versions.NotUnderstood`, which is one of those, before anything is sent.
    """

    def __init__(self, transport: Transport, version_of: Callable[[], str] = lambda: versions.FIRST) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unknown ``[upgrade_levels] scheduler``."""
        self._conf = transport.conf
        self._peer = Peer(transport, TOPIC_SCHEDULER, "scheduler")
        self._cap = versions.Cap(transport.conf, "scheduler")
        self._version_of = version_of
        self._convoy: Convoy[tuple[Kind, dict[str, Any]], dict[str, Any]] = Convoy(self._send)
        self._pulse = Pulse(lambda: knock(transport))
        self._all_pools = {factors: _AllPools(self._peer, factors) for factors in (False, True)}

    def version(self) -> str:
        """Return the version of the RPC that may be sent to schedulers."""
        return self._cap.of(self._version_of)

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

    def outcome(self, outcome: messages.Outcome) -> messages.Receipt:
        """Tell how a command ended."""
        return serialization.received(
            self._peer.call("outcome", outcome, timeout=self._outcome_timeout()), messages.Receipt
        )

    def outcomes(self, outcomes: Sequence[messages.Outcome]) -> list[messages.Receipt]:
        """Tell how several commands of one backend ended, singly if a scheduler is too old.

        If it raises, some may have arrived; it is safe to tell them again.
        """
        if len(outcomes) > 1 and versions.reaches(self.version(), _SECOND):
            try:
                together = messages.Outcomes(outcomes=list(outcomes))
                receipts = self._peer.call("outcomes", together, _SECOND, self._outcome_timeout())
                return serialization.received(receipts, list[messages.Receipt])
            except versions.NotUnderstood:  # one that was not known of
                pass
        return [self.outcome(outcome) for outcome in outcomes]

    def stamps(self, query: messages.StampQuery) -> dict[str, int]:
        """Return stamps of storages for a look that has not begun (since 1.1)."""
        return serialization.received(self._latest("stamps", query, timeout=_STAMP_SECONDS), dict[str, int])

    def report(self, report: messages.BackendReport) -> None:
        """Send a report to all schedulers. Nobody answers; a lost one is made up for by the next."""
        if versions.reaches(self.version(), _SECOND):
            self._peer.cast("packed_report", PackedReport.of(report), _SECOND, fanout=True)
        else:
            self._peer.cast("report", report, fanout=True)

    # What users ask for

    def create(self, request: messages.CreateVolume) -> messages.Answer:
        """Have a volume placed and made.

        A refusal is an answer. Raises :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.NotFound` for a request that names what does not exist.
        """
        if request.hints.get(LOCAL_TO_INSTANCE):
            # It waits for the compute service, and others shall not wait with it.
            alone = self._peer.call("create_volume", request, self._needed("create_volume", request))
            return serialization.received(alone, messages.Answer)
        answer = self._order(Kind.CREATES, "create_volume", request, self._needed("create_volume", request))
        return serialization.received(answer, messages.Answer)

    def create_group(self, request: messages.CreateGroup) -> messages.GroupAnswer:
        """Have several volumes placed and made, or none (since 1.1). Answers and errors are as for one."""
        return serialization.received(self._latest("create_group", request), messages.GroupAnswer)

    def extend(self, request: messages.ExtendVolume) -> messages.Answer:
        """Have a volume grown where it is.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.Conflict`.
        """
        return serialization.received(self._order(Kind.EXTENDS, "extend_volume", request), messages.Answer)

    def delete(self, request: messages.DeleteVolume) -> None:
        """Have a volume deleted.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._order(Kind.DELETES, "delete_volume", request)

    def retype(self, request: messages.RetypeVolume) -> messages.Answer:
        """Have a volume given another type, and moved if it has to be and may (since 1.1).

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.Conflict`.
        """
        return serialization.received(self._latest("retype_volume", request), messages.Answer)

    def migrate(self, request: messages.MigrateVolume) -> messages.Answer:
        """Have a volume moved (since 1.1). Raises the same as :meth:`retype`."""
        return serialization.received(self._latest("migrate_volume", request), messages.Answer)

    def manage(self, request: messages.ManageVolume) -> None:
        """Have something taken over that is on the storage already (since 1.1). Raises the same as :meth:`retype`."""
        self._latest("manage_volume", request)

    def unmanage(self, request: messages.UnmanageVolume) -> None:
        """Have a volume forgotten and left where it is (since 1.1). Raises the same as :meth:`delete`."""
        self._latest("unmanage_volume", request)

    def set_backend_state(self, request: messages.SetBackendState) -> None:
        """Have a backend enabled, disabled or drained (since 1.1).

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        self._latest("set_backend_state", request)

    def get_pools(self, query: messages.PoolQuery) -> list[messages.PoolView]:
        """Return the pools with what is reported and kept of them."""
        return serialization.received(self._peer.call("get_pools", query), list[messages.PoolView])

    def spelled_pools(self, query: messages.SpelledPoolQuery) -> list[bytes]:
        """Return the same as JSON: parts of a list, with commas to be put between them (since 1.1).

        Threads that ask for all pools in detail at the same moment are given the same answer, which is of no moment
        before they asked.
        """
        self._require("spelled_pools")
        everything = self._all_pools[query.factors]
        return everything.look() if query == everything.query else _spelled(self._peer, query, Reader())

    def explain(self, request: messages.CreateVolume) -> Explanation:
        """Return how the request would be decided now; nothing is placed."""
        return serialization.received(
            self._peer.call("explain", request, self._needed("explain", request)), Explanation
        )

    def what_if(self, question: messages.WhatIf) -> list[messages.Outlook]:
        """Return how requests would be decided if things were different, or as they are; nothing is placed (since 1.1).

        Raises :class:`~tonnage.capacity.errors.InvalidInput`, :class:`~tonnage.capacity.errors.NotFound` and
        :class:`~tonnage.capacity.errors.Conflict` for a request that could not be decided at all.
        """
        return serialization.received(self._latest("what_if", question), list[messages.Outlook])

    def fit_nodes(self, query: FitQuery) -> FitAnswer:
        """Return which nodes of a cluster take volumes together, and why the others do not (since 1.1).

        Nothing is claimed. Raises :class:`~tonnage.capacity.errors.InvalidInput` for volumes that cannot be meant.
        """
        return serialization.received(self._latest("fit_nodes", query), FitAnswer)

    def _outcome_timeout(self) -> float:
        return min(_OUTCOME_SECONDS, float(self._conf.rpc_response_timeout))

    def _order(self, kind: Kind, method: str, request: object, needed: str = versions.FIRST) -> Any:
        """Send a request together with those of other threads, or alone if a scheduler is too old for that."""
        if versions.reaches(self.version(), _SECOND):
            # Here, so that what cannot be packed is nobody else's trouble.
            packed = serialization.pack(request)
            try:
                return envelope.result(self._convoy.call((kind, packed)))
            except versions.NotUnderstood:  # one that was not known of
                pass
        return self._peer.call(method, request, needed)

    def _needed(self, method: str, request: messages.CreateVolume) -> str:
        """Return the version that a request came with: an old scheduler would leave out what it does not know."""
        if request.source_volume_id is None and request.group_id is None:
            return versions.FIRST
        self._require(f"{method} {'in a group' if request.source_volume_id is None else 'from another volume'}")
        return _SECOND

    def _send(self, requests: list[tuple[Kind, dict[str, Any]]]) -> list[dict[str, Any]]:
        answered = self._peer.call("orders", request_batch.pack(requests), _SECOND)
        return request_batch.unpack([kind for kind, _ in requests], answered)

    def _latest(self, method: str, message: object, timeout: float | None = None) -> Any:
        self._require(method)
        return self._peer.call(method, message, _SECOND, timeout)

    def _require(self, method: str) -> None:
        versions.require(_SECOND, self.version(), method, "a scheduler", "scheduler")


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
    answer = peer.call("spelled_pools", query, _SECOND)
    return reader.parts(serialization.received(answer, list[messages.SpelledPools]))
