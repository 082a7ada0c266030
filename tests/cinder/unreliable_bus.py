# SPDX-License-Identifier: Apache-2.0
"""A bus that delivers requests to Cinder's schedulers late, twice, and in another order."""

import contextlib
import heapq
import itertools
import json
import random
import re
import threading
import time
import uuid
from typing import Any, Self

from kombu.connection import Connection

_EXCHANGE, _TOPIC = "openstack", "cinder-scheduler"


class UnreliableBus:
    """Stands between senders and the queue of the schedulers, and holds some requests. A context manager.

    A scheduler that connects again binds its queue for a moment: then a message and its copy are delivered. Other
    copies have an id of their own, because oslo.messaging drops a message whose id it has just seen.
    """

    def __init__(self, url: str, seed: int) -> None:
        self._url = re.sub("^rabbit:", "amqp:", url)
        self._chance = random.Random(seed)
        self._held: list[tuple[float, int, str, dict[str, Any]]] = []
        self._numbers = itertools.count()
        self._ended, self._flushing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.passed = self.late = self.doubled = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def flush(self) -> None:
        """Deliver all that is held, and deliver everything at once from now on."""
        self._flushing.set()
        while self._held:
            time.sleep(0.1)

    def _run(self) -> None:
        while not self._ended.is_set():
            # The broker is killed now and then, and the queue of the schedulers is away until they connect again.
            with contextlib.suppress(Exception), Connection(self._url, connect_timeout=2) as connection:
                self._serve(connection)
            self._ended.wait(0.2)

    def _serve(self, connection: Connection) -> None:
        channel = connection.channel()
        mine = channel.queue_declare(queue="", exclusive=True, auto_delete=True).queue
        channel.queue_declare(_TOPIC, passive=True)
        channel.queue_bind(mine, _EXCHANGE, routing_key=_TOPIC)
        channel.basic_consume(mine, callback=self._receive, no_ack=True)
        while not self._ended.is_set():
            channel.queue_unbind(_TOPIC, _EXCHANGE, routing_key=_TOPIC)
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.1)
            while self._held and (self._flushing.is_set() or self._held[0][0] <= time.monotonic()):
                channel.queue_declare(_TOPIC, passive=True)
                _, _, body, properties = self._held[0]
                channel.basic_publish(channel.prepare_message(body, **properties), "", _TOPIC)
                heapq.heappop(self._held)
        channel.queue_bind(_TOPIC, _EXCHANGE, routing_key=_TOPIC)

    def _receive(self, message: Any) -> None:
        body = message.body if isinstance(message.body, str) else bytes(message.body).decode()
        is_call = "_msg_id" in json.loads(json.loads(body)["oslo.message"])
        fate = 1.0 if is_call or self._flushing.is_set() else self._chance.random()
        self.passed += 1
        late = fate < 0.1 or 0.2 <= fate < 0.3
        self.late += late
        self._hold(message, body, self._chance.uniform(0.5, 10) if late else 0.0)
        if fate < 0.2:
            self.doubled += 1
            self._hold(message, _as_new(body), self._chance.choice((0.0, 0.0, 1.0)) * self._chance.uniform(0, 40))

    def _hold(self, message: Any, body: str, seconds: float) -> None:
        properties = {
            "content_type": message.properties.get("content_type"),
            "content_encoding": message.properties.get("content_encoding"),
        }
        heapq.heappush(self._held, (time.monotonic() + seconds, next(self._numbers), body, properties))


def lose_requests(url: str) -> None:
    """Remove the requests that wait for a scheduler; there is one at least."""
    with Connection(re.sub("^rabbit:", "amqp:", url)) as connection:
        assert connection.channel().queue_purge(_TOPIC) > 0


def _as_new(body: str) -> str:
    """Return a copy of a message with an id of its own."""
    envelope = json.loads(body)
    inner = json.loads(envelope["oslo.message"])
    inner["_unique_id"] = uuid.uuid4().hex
    return json.dumps({**envelope, "oslo.message": json.dumps(inner)})
