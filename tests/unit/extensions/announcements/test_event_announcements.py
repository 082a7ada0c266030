# SPDX-License-Identifier: Apache-2.0
"""Announcements of the events of other extensions."""

import json

import pytest

from tests.unit.extensions.announcements.test_scheduler_parts import announcements
from tests.unit.ledger.records import Records
from tonnage.extensions.announcements import alerts
from tonnage.extensions.announcements.announcer import Announcer
from tonnage.extensions.announcements.event_announcements import EventAnnouncements
from tonnage.scheduler.observers.extension_events import ExtensionEvent


def event(*, failure: bool) -> ExtensionEvent:
    return ExtensionEvent(
        event_type="capacity.move_plan.ended",
        payload={"state": "failed" if failure else "finished"},
        title="Plan 7 is failed",
        text="no room",
        failure=failure,
    )


@pytest.mark.parametrize(("failure", "channels"), [(True, ["alert:duty", "notifications"]), (False, ["notifications"])])
def test_failures_go_to_alerts_too(failure: bool, channels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records()
    announcer = Announcer(records.database, announcements(90.0), None)
    monkeypatch.setattr(announcer, "_bus_senders", [announcer._new_sender("notifications", object())])  # type: ignore[arg-type]
    monkeypatch.setattr(announcer, "_alert_senders", [announcer._new_sender("alert:duty", object())])  # type: ignore[arg-type]
    records.database.run(EventAnnouncements(announcer).written, [event(failure=failure)])
    rows = records.rows("SELECT channel, event_type, payload FROM announcements ORDER BY channel")
    assert [row[0] for row in rows] == channels
    assert {row[1] for row in rows} == {"capacity.move_plan.ended"}
    assert json.loads(rows[0][2])["title"] == "Plan 7 is failed"


def test_nothing_is_written_without_a_recipient() -> None:
    records = Records()
    announcer = Announcer(records.database, announcements(90.0), None)
    records.database.run(EventAnnouncements(announcer).written, [event(failure=True)])
    assert records.rows("SELECT * FROM announcements") == []


def test_the_text_of_an_alert_is_that_of_the_event() -> None:
    assert alerts.title_and_text({"title": "Plan 7 is failed", "text": "no room"}) == ("Plan 7 is failed", "no room")
