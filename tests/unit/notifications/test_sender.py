# SPDX-License-Identifier: Apache-2.0
import pathlib
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import notification_outbox
from tonnage.ledger.db import database
from tonnage.notifications.bus import NotSent
from tonnage.notifications.sender import Postman


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    models.Base.metadata.create_all(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


class Receiver:
    """Takes messages, but for those that it ``refuses``, by their place among what is sent to it."""

    def __init__(self, *refuses: int) -> None:
        self.numbers: list[int] = []
        self.ids: list[str] = []
        self._refuses = refuses
        self._asked = 0
        self.came = threading.Event()

    def __call__(self, message: notification_outbox.Message) -> None:
        self._asked += 1
        if self._asked in self._refuses:
            raise NotSent(f"number {message.payload['number']} was refused")
        self.numbers.append(message.payload["number"])
        self.ids.append(message.id)
        self.came.set()


def put(ledger: database.Database, *numbers: int, channel: str = "c") -> None:
    ledger.run(
        notification_outbox.put, [channel], [("capacity.pool.exceeded", {"number": number}) for number in numbers]
    )


def left(ledger: database.Database) -> list[int]:
    with ledger.reading() as session:
        return [message.payload["number"] for message in notification_outbox.waiting(session, "c", 100)]


def test_messages_are_sent_in_their_order_and_forgotten(ledger: database.Database) -> None:
    receiver = Receiver()
    put(ledger, *range(50))
    put(ledger, 99, channel="another")
    postman = Postman(ledger, "c", "here", receiver)
    while postman.work():
        pass
    assert (receiver.numbers, left(ledger)) == (list(range(50)), [])


def test_what_is_not_taken_waits_with_all_after_it(ledger: database.Database) -> None:
    receiver = Receiver(3)
    put(ledger, 1, 2, 3, 4)
    postman = Postman(ledger, "c", "here", receiver)
    with pytest.raises(NotSent, match="number 3"):
        postman.work()
    assert left(ledger) == [3, 4]
    assert postman.work()
    assert receiver.numbers == [1, 2, 3, 4]


def test_one_that_dies_after_sending_leaves_the_message_to_the_next_under_the_same_id(
    ledger: database.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    put(ledger, 1)
    with monkeypatch.context() as patch:
        patch.setattr(notification_outbox, "forget", lambda *given: (_ for _ in ()).throw(errors.Unavailable("killed")))
        with pytest.raises(errors.Unavailable):
            Postman(ledger, "c", "here", receiver).work()
    assert Postman(ledger, "c", "here", receiver).work()
    assert receiver.numbers == [1, 1]
    assert len(set(receiver.ids)) == 1


def test_another_one_waits_until_the_lease_is_over(ledger: database.Database) -> None:
    receiver = Receiver()
    put(ledger, 1)
    assert Postman(ledger, "c", "here", receiver).work()
    put(ledger, 2)
    other = Postman(ledger, "c", "there", receiver)
    assert not other.work()
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("UPDATE announcement_leases SET leased_at = '2026-01-01 00:00:00'"))
    assert other.work()
    assert not Postman(ledger, "c", "here", receiver).work()
    assert receiver.numbers == [1, 2]


def test_its_thread_goes_on_after_a_failure_and_ends_when_told(
    ledger: database.Database, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver(1, 2)
    postman = Postman(ledger, "c", "here", receiver, poll=60, first_pause=0.01)
    postman.start()
    put(ledger, 1)
    postman.wake()
    assert receiver.came.wait(30)
    postman.stop()
    postman.wait()
    postman._thread.join(60)  # in the middle of a commit it is not waited for any longer
    assert not any(thread.name == "announcements-c" for thread in threading.enumerate())
    assert caplog.messages == ["Announcements wait (c): number 1 was refused"] * 2
