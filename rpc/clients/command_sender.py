# SPDX-License-Identifier: Apache-2.0
"""The client side of the agents' RPC, and the thread that uses it: the decision thread never waits for the bus."""

import collections
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.capacity import errors
from tonnage.rpc.messages import Command, Commands, SharedStorages
from tonnage.rpc.transport import TOPIC_AGENT, Peer, Transport
from tonnage.worker import Worker, rest_after

LOG = logging.getLogger(__name__)

#: Largest number of commands in one message.
_MAX_BATCH = 64


class AgentClient:
    """Casts to the agent of one backend, ``host@backend``. There is no answer; agents send outcomes and reports.

    Each may raise :class:`~tonnage.capacity.errors.Unavailable` if the message bus cannot be reached. Only its silence
    shows that an agent is gone.
    """

    def __init__(self, transport: Transport) -> None:
        self._peer = Peer(transport, TOPIC_AGENT, "agent")

    def run(self, backend: str, commands: Sequence[Command]) -> None:
        """Send commands, which the agent takes in this order. It runs a claim id once, so sending again is safe."""
        self._peer.cast("run", Commands(commands=list(commands)), server=backend)

    def report_now(self, backend: str) -> None:
        """Ask for a report soon."""
        self._peer.cast("report_now", server=backend)

    def list_now(self, backend: str) -> None:
        """Ask for a list of all volumes soon."""
        self._peer.cast("list_now", server=backend)

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        """Tell a backend which storages it shares with others, so that it takes stamps before each look at them."""
        self._peer.cast("take_stamps", SharedStorages(storage_ids=list(storage_ids)), server=backend)

    def rejoin(self, backend: str) -> None:
        """Ask for a new hello: the ledger does not know the agent's epoch."""
        self._peer.cast("rejoin", server=backend)


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
class _Queue:
    """The messages that wait for one backend. ``notices`` are names of methods; each is sent once."""

    commands: collections.deque[Command] = field(default_factory=collections.deque)
    notices: dict[str, None] = field(default_factory=dict)
    shared_storages: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The messages that are sent to one backend at a time."""

    backend: str
    notices: Sequence[str]
    shared_storages: Sequence[str]
    commands: Sequence[Command]


class CommandSender:
    """Sends the messages for each backend together, the commands of a backend in their order.

    The thread sends all messages that wait, one for each backend, and then rests as :func:`~tonnage.worker.rest_after`
    says: a message costs more at both ends and at the broker than the commands in it. A full message ends the rest. A
    lone command is sent at once, and so is the next one.

    Messages that cannot be sent are dropped, so that the queues do not grow while the bus is away. The owner of the
    commands is told on the sender's thread.
    """

    def __init__(self, agents: AgentClient) -> None:
        self._agents = agents
        self._owner: CommandOwner
        # Guards the fields below; notified when a batch has been sent.
        self._changed = threading.Condition()
        # In the order of the backends' turns.
        self._queues: dict[str, _Queue] = {}
        # The end of the rest.
        self._due = 0.0
        self._sending = False
        self._closing = False
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
            self._closing = True
        self._worker.wake()
        if self._worker.alive:
            self.wait_idle(timeout)
        self._worker.stop(max(0.0, deadline - time.monotonic()))

    def wait_idle(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until all messages are sent or dropped; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queues and not self._sending, timeout)

    def run(self, backend: str, command: Command) -> None:
        """Queue a command."""
        with self._changed:
            waiting = self._queue(backend).commands
            waiting.append(command)
            if len(waiting) == _MAX_BATCH:
                self._worker.wake()

    def report_now(self, backend: str) -> None:
        """Queue a request for a report."""
        self._notify(backend, "report_now")

    def list_now(self, backend: str) -> None:
        """Queue a request for a listing of all volumes."""
        self._notify(backend, "list_now")

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        """Queue the names of storages that the backend shares."""
        with self._changed:
            self._queue(backend).shared_storages.update(storage_ids)

    def rejoin(self, backend: str) -> None:
        """Queue a request for a new hello."""
        self._notify(backend, "rejoin")

    def _notify(self, backend: str, method: str) -> None:
        with self._changed:
            self._queue(backend).notices[method] = None

    def _queue(self, backend: str) -> _Queue:
        """Return the queue of a backend. Only a new queue wakes the worker: later messages share its turn."""
        queue = self._queues.get(backend)
        if queue is None:
            queue = self._queues[backend] = _Queue()
            self._worker.wake()
        return queue

    def _take_turn(self) -> float | None:
        """Send all messages that wait, unless the thread rests; return the seconds until the rest ends."""
        with self._changed:
            ends = self._closing or any(len(queue.commands) >= _MAX_BATCH for queue in self._queues.values())
            rest = 0.0 if ends else self._due - time.monotonic()
        if rest <= 0.0:
            began = time.monotonic()
            rest = rest_after(self._send_all(), time.monotonic() - began)
            with self._changed:
                self._due = time.monotonic() + rest
        return rest if rest > 0.0 else None

    def _send_all(self) -> int:
        """Send messages, one backend after another, until none wait; return the number of commands in them."""
        number = 0
        while (batch := self._next_batch()) is not None:
            number += len(batch.commands)
            lost: list[str] = []
            try:
                if batch.notices or batch.shared_storages:
                    self._send_notices(batch)
                if batch.commands:
                    self._agents.run(batch.backend, batch.commands)
            except Exception as error:
                lost = [command.claim_id for command in batch.commands]
                if isinstance(error, errors.Unavailable):
                    # The bus is away. The messages to other backends would fail too, each after some seconds.
                    lost += self._drop_all()
                LOG.warning("%d command(s) could not be sent to agents and will be again: %s", len(lost), error)
            if lost:
                self._report_lost(lost)
            with self._changed:
                self._sending = False
                self._changed.notify_all()
        return number

    def _next_batch(self) -> _Batch | None:
        """Return the messages to the backend whose turn it is, None if none wait."""
        with self._changed:
            if not self._queues:
                return None
            backend = next(iter(self._queues))
            queue = self._queues.pop(backend)
            commands = [queue.commands.popleft() for _ in range(min(_MAX_BATCH, len(queue.commands)))]
            if queue.commands:
                self._queues[backend] = _Queue(queue.commands)  # at the end: the other backends have their turns first
            self._sending = True
            return _Batch(backend, list(queue.notices), sorted(queue.shared_storages), commands)

    def _send_notices(self, batch: _Batch) -> None:
        for notice in batch.notices:
            getattr(self._agents, notice)(batch.backend)
        if batch.shared_storages:
            self._agents.take_stamps(batch.backend, batch.shared_storages)

    def _drop_all(self) -> list[str]:
        """Drop all queues and return the claim ids of their commands."""
        with self._changed:
            queues, self._queues = self._queues, {}
        return [command.claim_id for queue in queues.values() for command in queue.commands]

    def _report_lost(self, claim_ids: list[str]) -> None:
        try:
            self._owner.undelivered(claim_ids)
        except Exception:
            LOG.exception("The loss of %d command(s) could not be recorded", len(claim_ids))
