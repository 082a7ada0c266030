# SPDX-License-Identifier: Apache-2.0
"""The bus within one process: who gets a message, when, and what comes back."""

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest

from tests.unit.agent.fakes import eventually
from tests.unit.rpc import bus as memory_bus
from tonnage.rpc import transport

TOPIC = "storage"


class Store:
    """A server that keeps what it got, answers with it, and fails where it is told to."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def put(self, context: object, value: Any) -> Any:
        self.may_answer.wait(30)
        self.values.append(value)
        return value

    def fail(self, context: object) -> None:
        raise ZeroDivisionError("no pools")


@pytest.fixture
def bus() -> Iterator[transport.Transport]:
    with memory_bus.memory_transport() as bus:
        yield bus


@contextlib.contextmanager
def serving(bus: transport.Transport, name: str, endpoint: object, threads: int = 1) -> Iterator[None]:
    server = oslo_messaging.get_rpc_server(bus, oslo_messaging.Target(topic=TOPIC, server=name), [endpoint])
    server.start(override_pool_size=threads)
    try:
        yield
    finally:
        server.stop()
        server.wait()


def client(bus: transport.Transport, **target: Any) -> Any:
    made = oslo_messaging.get_rpc_client(bus, oslo_messaging.Target(topic=TOPIC))
    return made.prepare(**target) if target else made


def test_an_answer_comes_back_as_a_copy(bus: transport.Transport) -> None:
    store, sent = Store(), {"pools": [1, (2, 3)], "free": math.inf}
    with serving(bus, "one", store):
        answer = client(bus).call({}, "put", value=sent)
    assert answer == store.values[0] == {"pools": [1, [2, 3]], "free": math.inf}
    assert answer is not store.values[0] is not sent


def test_not_a_number_stays_so(bus: transport.Transport) -> None:
    with serving(bus, "one", Store()):
        assert math.isnan(client(bus).call({}, "put", value=math.nan))


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400])
def test_whole_numbers_have_any_size(bus: transport.Transport, number: int) -> None:
    """RabbitMQ's driver carries them too."""
    with serving(bus, "one", Store()):
        assert client(bus).call({}, "put", value={"number": number}) == {"number": number}


def test_a_failure_names_its_class(bus: transport.Transport) -> None:
    with serving(bus, "one", Store()), pytest.raises(oslo_messaging.RemoteError, match="no pools") as caught:
        client(bus).call({}, "fail")
    assert caught.value.exc_type == "ZeroDivisionError"


def test_a_call_without_a_server_or_an_answer_ends(bus: transport.Transport) -> None:
    with pytest.raises(oslo_messaging.MessagingTimeout, match="no reply on topic storage"):
        client(bus, timeout=0.1).call({}, "put", value=1)
    store = Store()
    store.may_answer.clear()
    with serving(bus, "one", store):
        with pytest.raises(oslo_messaging.MessagingTimeout):
            client(bus, timeout=0.1).call({}, "put", value=2)
        store.may_answer.set()
    assert store.values == [2], "the first call had expired"


def test_a_transport_sends_nothing_after_its_cleanup(bus: transport.Transport) -> None:
    store = Store()
    with serving(bus, "one", store):
        bus.cleanup()
        with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="the transport is closed"):
            client(bus).call({}, "put", value=1)
    assert store.values == []


def test_messages_wait_for_their_server_in_order(bus: transport.Transport) -> None:
    for value in range(5):
        client(bus, server="one").cast({}, "put", value=value)
    other, store = Store(), Store()
    with serving(bus, "other", other), serving(bus, "one", store):
        eventually(lambda: len(store.values) == 5)
    assert (store.values, other.values) == ([0, 1, 2, 3, 4], [])


def test_servers_of_a_topic_take_turns_and_a_fanout_reaches_all(bus: transport.Transport) -> None:
    stores = [Store(), Store()]
    client(bus, fanout=True).cast({}, "put", value="nobody")
    with serving(bus, "one", stores[0]), serving(bus, "two", stores[1]):
        for value in range(4):
            client(bus).call({}, "put", value=value)
        client(bus, fanout=True).cast({}, "put", value="all")
        eventually(lambda: all("all" in store.values for store in stores))
    assert [store.values for store in stores] == [[0, 2, "all"], [1, 3, "all"]]


def test_a_server_that_stops_finishes_what_it_took_and_leaves_the_rest(bus: transport.Transport) -> None:
    store = Store()
    store.may_answer.clear()
    with serving(bus, "one", store):
        for value in range(3):
            client(bus).cast({}, "put", value=value)
        threading.Timer(0.2, store.may_answer.set).start()
    client(bus).cast({}, "put", value=3)
    assert store.values == [0, 1, 2]
    with serving(bus, "two", store):
        eventually(lambda: store.values == [0, 1, 2, 3])
