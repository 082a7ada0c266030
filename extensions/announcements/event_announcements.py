# SPDX-License-Identifier: Apache-2.0
"""Announcements of the events of other extensions, such as the end of a plan of moves."""

from collections.abc import Sequence

from sqlalchemy import orm

from tonnage.extensions.announcements.announcer import Announcer
from tonnage.scheduler.observers.extension_events import EventObserver, ExtensionEvent


class EventAnnouncements(EventObserver):
    """Writes events to the outbox, in the transaction in which they happen."""

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer

    def written(self, session: orm.Session, events: Sequence[ExtensionEvent]) -> None:
        """Write the events to the outbox: all for the message bus, failures for the alerts too."""
        for event in events:
            payload = {**event.payload, "title": event.title, "text": event.text}
            self._announcer.put_event(session, event.event_type, payload, alert=event.failure)

    def committed(self) -> None:
        """Let the events be sent."""
        self._announcer.wake()
