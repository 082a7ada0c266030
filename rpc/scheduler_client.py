# SPDX-License-Identifier: Apache-2.0
"""What agents, the API and commands ask the schedulers for."""

from tonnage.capacity.explanation import Explanation
from tonnage.rpc import messages
from tonnage.rpc import wire
from tonnage.rpc.peer import Peer
from tonnage.rpc.transport import TOPIC_SCHEDULER
from tonnage.rpc.transport import Transport

#: A hello may be said again at once, and the bus drops one that comes before the first scheduler.
_HELLO_SECONDS = 5.0


class SchedulerClient:
    """Calls to any scheduler, and reports to all of them.

    Every call may raise :class:`~tonnage.capacity.errors.Unavailable`.
    """

    def __init__(self, transport: Transport) -> None:
        self._peer = Peer(transport, TOPIC_SCHEDULER, "scheduler")

    def hello(self, hello: messages.Hello) -> messages.Welcome:
        """Introduce a backend; the answer names its epoch."""
        return wire.unpack(self._peer.call("hello", hello, timeout=_HELLO_SECONDS), messages.Welcome)

    def listing(self, listing: messages.Listing) -> messages.Receipt:
        """Tell all volumes that a backend has."""
        return wire.unpack(self._peer.call("listing", listing), messages.Receipt)

    def outcome(self, outcome: messages.Outcome) -> messages.Receipt:
        """Tell how a command ended."""
        return wire.unpack(self._peer.call("outcome", outcome), messages.Receipt)

    def report(self, report: messages.BackendReport) -> None:
        """Send a report to all schedulers. Nobody answers; a lost one is made up for by the next."""
        self._peer.cast("report", report, fanout=True)

    def create(self, request: messages.CreateVolume) -> messages.Answer:
        """Have a volume placed and made.

        A refusal is an answer. Raises :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.NotFound` for a request that names what does not exist.
        """
        return wire.unpack(self._peer.call("create_volume", request), messages.Answer)

    def extend(self, request: messages.ExtendVolume) -> messages.Answer:
        """Have a volume grown where it is.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.InvalidInput` and
        :class:`~tonnage.capacity.errors.Conflict`.
        """
        return wire.unpack(self._peer.call("extend_volume", request), messages.Answer)

    def delete(self, request: messages.DeleteVolume) -> None:
        """Have a volume deleted.

        Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`.
        """
        self._peer.call("delete_volume", request)

    def get_pools(self, query: messages.PoolQuery) -> list[messages.PoolView]:
        """Return the pools with what is reported and kept of them."""
        return wire.unpack(self._peer.call("get_pools", query), list[messages.PoolView])

    def explain(self, request: messages.CreateVolume) -> Explanation:
        """Return how the request would be decided now; nothing is placed."""
        return wire.unpack(self._peer.call("explain", request), Explanation)
