# SPDX-License-Identifier: Apache-2.0
"""The tap on Cinder's bus: copies of messages, in a queue of its own that costs Cinder nothing.

The queue is exclusive, so it ends with the connection; it is bounded, and the broker drops the oldest messages beyond
the bound. It moves them to a second queue, which keeps one of them: so the tap learns of the loss. The tap declares no
exchange of Cinder's: it waits until Cinder's services have done so.
"""

import contextlib
import itertools
import logging
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import amqp
from kombu import exceptions
from kombu.connection import Connection

from tonnage.extensions.cinder.watch.findings import Cause, Gap

LOG = logging.getLogger(__name__)

#: The beginning of the names of the tap's queues and of the exchange for dropped messages.
QUEUE = "tonnage-cinder-shadow"

#: Messages that the broker sends ahead of their acknowledgement.
_AHEAD = 200

#: Seconds between two tries to connect, and between two heartbeats.
_PAUSE, _HEARTBEAT = 2.0, 30

#: Seconds between two log lines about a bus that is away.
_REMINDER = 60.0

_FAILURES = (OSError, amqp.AMQPError, exceptions.KombuError, ssl.SSLError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message with the exchange and the routing key that it was sent by."""

    exchange: str
    routing_key: str
    body: bytes | str


class BusTap:
    """Receives copies of the messages about capacity. Belongs to one thread.

    ``urls`` are the addresses of the broker's nodes in kombu's form. ``messages`` and ``size`` (bytes) bound the queue.
    """

    def __init__(
        self, urls: list[str], exchange: str, messages: int, size: int, tls: dict[str, Any] | None = None
    ) -> None:
        self._urls, self._exchange, self._tls = itertools.cycle(urls), exchange, tls
        self._bounds = {"x-max-length": messages, "x-max-length-bytes": size, "x-overflow": "drop-head"}
        # kombu's own connection would connect again by itself, without the queue.
        self._connection: amqp.Connection | None = None
        self._received: list[Delivery] = []
        self._dropped = 0
        self._gap: Cause | None = Cause.START
        self._retry_at = 0.0
        # The time from which on the next failure is logged.
        self._reminder_at = 0.0

    def receive(self, seconds: float) -> list[Delivery | Gap]:
        """Return the messages that arrive within so many seconds, soon after the first of them, with the gaps."""
        if self._connection is None and not self._connect(seconds):
            return []
        connection = self._connection
        assert connection is not None  # noqa: S101  -- _connect() has set it
        try:
            with contextlib.suppress(socket.timeout):
                connection.drain_events(timeout=seconds)
                while len(self._received) < _AHEAD:
                    connection.drain_events(timeout=0.001)
            connection.heartbeat_tick()
        except _FAILURES as error:
            LOG.warning("The connection to the message bus is lost, and messages are missed: %s", error)
            self.close()
            self._gap = Cause.CONNECTION
        received, self._received = self._received, []
        return [*self._gaps(), *received]

    def _gaps(self) -> Iterator[Gap]:
        """Return the gaps before the messages that have just been received, as the broker drops the oldest ones."""
        cause, self._gap = self._gap, None
        if cause is not None:
            yield Gap(cause)
        dropped, self._dropped = self._dropped, 0
        if dropped:
            yield Gap(Cause.QUEUE, dropped)

    @property
    def is_connected(self) -> bool:
        """Return whether messages arrive."""
        return self._connection is not None

    def close(self) -> None:
        """End the connection, and the queue with it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*_FAILURES):
                connection.close()
            connection.collect()

    def _connect(self, seconds: float) -> bool:
        """Connect and bind; return whether that succeeded. Waits at most ``seconds`` between two tries."""
        if (wait := self._retry_at - time.monotonic()) > 0:
            time.sleep(min(wait, seconds))
            return False
        self._retry_at = time.monotonic() + _PAUSE
        connection = Connection(
            next(self._urls),
            heartbeat=_HEARTBEAT,
            connect_timeout=10,
            # Without this key kombu does not compare the broker's name with its certificate.
            ssl={**self._tls, "server_hostname": None} if self._tls else False,
        )
        try:
            connected = connection.connect()
            channel = connected.channel()
            channel.basic_qos(0, _AHEAD, False)
            queue = f"{QUEUE}_{uuid.uuid4().hex}"
            lost = f"{queue}_lost"
            channel.exchange_declare(lost, "fanout", durable=False, auto_delete=True)
            channel.queue_declare(
                lost, exclusive=True, auto_delete=True, arguments={"x-max-length": 1, "x-overflow": "drop-head"}
            )
            channel.queue_bind(lost, lost)
            channel.queue_declare(
                queue, exclusive=True, auto_delete=True, arguments={**self._bounds, "x-dead-letter-exchange": lost}
            )
            channel.basic_consume(lost, callback=self._note_lost)
            for exchange, key in self._bindings():
                channel.queue_bind(queue, exchange, routing_key=key)
            channel.basic_consume(queue, callback=self._take)
        except _FAILURES as error:
            self._log(connection, error)
            with contextlib.suppress(*_FAILURES):
                connection.close()
            return False
        self._connection, self._reminder_at = connected, 0.0
        LOG.info("The message bus of Cinder is tapped")
        return True

    def _log(self, connection: Connection, error: Exception) -> None:
        """Log a failure to connect, once a minute."""
        if time.monotonic() < self._reminder_at:
            return
        self._reminder_at = time.monotonic() + _REMINDER
        LOG.warning(
            "The message bus of Cinder at %s cannot be tapped, and is tried again: %s; the address and the account are "
            "in [cinder_shadow] transport_url, the name of Cinder's exchange, %s, in control_exchange",
            connection.as_uri(),
            error,
            self._exchange,
        )

    def _bindings(self) -> Iterator[tuple[str, str]]:
        yield self._exchange, "cinder-scheduler"
        yield self._exchange, "cinder-volume.#"
        yield "cinder-scheduler_fanout", ""

    def _take(self, message: Any) -> None:
        info = message.delivery_info
        self._received.append(Delivery(exchange=info["exchange"], routing_key=info["routing_key"], body=message.body))
        message.channel.basic_ack(message.delivery_tag)

    def _note_lost(self, message: Any) -> None:
        self._dropped += 1
        message.channel.basic_ack(message.delivery_tag)
