# SPDX-License-Identifier: Apache-2.0
"""What schedulers tell agents. Nothing is answered; agents send outcomes, listings and reports in their own time."""

from tonnage.rpc import messages
from tonnage.rpc.peer import Peer
from tonnage.rpc.transport import TOPIC_AGENT
from tonnage.rpc.transport import Transport


class AgentClient:
    """Casts to the agent of one backend, ``host@backend``.

    Each may raise :class:`~tonnage.capacity.errors.Unavailable` if the message bus cannot be reached. That an agent is
    gone shows only in its silence.
    """

    def __init__(self, transport: Transport) -> None:
        self._peer = Peer(transport, TOPIC_AGENT, "agent")

    def run(self, backend: str, command: messages.Command) -> None:
        """Send a command. The agent runs a claim id once, so sending again is safe."""
        self._peer.cast("run", command, server=backend)

    def report_now(self, backend: str) -> None:
        """Ask for a report soon."""
        self._peer.cast("report_now", server=backend)

    def rejoin(self, backend: str) -> None:
        """Ask for a new hello: the ledger does not know the agent's epoch."""
        self._peer.cast("rejoin", server=backend)
