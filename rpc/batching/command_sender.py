# SPDX-License-Identifier: Apache-2.0
"""Messages to agents, sent by a thread of their own: whoever hands one over never waits for the bus."""

import collections
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.capacity import errors
from tonnage.rpc.agent_client import AgentClient
from tonnage.rpc.messages import Command

LOG = logging.getLogger(__name__)

#: Most commands that travel in one message.
_MOST = 64

#: Seconds between two messages to a backend in which what comes meanwhile gathers.
COMPANY = 0.4


class Messenger(Protocol):
    """The interface of :class:`Courier` to those that tell agents something."""

    def run(self, backend: str, command: Command) -> None: ...

    def report_now(self, backend: str) -> None: ...

    def list_now(self, backend: str) -> None: ...

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None: ...

    def rejoin(self, backend: str) -> None: ...


@dataclass(slots=True)
class _Bag:
    """What waits for one backend. Of several errands of a kind one is enough."""

    commands: collections.deque[Command] = field(default_factory=collections.deque)
    errands: dict[str, None] = field(default_factory=dict)
    shared_storages: set[str] = field(default_factory=set)


class Courier:
    """Gathers what waits for each backend and sends it together, a backend's commands in the order they came.

    What comes after a quiet time goes at once. What follows waits for as many seconds since then as ``company`` tells:
    at both ends and at the broker a message costs more than the commands that it carries.

    What cannot be sent is dropped, so that nothing piles up while the bus is away: ``lost``, called on the courier's
    thread, gets the claim ids of those commands, to have them sent again later.
    """

    def __init__(
        self,
        agents: AgentClient,
        lost: Callable[[Sequence[str]], None],
        company: Callable[[], float] = lambda: COMPANY,
    ) -> None:
        self._agents = agents
        self._lost = lost
        self._company = company
        self._changed = threading.Condition()
        # In the order in which the backends' turns come.
        self._bags: dict[str, _Bag] = {}
        # When each backend may be told something again.
        self._rests: dict[str, float] = {}
        self._busy = False
        self._stopping = False
        self._thread = threading.Thread(target=self._deliver, name="courier", daemon=True)

    def start(self) -> None:
        """Begin to send; what was handed over before waits for this."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Send what waits, for ``timeout`` seconds at most, and end. What is left others send again after a lease."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def idle(self, timeout: float) -> bool:
        """Wait until everything has been sent or dropped; tell whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._bags and not self._busy, timeout)

    def run(self, backend: str, command: Command) -> None:
        """Have a command sent."""
        with self._changed:
            waiting = self._bag(backend).commands
            waiting.append(command)
            if len(waiting) == _MOST:
                self._changed.notify_all()

    def report_now(self, backend: str) -> None:
        """Have a backend asked for a report."""
        self._errand(backend, "report_now")

    def list_now(self, backend: str) -> None:
        """Have a backend asked for a list of all volumes."""
        self._errand(backend, "list_now")

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        """Have a backend told which storages it shares."""
        with self._changed:
            self._bag(backend).shared_storages.update(storage_ids)

    def rejoin(self, backend: str) -> None:
        """Have a backend asked for a new hello."""
        self._errand(backend, "rejoin")

    def _errand(self, backend: str, method: str) -> None:
        with self._changed:
            self._bag(backend).errands[method] = None

    def _bag(self, backend: str) -> _Bag:
        """Return what waits for a backend. Only what is the first wakes the courier: the rest goes with that."""
        bag = self._bags.get(backend)
        if bag is None:
            bag = self._bags[backend] = _Bag()
            self._changed.notify_all()
        return bag

    def _deliver(self) -> None:
        while (found := self._next()) is not None:
            backend, bag, commands = found
            lost: list[str] = []
            try:
                self._hand_over(backend, bag, commands)
            except Exception as error:
                lost = [command.claim_id for command in commands]
                if isinstance(error, errors.Unavailable):
                    # The bus is away. The others' messages would fail in turn, each after some seconds.
                    lost += self._drop()
                LOG.warning("%d command(s) could not be sent to agents and will be again: %s", len(lost), error)
            self._tell(lost)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> tuple[str, _Bag, list[Command]] | None:
        with self._changed:
            while (backend := self._due()) is None:
                if self._stopping and not self._bags:
                    return None
                pause = min((self._rests[each] for each in self._bags), default=None)
                self._changed.wait(None if pause is None else max(0.0, pause - time.monotonic()))
            bag = self._bags.pop(backend)
            self._rests[backend] = time.monotonic() + self._company()
            commands = [bag.commands.popleft() for _ in range(min(_MOST, len(bag.commands)))]
            if bag.commands:
                self._bags[backend] = _Bag(bag.commands)  # its next turn comes after the others'
            self._busy = True
            return backend, bag, commands

    def _due(self) -> str | None:
        """Return the backend whose turn it is."""
        now = time.monotonic()
        for backend, bag in self._bags.items():
            if self._stopping or len(bag.commands) >= _MOST or self._rests.get(backend, now) <= now:
                return backend
        return None

    def _hand_over(self, backend: str, bag: _Bag, commands: list[Command]) -> None:
        for errand in bag.errands:
            getattr(self._agents, errand)(backend)
        if bag.shared_storages:
            self._agents.take_stamps(backend, sorted(bag.shared_storages))
        if commands:
            self._agents.run(backend, commands)

    def _drop(self) -> list[str]:
        with self._changed:
            bags, self._bags = self._bags, {}
        return [command.claim_id for bag in bags.values() for command in bag.commands]

    def _tell(self, lost: list[str]) -> None:
        if not lost:
            return
        try:
            self._lost(lost)
        except Exception:
            LOG.exception("Nobody took note of %d command(s) that could not be sent", len(lost))
