# SPDX-License-Identifier: Apache-2.0
"""What schedulers tell agents. Nothing is answered; agents send outcomes, listings and reports in their own time."""

from collections.abc import Callable, Sequence

from tonnage.rpc import messages, versions
from tonnage.rpc.base_client import Peer
from tonnage.rpc.messages import Verb
from tonnage.rpc.transport import TOPIC_AGENT, Transport

#: What agents of the first version can be told to do.
_FIRST_VERBS = frozenset({Verb.CREATE, Verb.EXTEND, Verb.DELETE})

#: What came with version 1.1.
_TOGETHER = "1.1"


class AgentClient:
    """Casts to the agent of one backend, ``host@backend``.

    ``version_of`` tells what version of the RPC a backend's agent understands; without it all are taken for old ones.

    Each may raise :class:`~tonnage.capacity.errors.Unavailable` if the message bus cannot be reached, and
    :class:`~tonnage.rpc.versions.NotUnderstood` before anything is sent if it needs a later version than may be sent.
    That an agent is gone shows only in its silence.
    """

    def __init__(self, transport: Transport, version_of: Callable[[str], str] = lambda backend: versions.FIRST) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unknown ``[upgrade_levels] agent``."""
        self._peer = Peer(transport, TOPIC_AGENT, "agent")
        self._cap = versions.Cap(transport.conf, "agent")
        self._version_of = version_of

    def version(self, backend: str) -> str:
        """Return the version of the RPC that may be sent to a backend's agent."""
        return self._cap.of(lambda: self._version_of(backend))

    def run(self, backend: str, command: messages.Command) -> None:
        """Send a command. The agent runs a claim id once, so sending again is safe."""
        self._peer.cast("run", command, self._needed(backend, command), server=backend)

    def run_all(self, backend: str, commands: Sequence[messages.Command]) -> None:
        """Send several commands, which the agent takes in in this order; singly if the agent is too old."""
        if len(commands) > 1 and versions.reaches(self.version(backend), _TOGETHER):
            self._peer.cast("run_all", messages.Commands(commands=list(commands)), _TOGETHER, server=backend)
            return
        needed = [self._needed(backend, command) for command in commands]
        for command, version in zip(commands, needed, strict=True):
            self._peer.cast("run", command, version, server=backend)

    def report_now(self, backend: str) -> None:
        """Ask for a report soon."""
        self._peer.cast("report_now", server=backend)

    def list_now(self, backend: str) -> None:
        """Ask for a list of all volumes soon (since 1.1)."""
        self._require("list_now", backend)
        self._peer.cast("list_now", version=_TOGETHER, server=backend)

    def rejoin(self, backend: str) -> None:
        """Ask for a new hello: the ledger does not know the agent's epoch."""
        self._peer.cast("rejoin", server=backend)

    def _needed(self, backend: str, command: messages.Command) -> str:
        """Return the version that a command came with: an old agent would not do what it says."""
        if command.verb in _FIRST_VERBS and command.source is None and not command.reference:
            return versions.FIRST
        self._require(f"{command.verb} of volume {command.volume_id}", backend)
        return _TOGETHER

    def _require(self, method: str, backend: str) -> None:
        versions.require(_TOGETHER, self.version(backend), method, f"backend {backend}", "agent")
