# SPDX-License-Identifier: Apache-2.0
"""Messages to users: each project reads its own, and old ones go."""

import pytest

from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import user_messages
from tonnage.ledger.db.paging import Order, Page


def message(records: Records, project_id: str = "demo", days: int = 0, **values: str) -> str:
    """Add a message of that many days, and return its id."""
    message_id = new_id()
    row = {"resource_id": new_id(), "event": "VOLUME_000002", "text": "no pool is left"} | values
    records.add(models.Message(id=message_id, project_id=project_id, **row))
    records.rows(
        "UPDATE messages SET created_at = strftime('%Y-%m-%d %H:%M:%f', 'now', :age) WHERE id = :id",
        age=f"-{days} days",
        id=message_id,
    )
    return message_id


def test_a_message_is_for_its_project_and_for_administrators(records: Records) -> None:
    message_id = message(records)
    for project_id in ("demo", None):
        assert records.run(user_messages.get, message_id, project_id).text == "no pool is left"
    for action in (user_messages.get, user_messages.delete):
        with pytest.raises(errors.NotFound, match="could not be found"):
            records.run(action, message_id, "other")


def test_a_page_holds_the_messages_that_match(records: Records) -> None:
    volume_id = new_id()
    old, new = (message(records, days=days, resource_id=volume_id) for days in (2, 1))
    message(records)
    message(records, "other", resource_id=volume_id)
    filters = {"resource_uuid": volume_id}
    page = records.run(user_messages.page, "demo", filters, Page(9, order=(Order("created_at"),)))
    assert [row.id for row in page] == [old, new]
    page = records.run(user_messages.page, "demo", filters, Page(9, marker=new))
    assert [row.id for row in page] == [old]
    with pytest.raises(errors.NotFound):
        records.run(user_messages.page, "other", {}, Page(9, marker=old))


def test_a_deleted_message_is_gone(records: Records) -> None:
    message_id = message(records)
    records.run(user_messages.delete, message_id, "demo")
    with pytest.raises(errors.NotFound):
        records.run(user_messages.get, message_id, "demo")


def test_messages_of_more_than_the_kept_days_are_purged_in_parts(records: Records) -> None:
    recent = message(records, days=user_messages.KEPT_DAYS - 1)
    for _ in range(3):
        message(records, days=user_messages.KEPT_DAYS + 1)
    assert records.run(user_messages.purge, limit=2) == 2
    assert records.run(user_messages.purge, limit=2) == 1
    assert records.run(user_messages.purge, limit=2) == 0
    assert records.rows("SELECT id FROM messages") == [(recent,)]
