# SPDX-License-Identifier: Apache-2.0
"""The tap on Cinder's bus, on a real RabbitMQ."""

import re
from collections.abc import Callable, Iterator

import pytest
from kombu.connection import Connection

from tests.servers import RabbitMQ
from tests.servers.base import wait_for
from tonnage.extensions.cinder.watch.bus_tap import BusTap, Delivery
from tonnage.extensions.cinder.watch.findings import Cause, Gap

_MIB = 2**20


class Bus:
    """The exchanges of Cinder, and the messages that its services send."""

    def __init__(self, url: str) -> None:
        self.url = re.sub("^rabbit:", "amqp:", url)
        self._connection: Connection | None = None
        self.connect()

    def connect(self) -> None:
        """Connect, also after the broker has closed the connection."""
        if self._connection is not None:
            self._connection.collect()
        self._connection = Connection(self.url)
        self._channel = self._connection.channel()

    def declare(self) -> None:
        self._channel.exchange_declare("openstack", "topic", durable=False, auto_delete=False)
        self._channel.exchange_declare("cinder-scheduler_fanout", "fanout", durable=False, auto_delete=True)

    def send(self, exchange: str, routing_key: str, *bodies: str) -> None:
        for body in bodies:
            message = self._channel.prepare_message(body, content_type="text/plain", content_encoding="utf-8")
            self._channel.basic_publish(message, exchange, routing_key)

    def close(self) -> None:
        assert self._connection is not None
        self._connection.close()


@pytest.fixture
def bus(fresh_rabbitmq_url: str) -> Iterator[Bus]:
    found = Bus(fresh_rabbitmq_url)
    yield found
    found.close()


Tap = Callable[[int], BusTap]


@pytest.fixture
def make_tap(bus: Bus) -> Iterator[Tap]:
    made: list[BusTap] = []

    def make(messages: int) -> BusTap:
        made.append(BusTap([bus.url], "openstack", messages, _MIB))
        return made[-1]

    yield make
    for tap in made:
        tap.close()


def collect(tap: BusTap, number: int) -> list[Delivery | Gap]:
    """Receive until so many messages and gaps have arrived."""
    found: list[Delivery | Gap] = []

    def is_enough() -> bool:
        found.extend(tap.receive(0.1))
        return len(found) >= number

    wait_for(is_enough, f"{number} messages and gaps, not {found}")
    return found


def test_the_tap_sees_all_messages_in_order_and_waits_for_cinder(bus: Bus, make_tap: Tap) -> None:
    tap = make_tap(100)
    assert tap.receive(0.1) == []
    assert not tap.is_connected
    bus.declare()
    assert collect(tap, 1) == [Gap(Cause.START)]
    bus.send("openstack", "cinder-scheduler", "request")
    bus.send("openstack", "cinder-volume.h@b.h", "command")
    bus.send("cinder-scheduler_fanout", "", "report")
    bus.send("openstack", "cinder-backup", "nothing of ours")
    bus.send("openstack", "cinder-scheduler", "last")
    seen = collect(tap, 4)
    assert [each.body for each in seen if isinstance(each, Delivery)] == ["request", "command", "report", "last"]
    assert isinstance(seen[1], Delivery)
    assert (seen[1].exchange, seen[1].routing_key) == ("openstack", "cinder-volume.h@b.h")


def test_a_full_queue_drops_its_oldest_messages_and_tells(bus: Bus, make_tap: Tap) -> None:
    """The tap takes no message while many come: the broker keeps those that it has sent ahead, and 5 more."""
    bus.declare()
    tap = make_tap(5)
    collect(tap, 1)
    bus.send("openstack", "cinder-scheduler", *map(str, range(400)))
    bus.send("openstack", "cinder-scheduler", "last")
    found: list[Delivery | Gap] = []

    def is_last() -> bool:
        found.extend(tap.receive(0.1))
        return any(isinstance(each, Delivery) and each.body == "last" for each in found)

    wait_for(is_last, "the last message arrives")
    gaps = [each for each in found if isinstance(each, Gap)]
    assert {each.cause for each in gaps} == {Cause.QUEUE}
    delivered = sum(isinstance(each, Delivery) for each in found)
    assert 1 <= sum(each.dropped for each in gaps) <= 401 - delivered


@pytest.mark.heavy
def test_a_lost_connection_is_a_gap_and_a_new_one_follows(
    bus: Bus, make_tap: Tap, fresh_rabbitmq_url: str, rabbitmq_server: RabbitMQ
) -> None:
    bus.declare()
    tap = make_tap(100)
    collect(tap, 1)
    rabbitmq_server.control("close_all_connections", "--vhost", fresh_rabbitmq_url.rpartition("/")[2], "test")
    bus.connect()
    bus.declare()
    assert collect(tap, 1) == [Gap(Cause.CONNECTION)]
    assert not tap.is_connected
    wait_for(lambda: tap.receive(0.1) == [] and tap.is_connected, "the tap is connected again")
    bus.send("openstack", "cinder-scheduler", "after")
    [seen] = collect(tap, 1)
    assert isinstance(seen, Delivery)
    assert seen.body == "after"
