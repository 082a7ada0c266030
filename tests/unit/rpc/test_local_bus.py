# SPDX-License-Identifier: Apache-2.0
import gc
import threading
import time
import uuid
from collections.abc import Iterator

import kombu
import pytest

from tonnage.rpc import local_bus


@pytest.fixture
def connection() -> Iterator[kombu.Connection]:
    local_bus.install()
    with kombu.Connection("memory://") as connection:
        assert isinstance(connection.transport, local_bus.Transport)
        # oslo.messaging does so, which has kombu's own transport spin.
        connection.transport.polling_interval = 0.0
        yield connection


def consumer(connection: kombu.Connection, got: list[object]) -> kombu.Consumer:
    queue = kombu.Queue(uuid.uuid4().hex, kombu.Exchange(uuid.uuid4().hex, type="direct"), routing_key="x")
    return kombu.Consumer(connection, queue, callbacks=[lambda body, message: got.append(body)], no_ack=True)


def test_waiting_costs_no_processor_time(connection: kombu.Connection) -> None:
    with consumer(connection, []):
        gc.collect()
        gc.disable()  # what other tests have left is not to be collected here
        try:
            used = time.thread_time()
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.5)
            used = time.thread_time() - used
        finally:
            gc.enable()
        assert used < 0.25


def test_a_message_ends_the_wait(connection: kombu.Connection) -> None:
    got: list[object] = []
    with consumer(connection, got) as receiving:
        queue = receiving.queues[0]

        def send() -> None:
            with kombu.Connection("memory://") as other:
                kombu.Producer(other).publish(
                    {"size": 2}, exchange=queue.exchange, routing_key="x", declare=[queue.exchange, queue]
                )

        timer = threading.Timer(0.2, send)
        timer.start()
        connection.drain_events(timeout=30)
        timer.join()
    assert got == [{"size": 2}]
