# SPDX-License-Identifier: Apache-2.0
"""Announcements as a consumer on a real message bus receives them, from schedulers that are killed meanwhile."""

import contextlib
import datetime
import itertools
import pathlib
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import oslo_messaging
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.functional.deployment import Addresses, Deployment, Process, run_concurrently
from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.unit.rpc import bus
from tests.unit.scheduler.world import BACKEND, Agent, StoragePool
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Provisioning
from tonnage.extensions.announcements import announcer, notification_outbox, options, payloads
from tonnage.extensions.announcements import bus as bus_room
from tonnage.extensions.announcements.sender import NotificationSender
from tonnage.extensions.announcements.threshold_crossings import Reason
from tonnage.extensions.announcements.usage_sender import UsageReport
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.rpc import contract
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import Hello
from tonnage.rpc.packed_reports import PackedReport

# kombu leaves the socket of a connection that broke to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

EXCEEDED, RECOVERED = "capacity.pool.exceeded", "capacity.pool.recovered"
POOLS = 4


class Consumer:
    """A listener like Ceilometer. ``received`` has the event type, the id and the payload of each notification."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, context: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
        self.received.append((event_type, metadata["message_id"], payload))

    def of(self, *event_types: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the type and the payload of each received message of these types, without duplicates."""
        once = {message_id: (event_type, payload) for event_type, message_id, payload in reversed(self.received)}
        return [each for each in reversed(once.values()) if each[0] in event_types]


@contextlib.contextmanager
def consuming(url: str) -> Iterator[Consumer]:
    consumer = Consumer()
    with bus.memory_transport(url=url) as connected:
        transport = oslo_messaging.get_notification_transport(connected.conf, url)
        topics = [oslo_messaging.Target(topic="notifications", exchange="tonnage")]
        listener = oslo_messaging.get_notification_listener(transport, topics, [consumer], executor="threading")
        listener.start(override_pool_size=1)  # several threads might change the order
        yield consumer
        listener.stop()
        listener.wait()
        transport.cleanup()


class Tonnage:
    """Two schedulers, and an agent whose pools the test sets."""

    def __init__(self, deployment: Deployment, client: SchedulerClient) -> None:
        self.deployment = deployment
        self.pools = {f"p{number}": StoragePool(100, 2.0, thin=True, thick=True) for number in range(POOLS)}
        self.agent = Agent(self.pools)
        self._client = client
        self.schedulers: list[Process] = []

    def start(self) -> None:
        first = self.deployment.processes["scheduler"]
        self.deployment.launch("scheduler")
        wait_for(lambda: "Scheduler is ready" in first.log.read_text(), "the scheduler is ready")
        self.schedulers = [first, self.deployment.launch_another_scheduler()]
        hello = Hello(backend=BACKEND, nonce="n", availability_zone="nova", driver="memory")

        def joined() -> int:
            with contextlib.suppress(errors.Unavailable):
                return self._client.call(contract.HELLO, hello).epoch
            return 0

        self.agent.epoch = wait_for(joined, "a scheduler answers")

    def fill(self, name: str, used: int) -> None:
        self.pools[name].volumes = {"others": (used, Provisioning.THICK)}

    def report(self) -> None:
        """Send reports until the current figures are applied."""
        first = self.agent.seq + 1

        def applied() -> bool:
            self._client.cast(contract.REPORT, PackedReport.of(self.agent.look()))
            with contextlib.suppress(TimeoutError):
                return bool(wait_for(lambda: self._seq() >= first, "the report is applied", seconds=1.0))
            return False

        wait_for(applied, "a report is applied")

    def _seq(self) -> int:
        return int(self.deployment.sql_value("SELECT report_seq FROM backends"))

    def kill_worker(self, which: int) -> None:
        """Kill the worker process of a scheduler; its parent starts another."""
        for worker in self.schedulers[which].tree()[1:]:
            worker.kill()


@pytest.fixture(scope="module")
def tonnage(postgresql_server: PostgreSQL, rabbitmq_server: RabbitMQ) -> Iterator[tuple[Tonnage, Consumer]]:
    sections = {"oslo_messaging_notifications": {"driver": "messagingv2"}}
    with (
        postgresql_server.database() as url,
        rabbitmq_server.virtual_host() as address,
        Deployment(Addresses(url, address), {}, sections=sections, service_down_time=9) as deployment,
        consuming(address) as consumer,
        deployment.rpc() as client,
    ):
        made = Tonnage(deployment, client)
        try:
            made.start()
            yield made, consumer
        except BaseException:
            print(deployment.logs())
            raise


@pytest.mark.heavy
def test_each_applied_report_is_announced_once(tonnage: tuple[Tonnage, Consumer]) -> None:
    world, consumer = tonnage

    def announced() -> list[float]:
        return [payload["free"] for _, payload in consumer.of("capacity.backend")]

    wanted, sent = [], []
    for used in range(10, 16):
        wanted.append(400.0 - used)
        before = world.agent.seq
        world.fill("p1", used)
        for _ in range(20):
            world.report()
            with contextlib.suppress(TimeoutError):  # figures that cannot be sent at once are replaced by newer figures
                wait_for(lambda: announced()[-1:] == wanted[-1:], f"figures of {used}", 5)
                break
        sent.append(world.agent.seq - before)
    # Reports that are not applied at once are sent again. Each applied report is announced by one scheduler.
    found = [(free, len(list(group))) for free, group in itertools.groupby(announced())]
    assert [free for free, _ in found] == wanted
    assert all(times <= number for (_, times), number in zip(found, sent, strict=True)), (found, sent)
    wait_for(
        lambda: len(consumer.of("capacity.pool")) == POOLS * len(announced()), "the figures of all pools have arrived"
    )
    pool = next(payload for _, payload in consumer.of("capacity.pool") if payload["name_to_id"] == f"{BACKEND}#p1")
    reported_at = pool.pop("reported_at")
    assert pool == {
        "name_to_id": f"{BACKEND}#p1",
        "total": 100.0,
        "free": 90.0,
        "allocated": 0.0,
        "provisioned": 10.0,
        "virtual_free": 190.0,
    }
    assert len(reported_at) == len("2026-11-21T14:20:00.000000")


@pytest.mark.heavy
@pytest.mark.parametrize(("rounds", "kills"), [(3, {2, 4}), (20, set(range(0, 40, 2)))])
def test_each_threshold_crossing_is_announced_once_despite_kills(
    tonnage: tuple[Tonnage, Consumer], rounds: int, kills: set[int]
) -> None:
    world, consumer = tonnage
    chance = random.Random(6)
    consumer.received.clear()
    for number in range(2 * rounds):
        for name in world.pools:
            world.fill(name, 10 if number % 2 else 95)
        if number in kills:
            timer = threading.Timer(chance.uniform(0, 0.8), world.kill_worker, [number // 2 % 2])
            timer.start()
        world.report()
        if number in kills:
            timer.join()
    wait_for(lambda: world.deployment.sql_value("SELECT COUNT(*) FROM announcements") == 0, "the outbox is empty")
    expected = [EXCEEDED, RECOVERED] * rounds

    def of_pool(name: str) -> list[str]:
        messages = consumer.of(EXCEEDED, RECOVERED)
        return [event_type for event_type, payload in messages if payload["name_to_id"] == f"{BACKEND}#{name}"]

    wait_for(lambda: all(len(of_pool(name)) >= len(expected) for name in world.pools), "all notifications have arrived")
    for name in world.pools:
        assert of_pool(name) == expected


@pytest.fixture
def ledgers(ledger_url: str) -> Iterator[list[database.Database]]:
    """Return two database objects for the same ledger, as of two schedulers."""
    engines = [database.create_engine(ledger_url) for _ in range(2)]
    ledger_schema.create(engines[0])
    yield [database.Database(engine) for engine in engines]
    for engine in engines:
        engine.dispose()


def test_concurrent_senders_send_each_message_of_an_outbox_once(ledgers: list[database.Database]) -> None:
    """Two threads of each scheduler send under different names; some messages are refused at first."""
    numbers = range(200)
    ledgers[0].run(notification_outbox.enqueue, ["c"], [("event", {"n": number}) for number in numbers])
    sent: list[tuple[str, int]] = []
    refused: set[int] = set()

    def send(message: notification_outbox.Message) -> None:
        number = message.payload["n"]
        if number % 50 == 7 and number not in refused:
            refused.add(number)
            raise bus_room.NotSent("not now")
        sent.append((message.id, number))

    def work(place: int) -> None:
        sender = NotificationSender(ledgers[place % 2], "c", f"scheduler {place}", SimpleNamespace(send=send))
        while True:
            with contextlib.suppress(bus_room.NotSent):
                sender.send_batch()
            with ledgers[0].reading() as session:
                if not notification_outbox.load(session, "c", 1):
                    return

    run_concurrently(4, work)
    # One thread has the lease until the outbox is empty.
    assert [number for _, number in sent] == list(numbers)
    assert len({message_id for message_id, _ in sent}) == len(numbers)


def test_announcements_are_committed_with_their_report(ledgers: list[database.Database]) -> None:
    ledger = ledgers[0]

    def announce(session: orm.Session, *, then: Exception | None) -> None:
        backend = session.scalars(sa.select(models.Backend.id).with_for_update()).one()
        found = notification_outbox.exceeded(session, [backend])
        pool = session.scalars(sa.select(models.Pool.id)).one()
        if found:
            notification_outbox.set_exceeded(session, exceeded=[], recovered=[pool])
        else:
            notification_outbox.set_exceeded(session, exceeded=[pool], recovered=[])
        notification_outbox.enqueue(session, ["c", "d"], [("recovered" if found else "exceeded", {"n": None})])
        if then is not None:
            raise then

    def prepare(session: orm.Session) -> None:
        session.add(models.Pool(name="h@b#p", backend=models.Backend(name="h@b"), stats={}))

    ledger.run(prepare)
    with pytest.raises(ZeroDivisionError):
        ledger.run(announce, then=ZeroDivisionError())
    for _ in range(3):
        ledger.run(announce, then=None)
    with ledger.reading() as session:
        assert list(notification_outbox.exceeded(session, [1, 2])) == ["h@b#p"]
        waiting = notification_outbox.load(session, "c", 10)
        assert len(notification_outbox.load(session, "d", 10)) == 3
    assert [message.event_type for message in waiting] == ["exceeded", "recovered", "exceeded"]
    ledger.run(notification_outbox.delete, [waiting[0].id])
    assert ledger.run(notification_outbox.purge, 7, ["c"]) == {}
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("UPDATE announcements SET created_at = '2026-01-01 00:00:00'"))
    assert ledger.run(notification_outbox.take_lease, "gone", "another", 15.0)
    assert ledger.run(notification_outbox.purge, 30_000, ["c", "d"]) == {}
    assert ledger.run(notification_outbox.purge, 30_000, ["c"]) == {"d": 3}
    assert ledger.run(notification_outbox.purge, 7, ["c"]) == {"c": 2}
    assert ledger.run(notification_outbox.take_lease, "c", "another", 15.0)
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("UPDATE announcement_leases SET leased_at = '2026-01-01 00:00:00'"))
    assert ledger.run(notification_outbox.purge, 7, ["c"]) == {}
    with ledger.engine.connect() as connection:
        assert connection.scalars(sa.text("SELECT channel FROM announcement_leases")).all() == ["c"]


@pytest.mark.heavy
def test_announcements_during_an_outage_of_the_bus_arrive_afterwards(
    rabbitmq_server: RabbitMQ, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"later-{uuid.uuid4()}"
    address = rabbitmq_server.url + name
    ledger = database.Database(database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    ledger_schema.create(ledger.engine)
    with bus.memory_transport(url=address) as connected:
        connected.conf.register_opts(options.OPTIONS)
        options.register_library_options(connected.conf)
        connected.conf.set_override("driver", ["messagingv2"], group=options.OSLO_GROUP)
        made = announcer.build(connected.conf, ledger)
        told = threading.Event()
        late: list[bool] = []

        def noted(send: Callable[..., Any]) -> Callable[..., Any]:
            def sending(*words: Any) -> Any:
                late.append(not told.wait(60))
                return send(*words)

            return sending

        monkeypatch.setattr(made._bus, "send", noted(made._bus.send))
        made.start()
        usage = payloads.Usage("h@b#p", 100.0, 7.0, 10.0, 93.0, 107.0)
        for number in range(6):
            reasons = [] if number % 2 else [Reason.PHYSICAL]
            crossing = payloads.ThresholdCrossing(
                usage=usage, used_percent=93.0, limit=200.0, ratio=2.0, reasons=reasons
            )
            ledger.run(made.put, [crossing], datetime.datetime.now(datetime.UTC))
            made.wake()
            made.send_usage(UsageReport("h@b", PoolTable(), Calculation.CINDER, datetime.datetime.now(datetime.UTC)))
        told.set()
        with rabbitmq_server.virtual_host(name), consuming(address) as consumer:
            wait_for(lambda: len(consumer.of(EXCEEDED, RECOVERED)) == 6, "all notifications have arrived")
            made.stop()
    assert late
    assert not any(late), "a decision waited until a notification was sent"
    assert [event_type for event_type, _ in consumer.of(EXCEEDED, RECOVERED)] == [EXCEEDED, RECOVERED] * 3
    ledger.close()
