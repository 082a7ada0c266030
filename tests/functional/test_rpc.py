# SPDX-License-Identifier: Apache-2.0
"""Batches of messages over a real message bus, which is killed and restarted."""

import gc
import threading
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers.base import wait_for
from tests.servers.rabbitmq import RabbitMQ
from tests.unit.agent.fakes import command
from tests.unit.rpc import bus as message_bus
from tonnage.capacity import errors
from tonnage.rpc import contract, messages, serialization, transport
from tonnage.rpc import request_batch as batches
from tonnage.rpc.clients.command_sender import AgentClient, CommandSender
from tonnage.rpc.clients.scheduler_client import SchedulerClient

# kombu leaves the socket of a connection that broke to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

THREADS = 32
BACKEND = "host@backend"


class Scheduler:
    """Answers each request with the id of its volume."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def request_batch(self, context: Any, message: Any) -> Any:
        return batches.serve(serialization.unpack(message, messages.RequestBatch), self._answer)

    def _answer(self, requests: list[batches.BatchedRequest]) -> Sequence[object]:
        self.sizes.append(len(requests))
        return [messages.Answer(volume_id=request.volume_id) for request in requests]


class Agent:
    """Records the claims of the commands that arrive."""

    def __init__(self) -> None:
        self.claims: list[str] = []
        self.messages = 0

    def run(self, context: Any, message: Any) -> None:
        self.messages += 1
        self.claims += [command["claim_id"] for command in serialization.unpack(message, messages.Commands).commands]


@pytest.fixture
def server_bus(fresh_rabbitmq_url: str) -> Iterator[transport.Transport]:
    with message_bus.memory_transport(response_timeout=5, url=fresh_rabbitmq_url) as made:
        yield made
    gc.collect()


@pytest.fixture
def client_bus(fresh_rabbitmq_url: str, server_bus: transport.Transport) -> Iterator[transport.Transport]:
    with message_bus.memory_transport(response_timeout=5, url=fresh_rabbitmq_url) as made:
        yield made
    gc.collect()


@pytest.mark.heavy  # the torture kills brokers as well
def test_requests_of_many_threads_survive_a_kill_of_the_broker(
    rabbitmq_server: RabbitMQ, server_bus: transport.Transport, client_bus: transport.Transport
) -> None:
    scheduler = Scheduler()
    server = transport.server(server_bus, transport.TOPIC_SCHEDULER, "one", scheduler)
    server.start()
    client = SchedulerClient(client_bus)
    stop, wrong, failed = threading.Event(), [], []
    answered = [0] * THREADS

    def ask(thread: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            volume_id = f"{thread}-{number}"
            request = messages.CreateVolume(request_id=volume_id, volume_id=volume_id, size_gb=1, project_id="p")
            try:
                answer = client.call(contract.CREATE_VOLUME, request)
            except errors.Unavailable as error:
                failed.append(error.message)
            else:
                answered[thread] += 1
                if answer.volume_id != volume_id:
                    wrong.append((volume_id, answer.volume_id))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(THREADS)]
    for each in threads:
        each.start()
    wait_for(lambda: min(answered) >= 5, "each thread is answered")
    assert max(scheduler.sizes) > 1
    rabbitmq_server.kill()
    rabbitmq_server.start()
    reached = list(answered)
    wait_for(lambda: all(now > then for now, then in zip(answered, reached, strict=True)), "each is answered again")
    stop.set()
    for each in threads:
        each.join()
    assert wrong == []
    assert [
        message for message in failed if "request_batch" not in message
    ] == []  # other errors of calls that were lost
    server.stop()
    server.wait()


@pytest.mark.heavy
def test_commands_do_not_wait_for_a_dead_bus_and_are_returned_unsent(
    rabbitmq_server: RabbitMQ, server_bus: transport.Transport, client_bus: transport.Transport
) -> None:
    agent = Agent()
    server = transport.server(server_bus, transport.TOPIC_AGENT, BACKEND, agent)
    server.start(override_pool_size=1)
    lost: list[str] = []
    sender = CommandSender(AgentClient(client_bus))
    sender.start(SimpleNamespace(undelivered=lost.extend))
    for number in range(500):
        sender.run(BACKEND, command(f"c{number}", f"v{number}"))
    wait_for(lambda: len(agent.claims) == 500, "all commands have arrived")
    assert agent.claims == [f"c{number}" for number in range(500)]
    assert agent.messages < 250

    rabbitmq_server.kill()
    began = time.monotonic()
    for number in range(500, 1000):
        sender.run(BACKEND, command(f"c{number}", f"v{number}"))
    assert time.monotonic() - began < 20
    wait_for(lambda: lost, "the sender returns unsent commands")
    rabbitmq_server.start()

    def sent_again() -> bool:
        missing = {f"c{number}" for number in range(1000)} - set(agent.claims)
        if missing and sender.wait_idle(0):
            for claim in sorted(missing, key=lambda name: int(name[1:])):
                sender.run(BACKEND, command(claim, f"v{claim[1:]}"))
        return not missing

    wait_for(sent_again, "all commands have arrived")
    sender.stop()
    server.stop()
    server.wait()


def test_an_account_refused_by_the_bus_is_reported_with_the_option(fresh_rabbitmq_url: str) -> None:
    address, virtual_host = fresh_rabbitmq_url.rsplit("/", 1)
    scheme, rest = address.split("://")
    option = "(user, password and virtual host are those of option transport_url)"
    for url, answer in (
        (f"{scheme}://nobody:wrong@{rest.rpartition('@')[2]}/{virtual_host}", "ACCESS_REFUSED - Login was refused"),
        (f"{address}/nowhere", "NOT_ALLOWED - vhost nowhere not found"),
    ):
        with message_bus.memory_transport(url=url) as made:
            with pytest.raises(
                errors.Unavailable, match=f"^the message bus lets nobody listen to .*: {answer}"
            ) as raised:
                transport.server(made, transport.TOPIC_SCHEDULER, "one", Scheduler()).start()
            assert raised.value.message.endswith(option)
            with pytest.raises(errors.Unavailable, match=f"^the message bus did not take .*: {answer}"):
                AgentClient(made).cast(BACKEND, contract.REPORT_NOW, None)
        gc.collect()
