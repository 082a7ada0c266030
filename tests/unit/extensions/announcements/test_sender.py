# SPDX-License-Identifier: Apache-2.0
import pathlib
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.ledger import faults
from tonnage.capacity import errors
from tonnage.extensions.announcements import notification_outbox
from tonnage.extensions.announcements.bus import NotSent
from tonnage.extensions.announcements.sender import NotificationSender
from tonnage.ledger.db import database


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


class Receiver:
    """Receives messages, except those at the positions in ``refuses``, counted from 1."""

    def __init__(self, *refuses: int) -> None:
        self.numbers: list[int] = []
        self.ids: list[str] = []
        self._refuses = refuses
        self._calls = 0
        self.came = threading.Event()

    def send(self, message: notification_outbox.Message) -> None:
        self._calls += 1
        if self._calls in self._refuses:
            raise NotSent(f"number {message.payload['number']} was refused")
        self.numbers.append(message.payload["number"])
        self.ids.append(message.id)
        self.came.set()


def put(ledger: database.Database, *numbers: int, channel: str = "c") -> None:
    ledger.run(
        notification_outbox.enqueue, [channel], [("capacity.pool.exceeded", {"number": number}) for number in numbers]
    )


def left(ledger: database.Database) -> list[int]:
    with ledger.reading() as session:
        return [message.payload["number"] for message in notification_outbox.load(session, "c", 100)]


def test_messages_are_sent_in_order_and_deleted(ledger: database.Database) -> None:
    receiver = Receiver()
    put(ledger, *range(50))
    put(ledger, 99, channel="another")
    sender = NotificationSender(ledger, "c", "here", receiver)
    while sender.send_batch():
        pass
    assert (receiver.numbers, left(ledger)) == (list(range(50)), [])


def test_a_message_that_fails_stays_with_all_later_messages(ledger: database.Database) -> None:
    receiver = Receiver(3)
    put(ledger, 1, 2, 3, 4)
    sender = NotificationSender(ledger, "c", "here", receiver)
    with pytest.raises(NotSent, match="number 3"):
        sender.send_batch()
    assert left(ledger) == [3, 4]
    assert sender.send_batch()
    assert receiver.numbers == [1, 2, 3, 4]


def test_a_message_is_sent_again_with_the_same_id_after_a_crash(ledger: database.Database) -> None:
    receiver = Receiver()
    put(ledger, 1)
    killed = errors.Unavailable("killed")
    with faults.failing(ledger.engine, "DELETE FROM announcements", killed), pytest.raises(errors.Unavailable):
        NotificationSender(ledger, "c", "here", receiver).send_batch()
    assert NotificationSender(ledger, "c", "here", receiver).send_batch()
    assert receiver.numbers == [1, 1]
    assert len(set(receiver.ids)) == 1


def test_another_scheduler_waits_for_the_end_of_the_lease(ledger: database.Database) -> None:
    receiver = Receiver()
    put(ledger, 1)
    assert NotificationSender(ledger, "c", "here", receiver).send_batch()
    put(ledger, 2)
    other = NotificationSender(ledger, "c", "there", receiver)
    assert not other.send_batch()
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("UPDATE announcement_leases SET leased_at = '2026-01-01 00:00:00'"))
    assert other.send_batch()
    assert not NotificationSender(ledger, "c", "here", receiver).send_batch()
    assert receiver.numbers == [1, 2]


def test_the_thread_continues_after_a_failure_and_stops_on_request(
    ledger: database.Database, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver(1, 2)
    sender = NotificationSender(ledger, "c", "here", receiver, poll=60, first_delay=0.01)
    sender.start()
    put(ledger, 1)
    sender.wake()
    assert receiver.came.wait(30)
    sender.stop()
    sender.wait(60)
    assert not any(thread.name == "announcements-c" for thread in threading.enumerate())
    assert caplog.messages == ["Announcements wait (c): number 1 was refused"] * 2
