# SPDX-License-Identifier: Apache-2.0
"""The topics of a scheduler."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest

from tests.servers.base import wait_for
from tests.unit.rpc import bus as memory_bus
from tests.unit.rpc import patience
from tonnage.capacity import errors
from tonnage.rpc import contract, messages, serialization, transport
from tonnage.rpc.clients import scheduler_client
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.scheduler_server import JOIN_THREADS, SchedulerServer

HELLO = messages.Hello(backend="h@b", nonce="n", availability_zone="nova", driver="memory")
LISTING = messages.Listing(backend="h@b", epoch=1, tick=1, volumes=[])


class Scheduler:
    """Handles no listing, and no hello of a process with the nonce ``slow``, before the event."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.listings = self.slow_hellos = 0
        self.error: errors.TonnageError | None = None

    def require_ready(self) -> None:
        if self.error is not None:
            raise self.error

    def hello(self, context: Any, message: Any) -> messages.Welcome:
        if message["nonce"] == "slow":
            self.slow_hellos += 1
            assert self.event.wait(60)
        return messages.Welcome(epoch=1)

    def listing(self, context: Any, message: Any) -> messages.Receipt:
        self.listings += 1
        assert self.event.wait(60)
        return messages.Receipt(accepted=True)

    def get_pools(self, context: Any, message: Any) -> list[messages.PoolView]:
        return []


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    patience.with_schedulers(monkeypatch)


@pytest.fixture
def bus() -> Iterator[transport.Transport]:
    with memory_bus.memory_transport(response_timeout=60) as made:
        yield made


@contextlib.contextmanager
def serving(
    bus: transport.Transport, scheduler: Scheduler, readiness: serialization.Readiness | None
) -> Iterator[None]:
    server = SchedulerServer(bus, "one", scheduler, readiness)
    server.start()
    yield
    server.stop()
    server.wait()


def test_requests_do_not_wait_for_joins(bus: transport.Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine may stand still for longer.
    monkeypatch.setattr(scheduler_client, "_RESEND_SECONDS", 60.0)
    scheduler = Scheduler()
    client = SchedulerClient(bus)
    with serving(bus, scheduler, None):
        threads = [
            threading.Thread(target=client.call, args=(contract.LISTING, LISTING)) for _ in range(JOIN_THREADS + 8)
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: scheduler.listings == JOIN_THREADS, "listings to occupy all threads for joins")
        assert client.call(contract.GET_POOLS, messages.PoolQuery()) == []
        assert scheduler.listings == JOIN_THREADS, "the others wait"
        scheduler.event.set()
        for thread in threads:
            thread.join()
    assert scheduler.listings == JOIN_THREADS + 8


def test_a_message_of_a_join_is_sent_once(bus: transport.Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one is more work for a scheduler that has too much already."""
    monkeypatch.setattr(scheduler_client, "_RESEND_SECONDS", 0.05)
    scheduler = Scheduler()
    client = SchedulerClient(bus)
    with serving(bus, scheduler, None), futures.ThreadPoolExecutor(2) as threads:
        answers = [
            threads.submit(client.call, contract.LISTING, LISTING),
            threads.submit(client.call, contract.HELLO, dataclasses.replace(HELLO, nonce="slow")),
        ]
        wait_for(lambda: (scheduler.listings, scheduler.slow_hellos) == (1, 1), "the messages")
        time.sleep(0.5)
        scheduler.event.set()
        for answer in answers:
            answer.result()
    assert (scheduler.listings, scheduler.slow_hellos) == (1, 1)


def test_a_hello_of_an_earlier_release_is_answered(bus: transport.Transport) -> None:
    hello = contract.Method("hello", messages.Hello, messages.Welcome, "without a topic of its own")
    with serving(bus, Scheduler(), None):
        assert SchedulerClient(bus).call(hello, HELLO).epoch == 1


def test_an_agent_comes_back_later_to_a_scheduler_that_is_stuck(bus: transport.Transport) -> None:
    scheduler = Scheduler()
    client = SchedulerClient(bus)
    with serving(bus, scheduler, scheduler):
        scheduler.error = errors.Declined("the database does not answer")
        with pytest.raises(errors.Busy, match=r"^the database does not answer$") as caught:
            client.call(contract.HELLO, HELLO)
        assert caught.value.seconds == 5.0
        scheduler.error = errors.WrongStorage("not that one")
        with pytest.raises(errors.WrongStorage):
            client.call(contract.HELLO, HELLO)
        scheduler.error = None
        assert client.call(contract.HELLO, HELLO).epoch == 1
