# SPDX-License-Identifier: Apache-2.0
"""The outbox of notifications: order, leases and deletion of what nobody sends."""

import datetime
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.extensions.announcements import notification_outbox, tables
from tonnage.ledger import models
from tonnage.ledger.db import database

BUS, MAIL = "bus", "mail"


@pytest.fixture
def session() -> Iterator[orm.Session]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        yield session
    engine.dispose()


def age(session: orm.Session, model: type[models.Base], column: str, **elapsed: float) -> None:
    """Set the times of all rows back."""
    time = session.execute(sa.select(models.utcnow())).scalar_one() - datetime.timedelta(**elapsed)
    session.execute(sa.update(model).values({column: time}))


def queue(session: orm.Session, channel: str, *events: str) -> None:
    notification_outbox.enqueue(session, [channel], [(event, {"event": event}) for event in events])


def events(session: orm.Session, channel: str) -> list[str]:
    return [message.event_type for message in notification_outbox.load(session, channel, 100)]


def test_each_channel_gets_the_messages_in_order_and_under_ids_of_its_own(session: orm.Session) -> None:
    notification_outbox.enqueue(session, [BUS, MAIL], [("one", {"gb": 1}), ("two", {"gb": 2})])
    for channel in (BUS, MAIL):
        messages = notification_outbox.load(session, channel, 10)
        assert [(message.event_type, message.payload) for message in messages] == [
            ("one", {"gb": 1}),
            ("two", {"gb": 2}),
        ]
    ids = {message.id for channel in (BUS, MAIL) for message in notification_outbox.load(session, channel, 10)}
    assert len(ids) == 4
    assert [message.event_type for message in notification_outbox.load(session, BUS, 1)] == ["one"]


def test_a_message_that_was_sent_is_deleted_on_its_channel_alone(session: orm.Session) -> None:
    notification_outbox.enqueue(session, [BUS, MAIL], [("one", {}), ("two", {})])
    first = notification_outbox.load(session, BUS, 1)
    notification_outbox.delete(session, [message.id for message in first])
    assert (events(session, BUS), events(session, MAIL)) == (["two"], ["one", "two"])


def test_one_scheduler_at_a_time_has_the_lease_of_a_channel(session: orm.Session) -> None:
    assert notification_outbox.take_lease(session, BUS, "a", 60.0)
    assert not notification_outbox.take_lease(session, BUS, "b", 60.0)
    assert notification_outbox.take_lease(session, BUS, "a", 60.0)
    assert notification_outbox.take_lease(session, MAIL, "b", 60.0)


def test_a_lease_that_has_ended_goes_to_the_next_scheduler(session: orm.Session) -> None:
    notification_outbox.take_lease(session, BUS, "a", 60.0)
    age(session, tables.AnnouncementLease, "leased_at", seconds=61)
    assert notification_outbox.take_lease(session, BUS, "b", 60.0)
    assert not notification_outbox.take_lease(session, BUS, "a", 60.0)


def test_messages_are_deleted_after_the_retention_alone(session: orm.Session) -> None:
    queue(session, BUS, "old", "older")
    age(session, tables.Announcement, "created_at", days=8)
    queue(session, BUS, "new")
    assert notification_outbox.purge(session, 7, [BUS]) == {"bus": 2}
    assert events(session, BUS) == ["new"]
    assert notification_outbox.purge(session, 7, [BUS]) == {}


def test_messages_of_a_removed_channel_are_deleted_after_a_day(session: orm.Session) -> None:
    queue(session, MAIL, "left")
    notification_outbox.take_lease(session, MAIL, "a", 60.0)
    age(session, tables.Announcement, "created_at", hours=25)
    # Another scheduler has tried to send them within the day.
    assert notification_outbox.purge(session, 7, [BUS]) == {}
    age(session, tables.AnnouncementLease, "leased_at", hours=25)
    assert notification_outbox.purge(session, 7, [BUS]) == {"mail": 1}
    assert session.scalars(sa.select(tables.AnnouncementLease.channel)).all() == []


def test_the_lease_of_a_channel_in_use_stays_however_old(session: orm.Session) -> None:
    notification_outbox.take_lease(session, BUS, "a", 60.0)
    age(session, tables.AnnouncementLease, "leased_at", days=30)
    notification_outbox.purge(session, 7, [BUS])
    assert session.scalars(sa.select(tables.AnnouncementLease.channel)).all() == [BUS]


def test_pools_over_their_limits_are_marked_until_they_recover(session: orm.Session) -> None:
    session.add_all([models.Backend(id=1, name="h@b"), models.Backend(id=2, name="h@c")])
    session.flush()
    session.add_all(
        models.Pool(id=number, backend_id=backend, name=name)
        for number, backend, name in ((1, 1, "h@b#p"), (2, 1, "h@b#q"), (3, 2, "h@c#p"))
    )
    session.flush()
    assert notification_outbox.exceeded(session, [1, 2]) == {}
    notification_outbox.set_exceeded(session, exceeded=[1, 3], recovered=[2])
    assert notification_outbox.exceeded(session, [1]).keys() == {"h@b#p"}
    assert notification_outbox.exceeded(session, [1, 2])["h@c#p"].pool_id == 3
    notification_outbox.set_exceeded(session, exceeded=[], recovered=[1])
    assert notification_outbox.exceeded(session, [1, 2]).keys() == {"h@c#p"}
