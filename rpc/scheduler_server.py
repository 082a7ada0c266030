# SPDX-License-Identifier: Apache-2.0
"""The server of a scheduler's RPC methods: one on each of its topics, started and stopped together.

The joins of backends have few threads. What these do not handle waits on the bus, which drops it when its caller waits
for it no more, and the threads for requests stay free.
"""

from tonnage.capacity import errors
from tonnage.rpc import serialization, transport
from tonnage.rpc.contract import TOPIC_JOINS
from tonnage.rpc.transport import TOPIC_SCHEDULER, Transport

#: Number of threads for the messages with which backends join.
JOIN_THREADS = 32

#: Seconds after which an agent comes back to a scheduler that can begin no call.
_PAUSE = 5.0


class SchedulerServer:
    """Serves the methods of an endpoint.

    ``endpoint`` and ``readiness`` are those of :func:`tonnage.rpc.transport.server`. The endpoint answers all its
    methods on both topics. Agents send the messages with which backends join to the topic of joins.
    """

    def __init__(
        self, bus: Transport, name: str, endpoint: object, readiness: serialization.Readiness | None = None
    ) -> None:
        joins_readiness = None if readiness is None else _JoinsReadiness(readiness)
        self._joins = transport.server(bus, TOPIC_JOINS, name, endpoint, joins_readiness, TOPIC_SCHEDULER)
        self._requests = transport.server(bus, TOPIC_SCHEDULER, name, endpoint, readiness)

    def start(self) -> None:
        """Take messages from now on."""
        self._joins.start(override_pool_size=JOIN_THREADS)
        self._requests.start()

    def stop(self) -> None:
        """Take no more messages."""
        self._requests.stop()
        self._joins.stop()

    def wait(self) -> None:
        """Wait for the end of the messages that were taken."""
        self._requests.wait()
        self._joins.wait()


class _JoinsReadiness:
    """The readiness for messages of agents, which come back later and not at once if a scheduler waits itself."""

    def __init__(self, readiness: serialization.Readiness) -> None:
        self._readiness = readiness

    def require_ready(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.Busy` if the server declines calls."""
        try:
            self._readiness.require_ready()
        except errors.Declined as error:
            raise errors.Busy(error.message, _PAUSE) from None
