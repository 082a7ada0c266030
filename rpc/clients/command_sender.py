# SPDX-License-Identifier: Apache-2.0
"""The client side of the agents' RPC, and the thread that uses it: the decision thread never waits for the bus."""

import itertools
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.capacity import errors
from tonnage.coalescer import Coalescer
from tonnage.rpc import contract
from tonnage.rpc.contract import Message, Method
from tonnage.rpc.messages import Command, Commands, SharedStorages
from tonnage.rpc.transport import TOPIC_AGENT, Peer, Transport
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)


class AgentClient:
    """Casts to the agent of one backend, by the methods in :mod:`tonnage.rpc.contract`.

    There is no answer; agents send outcomes and reports. Only its silence shows that an agent is gone.
    """

    def __init__(self, transport: Transport) -> None:
        self._peer = Peer(transport, TOPIC_AGENT, "agent")

    def cast(self, backend: str, method: Method[Message, None], message: Message) -> None:
        """Send a message to the agent of ``host@backend``.

        An agent takes messages in their order, and runs each claim id once, so that commands may be sent again. Raises
        :class:`~tonnage.capacity.errors.Unavailable` if the message bus cannot be reached.
        """
        self._peer.cast(method, message, backend)


class AgentMessages(Protocol):
    """The messages that the scheduler sends to agents; see :class:`CommandSender`."""

    def run(self, backend: str, command: Command) -> None: ...

    def report_now(self, backend: str) -> None: ...

    def list_now(self, backend: str) -> None: ...

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None: ...

    def rejoin(self, backend: str) -> None: ...


class CommandOwner(Protocol):
    """The scheduler whose commands are sent."""

    def undelivered(self, claim_ids: Sequence[str]) -> None:
        """Have the commands of these claims, which were dropped, sent again later."""


@dataclass(slots=True)
class _Notices:
    """The messages without a command for one backend. Each of the ``methods`` is called once, without a message."""

    methods: dict[Method[None, None], None] = field(default_factory=dict)
    shared_storages: set[str] = field(default_factory=set)


class CommandSender:
    """Sends the messages for each backend together, the commands of a backend in their order.

    In each turn of its :class:`~tonnage.coalescer.Coalescer`, the thread sends each backend one message with commands:
    a message costs more at both ends and at the broker than the commands in it. A lone command is sent at once, and so
    is the next one; after several commands the thread rests, until a message is full.

    Messages that cannot be sent are dropped, so that the queues do not grow while the bus is away. The owner of the
    commands is told on the sender's thread.
    """

    def __init__(self, agents: AgentClient) -> None:
        self._agents = agents
        self._owner: CommandOwner
        # Guards the fields below; notified when the messages of a turn have been sent.
        self._changed = threading.Condition()
        self._commands: Coalescer[Command] = Coalescer()
        self._notices: dict[str, _Notices] = {}
        self._worker = Worker("command-sender", self._take_turn)

    def start(self, owner: CommandOwner) -> None:
        """Start the thread; messages that were queued before are sent now."""
        self._owner = owner
        self._worker.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Send the queued messages, for at most ``timeout`` seconds, and end.

        Schedulers send the commands that are left again when their leases end.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            self._commands.rests = False
        self._worker.wake()
        if self._worker.alive:
            self.wait_idle(timeout)
        self._worker.stop(max(0.0, deadline - time.monotonic()))

    def wait_idle(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until all messages are sent or dropped; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._commands.is_idle, timeout)

    def run(self, backend: str, command: Command) -> None:
        """Queue a command."""
        with self._changed:
            self._queue(backend, command)

    def report_now(self, backend: str) -> None:
        """Queue a request for a report."""
        self._notify(backend, contract.REPORT_NOW)

    def list_now(self, backend: str) -> None:
        """Queue a request for a listing of all volumes."""
        self._notify(backend, contract.LIST_NOW)

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        """Queue the names of storages that the backend shares."""
        with self._changed:
            self._notices.setdefault(backend, _Notices()).shared_storages.update(storage_ids)
            self._queue(backend)

    def rejoin(self, backend: str) -> None:
        """Queue a request for a new hello."""
        self._notify(backend, contract.REJOIN)

    def _notify(self, backend: str, method: Method[None, None]) -> None:
        with self._changed:
            self._notices.setdefault(backend, _Notices()).methods[method] = None
            self._queue(backend)

    def _queue(self, backend: str, *commands: Command) -> None:
        if self._commands.add(*commands, destination=backend):
            self._worker.wake()

    def _take_turn(self) -> float | None:
        """Send the messages of a turn, if it may begin; return the seconds until the next one."""
        with self._changed:
            turn = self._commands.begin()
            if turn is None:
                return self._commands.pause()
            notices, self._notices = self._notices, {}
        self._send(turn.batches, notices)
        with self._changed:
            self._commands.end(turn)
            self._changed.notify_all()
            return self._commands.pause()

    def _send(self, batches: Mapping[str, Sequence[Command]], notices: Mapping[str, _Notices]) -> None:
        """Send the messages of a turn, one backend after another."""
        unsent = dict(batches)
        for backend, commands in batches.items():
            lost: list[Command] = []
            try:
                self._send_notices(backend, notices.get(backend, _Notices()))
                if commands:
                    self._agents.cast(backend, contract.RUN, Commands(commands=list(commands)))
            except Exception as error:
                lost.extend(commands)
                if isinstance(error, errors.Unavailable):
                    # The bus is away. The messages to other backends would fail too, each after some seconds.
                    lost = [*itertools.chain(*unsent.values()), *self._drop_all()]
                LOG.warning("%d command(s) could not be sent to agents and will be again: %s", len(lost), error)
                if lost:
                    self._report_lost([command.claim_id for command in lost])
                if isinstance(error, errors.Unavailable):
                    return
            del unsent[backend]

    def _send_notices(self, backend: str, notices: _Notices) -> None:
        for method in notices.methods:
            self._agents.cast(backend, method, None)
        if notices.shared_storages:
            stamps = SharedStorages(storage_ids=sorted(notices.shared_storages))
            self._agents.cast(backend, contract.TAKE_STAMPS, stamps)

    def _drop_all(self) -> list[Command]:
        """Drop all messages that wait and return their commands."""
        with self._changed:
            self._notices.clear()
            return self._commands.clear()

    def _report_lost(self, claim_ids: list[str]) -> None:
        try:
            self._owner.undelivered(claim_ids)
        except Exception:
            LOG.exception("The loss of %d command(s) could not be recorded", len(claim_ids))
