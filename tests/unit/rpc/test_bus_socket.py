# SPDX-License-Identifier: Apache-2.0
"""The local bus for another process: messages and answers pass a pair of sockets."""

import math
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import oslo_messaging
import pytest

from tests.unit.agent.fakes import eventually
from tests.unit.rpc import bus as memory_bus
from tonnage.rpc import transport
from tonnage.rpc.bus_socket import Gateway
from tonnage.rpc.local_bus import BUS

TOPIC = "storage"


@dataclass
class Store:
    """A server that keeps the values of its messages, and answers with them once it may."""

    values: list[Any] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)

    def put(self, context: object, value: Any) -> Any:
        self.values.append(value)
        self.may_answer.wait(30)
        return value

    def fail(self, context: object) -> None:
        raise ZeroDivisionError("no pools")


@pytest.fixture
def store() -> Store:
    store = Store()
    store.may_answer.set()
    return store


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    yield near, far
    near.close()
    far.close()


@pytest.fixture
def remote(sockets: tuple[socket.socket, socket.socket], store: Store) -> Iterator[transport.Transport]:
    """The transport of the other process; the store serves on the bus."""
    with memory_bus.memory_transport() as bus:
        server = oslo_messaging.get_rpc_server(bus, oslo_messaging.Target(topic=TOPIC, server="one"), [store])
        server.start(override_pool_size=2)
        gateway = Gateway(sockets[0])
        gateway.start()
        remote = transport.create(bus.conf, sockets[1])
        yield remote
        remote.cleanup()
        gateway.stop()
        server.stop()
        server.wait()


def client(remote: transport.Transport, **target: Any) -> Any:
    made = oslo_messaging.get_rpc_client(remote, oslo_messaging.Target(topic=TOPIC))
    return made.prepare(**target) if target else made


@pytest.mark.parametrize("value", [{"pools": [1, "größer", None, 1.5, math.inf]}, 2**64, -(2**63) - 1])
def test_an_answer_comes_back(remote: transport.Transport, store: Store, value: Any) -> None:
    assert client(remote).call({}, "put", value=value) == value
    assert store.values == [value]


def test_a_message_may_be_larger_than_the_buffers_of_the_sockets(remote: transport.Transport) -> None:
    value = "v" * 5_000_000
    is_same = client(remote).call({}, "put", value=value) == value
    assert is_same


def test_calls_of_many_threads_get_their_own_answers(remote: transport.Transport) -> None:
    answers: dict[int, Any] = {}

    def call(number: int) -> None:
        answers[number] = client(remote).call({}, "put", value=number)

    threads = [threading.Thread(target=call, args=[number]) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: number for number in range(32)}


def test_a_failure_names_its_class(remote: transport.Transport) -> None:
    with pytest.raises(oslo_messaging.RemoteError, match="no pools") as caught:
        client(remote).call({}, "fail")
    assert caught.value.exc_type == "ZeroDivisionError"


def test_a_call_without_an_answer_ends_and_its_late_answer_is_dropped(
    remote: transport.Transport, store: Store
) -> None:
    store.may_answer.clear()
    with pytest.raises(oslo_messaging.MessagingTimeout, match="no reply on topic storage"):
        client(remote, timeout=0.1).call({}, "put", value=1)
    store.may_answer.set()
    assert client(remote).call({}, "put", value=2) == 2


@pytest.mark.parametrize("target", [{"fanout": True}, {"server": "one"}], ids=["fanout", "server"])
def test_a_cast_reaches_its_servers(remote: transport.Transport, store: Store, target: dict[str, Any]) -> None:
    client(remote, **target).cast({}, "put", value="cast")
    eventually(lambda: store.values == ["cast"])


def test_the_probe_of_the_bus_passes(remote: transport.Transport) -> None:
    remote.probe()


def test_a_closed_transport_and_the_end_of_the_other_process_fail_calls(
    remote: transport.Transport, sockets: tuple[socket.socket, socket.socket]
) -> None:
    sockets[0].shutdown(socket.SHUT_RDWR)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="the process with the message bus"):
        client(remote).call({}, "put", value=1)
    remote.cleanup()
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="the transport is closed"):
        client(remote).call({}, "put", value=1)


def test_a_call_ends_with_the_other_process(
    remote: transport.Transport, store: Store, sockets: tuple[socket.socket, socket.socket]
) -> None:
    store.may_answer.clear()
    failures: list[Exception] = []

    def call() -> None:
        try:
            client(remote, timeout=60).call({}, "put", value=1)
        except oslo_messaging.MessageDeliveryFailure as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    eventually(lambda: store.values == [1])
    sockets[0].shutdown(socket.SHUT_RDWR)
    thread.join(30)
    store.may_answer.set()
    assert [str(error) for error in failures] == ["the process with the message bus has ended"]


def test_a_message_that_cannot_be_packed_fails_alone(remote: transport.Transport) -> None:
    with pytest.raises(TypeError):
        client(remote).call({}, "put", value=object())
    assert remote._driver._answers == {}
    assert client(remote).call({}, "put", value=1) == 1


def test_a_message_that_cannot_be_delivered_fails_alone(
    remote: transport.Transport, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(BUS, "send", mock.Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(oslo_messaging.RemoteError, match="can't start new thread"):
            client(remote).call({}, "put", value=1)
    assert "A message for storage could not be delivered" in caplog.text
    assert client(remote).call({}, "put", value=2) == 2


def test_no_server_can_listen(remote: transport.Transport) -> None:
    server = oslo_messaging.get_rpc_server(remote, oslo_messaging.Target(topic=TOPIC, server="two"), [Store()])
    with pytest.raises(NotImplementedError, match="servers run in the process with the bus"):
        server.start()
