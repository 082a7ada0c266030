# SPDX-License-Identifier: Apache-2.0
"""What the tables of the outbox refuse, and the values of a new row."""

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.extensions.announcements.tables import Announcement, AnnouncementLease


@pytest.fixture
def records() -> Records:
    return Records()


def announcement(message_id: str, channel: str = "bus") -> Announcement:
    return Announcement(message_id=message_id, channel=channel, event_type="capacity.pool", payload={"free": 1.5})


def test_a_message_is_written_once(records: Records) -> None:
    """A transaction that runs again would otherwise announce twice."""
    message_id = new_id()
    records.add(announcement(message_id))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(announcement(message_id, "mail"))


def test_messages_of_a_channel_are_in_the_order_of_their_rows(records: Records) -> None:
    ids = [new_id() for _ in range(3)]
    for message_id in ids:
        records.add(announcement(message_id))
    assert records.rows("SELECT message_id FROM announcements ORDER BY id") == [(message_id,) for message_id in ids]
    assert records.rows("SELECT DISTINCT payload, created_at IS NULL FROM announcements") == [('{"free":1.5}', 0)]


def test_a_channel_has_one_lease_that_nobody_holds_at_first(records: Records) -> None:
    records.add(AnnouncementLease(channel="bus"))
    assert records.rows("SELECT owner, term, leased_at IS NULL FROM announcement_leases") == [("", 0, 0)]
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(AnnouncementLease(channel="bus", owner="another"))
