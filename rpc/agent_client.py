# SPDX-License-Identifier: Apache-2.0
"""The client side of the agents' RPC. Nothing is answered; agents send outcomes, listings and reports by themselves."""

from collections.abc import Sequence

from tonnage.rpc import messages
from tonnage.rpc.base_client import Peer
from tonnage.rpc.transport import TOPIC_AGENT, Transport


class AgentClient:
    """Casts to the agent of one backend, ``host@backend``.

    Each may raise :class:`~tonnage.capacity.errors.Unavailable` if the message bus cannot be reached. Only its silence
    shows that an agent is gone.
    """

    def __init__(self, transport: Transport) -> None:
        self._peer = Peer(transport, TOPIC_AGENT, "agent")

    def run(self, backend: str, commands: Sequence[messages.Command]) -> None:
        """Send commands, which the agent takes in this order. It runs a claim id once, so sending again is safe."""
        self._peer.cast("run", messages.Commands(commands=list(commands)), server=backend)

    def report_now(self, backend: str) -> None:
        """Ask for a report soon."""
        self._peer.cast("report_now", server=backend)

    def list_now(self, backend: str) -> None:
        """Ask for a list of all volumes soon."""
        self._peer.cast("list_now", server=backend)

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        """Tell a backend which storages it shares with others, so that it takes stamps before each look at them."""
        self._peer.cast("take_stamps", messages.SharedStorages(storage_ids=list(storage_ids)), server=backend)

    def rejoin(self, backend: str) -> None:
        """Ask for a new hello: the ledger does not know the agent's epoch."""
        self._peer.cast("rejoin", server=backend)
