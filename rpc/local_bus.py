# SPDX-License-Identifier: Apache-2.0
"""The local bus, ``kombu+memory://``: a driver of oslo.messaging that hands messages over directly.

Its servers are in one process. Another process can send to them through :mod:`tonnage.rpc.bus_socket`.

The thread that sends a message gives it to the threads of its server. No thread listens, no queue is polled, and an
answer wakes the thread that waits for it. A message without a server waits until one listens, as on RabbitMQ, at most
for its time to live; one that a server has taken does not expire.
"""

import collections
import itertools
import json
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import msgspec
import oslo_messaging
from oslo_messaging._drivers import base

#: Most messages that wait for a server. The oldest is dropped then.
_MOST_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Packed:
    """Plain builtins as bytes, of which each receiver gets a copy, as from RabbitMQ's driver."""

    data: bytes
    #: A whole number of more than 64 bits is in it. RabbitMQ's driver carries it too, because it writes JSON.
    is_json: bool = False

    @classmethod
    def of(cls, value: Any) -> "Packed":
        """Return builtins packed."""
        try:
            return cls(msgspec.msgpack.encode(value))
        except OverflowError:
            return cls(json.dumps(value).encode(), is_json=True)

    def copy(self) -> Any:
        """Return new builtins with the value."""
        return json.loads(self.data) if self.is_json else msgspec.msgpack.decode(self.data)


@dataclass(frozen=True, slots=True)
class Destination:
    """The servers that get a message: any of a topic, the one of that name, or with ``fanout`` all of the topic."""

    topic: str
    server: str = ""
    fanout: bool = False


class Incoming(base.RpcIncomingMessage):  # type: ignore[misc]
    """A message on its way; ``answer`` gets the reply."""

    def __init__(self, context: Any, message: Any, expires: float, is_call: bool) -> None:
        super().__init__(context, message)
        self.expires = expires
        self.answer: futures.Future[Packed] | None = futures.Future() if is_call else None

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Give the caller, if there is one, the result or the failure, a triple as of ``sys.exc_info()``."""
        if self.answer is None:
            return
        if failure:
            kind, error, trace = failure
            lines = traceback.format_exception(kind, error, trace)
            self.answer.set_exception(oslo_messaging.RemoteError(kind.__name__, str(error), lines))
        else:
            self.answer.set_result(Packed.of(reply))

    def requeue(self) -> None:
        """Do nothing: servers take all messages."""

    def heartbeat(self) -> None:
        """Do nothing: the caller is in this process."""


@dataclass(slots=True)
class _Queue:
    """The listeners of a topic, or of one server on it, which take turns; and the messages that wait for one."""

    listeners: list["Listener"] = field(default_factory=list)
    waiting: collections.deque[Incoming] = field(default_factory=lambda: collections.deque(maxlen=_MOST_WAITING))
    turns: Iterator[int] = field(default_factory=itertools.count)


class Bus:
    """The queues of a process, by topic and server; the server is empty for those of a whole topic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[tuple[str, str], _Queue] = {}

    def send(
        self, destination: Destination, packed: Packed, timeout: float, is_call: bool
    ) -> "futures.Future[Packed] | None":
        """Send a context and a message that live for ``timeout`` seconds; return the future answer of a call."""
        expires = time.monotonic() + timeout

        def make() -> Incoming:
            context, message = packed.copy()
            return Incoming(context, message, expires, is_call)

        if destination.fanout:
            self.put_to_all(destination.topic, make)
            return None
        incoming = make()
        self.put(destination.topic, destination.server, incoming)
        return incoming.answer

    def put(self, topic: str, server: str, incoming: Incoming) -> None:
        """Hand a message to one listener, or keep it until there is one."""
        with self._lock:
            queue = self._queues.setdefault((topic, server), _Queue())
            if queue.listeners:
                queue.listeners[next(queue.turns) % len(queue.listeners)].take(incoming)
            else:
                now = time.monotonic()
                while queue.waiting and queue.waiting[0].expires <= now:
                    queue.waiting.popleft()
                queue.waiting.append(incoming)

    def put_to_all(self, topic: str, make: Callable[[], Incoming]) -> None:
        """Hand a message to all servers of a topic."""
        with self._lock:
            for (of_topic, server), queue in self._queues.items():
                if of_topic == topic and server:
                    for listener in queue.listeners:
                        listener.take(make())

    def join(self, listener: "Listener") -> None:
        """Let a listener take messages, first those that have waited."""
        with self._lock:
            for server in ("", listener.server):
                queue = self._queues.setdefault((listener.topic, server), _Queue())
                queue.listeners.append(listener)
                while queue.waiting:
                    incoming = queue.waiting.popleft()
                    if time.monotonic() < incoming.expires:
                        listener.take(incoming)

    def leave(self, listener: "Listener") -> None:
        """Give a listener no more messages."""
        with self._lock:
            for server in ("", listener.server):
                queue = self._queues.get((listener.topic, server))
                if queue is not None and listener in queue.listeners:
                    queue.listeners.remove(listener)

    def clear(self) -> None:
        """Forget all listeners and messages."""
        with self._lock:
            self._queues.clear()


#: The bus of this process. All transports share it, as they would share a broker.
BUS = Bus()


class Listener(base.Listener):  # type: ignore[misc]
    """A server that takes the messages of its topic, and those to itself."""

    def __init__(self, topic: str, server: str) -> None:
        super().__init__(batch_size=1, batch_timeout=None)
        self.topic, self.server = topic, server

    def start(self, on_incoming_callback: Callable[[Any], None]) -> None:
        """Take messages from now on. The callback hands each to a thread of the server."""
        super().start(on_incoming_callback)
        BUS.join(self)

    def take(self, incoming: Incoming) -> None:
        """Take a message."""
        self.on_incoming_callback([incoming])

    def stop(self) -> None:
        """Take no more messages. Those that were taken are with the threads of the server."""
        BUS.leave(self)
        super().stop()

    def cleanup(self) -> None:
        """Do nothing: there is no connection."""


class LocalDriver(base.BaseDriver):  # type: ignore[misc]
    """The common part of the drivers of the local bus: nobody listens for notifications there."""

    def require_features(self, requeue: bool = False) -> None:
        """Do nothing: no feature is missing."""

    def send_notification(self, target: Any, ctxt: Any, message: Any, version: Any, retry: Any = None) -> None:
        """Send a notification, which nobody reads."""

    def listen_for_notifications(
        self, targets_and_priorities: Any, pool: Any, batch_size: Any, batch_timeout: Any
    ) -> Any:
        """Raise NotImplementedError: nobody listens for notifications."""
        raise NotImplementedError("nobody listens for notifications on a local bus")


class Driver(LocalDriver):
    """The driver of oslo.messaging for the bus of this process."""

    _is_closed = False

    def send(
        self,
        target: Any,
        ctxt: Any,
        message: Any,
        wait_for_reply: Any = None,
        timeout: Any = None,
        call_monitor_timeout: Any = None,
        retry: Any = None,
        transport_options: Any = None,
    ) -> Any:
        """Send a message that lives for ``timeout`` seconds, and return the reply if it is waited for.

        Raises ``MessagingTimeout`` if there is no reply within ``timeout`` seconds, and ``MessageDeliveryFailure`` once
        the transport is closed.
        """
        if self._is_closed:
            raise oslo_messaging.MessageDeliveryFailure("the transport is closed")
        destination = Destination(target.topic, target.server or "", bool(target.fanout))
        answer = BUS.send(destination, Packed.of((ctxt, message)), timeout, bool(wait_for_reply))
        return None if answer is None else answer_within(timeout, answer, target.topic)

    def listen(self, target: Any, batch_size: Any, batch_timeout: Any) -> Listener:
        """Return a listener for a server."""
        return Listener(target.topic, target.server)

    def cleanup(self) -> None:
        """Send no more messages."""
        self._is_closed = True


def answer_within(timeout: float, answer: "futures.Future[Packed]", topic: str) -> Any:
    """Return an answer from a topic. Raises ``MessagingTimeout`` if there is none within ``timeout`` seconds."""
    try:
        return answer.result(timeout).copy()
    except futures.TimeoutError:
        raise oslo_messaging.MessagingTimeout(f"no reply on topic {topic}") from None
