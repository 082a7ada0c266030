# SPDX-License-Identifier: Apache-2.0
"""Events of extensions, which other extensions announce: neither imports the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import orm

from tonnage.extension import Hook, attributed_to, failures_logged


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionEvent:
    """Something that has happened in an extension.

    ``payload`` is JSON for programs, ``title`` and ``text`` are for people. A person has to look at a ``failure``.
    """

    event_type: str
    payload: Mapping[str, Any]
    title: str
    text: str
    failure: bool = False


class EventObserver(Hook):
    """An observer of the events of extensions. Each method has a default that does nothing."""

    def written(self, session: orm.Session, events: Sequence[ExtensionEvent]) -> None:
        """Add statements to the transaction in which events happen. It may be rolled back and run again."""

    def committed(self) -> None:
        """Act after the commit of such a transaction."""


class ExtensionEvents:
    """Passes the events of extensions on to the observers of other extensions."""

    def __init__(self) -> None:
        self.observers: list[EventObserver] = []

    def write(self, session: orm.Session, *events: ExtensionEvent) -> None:
        """Write events in the transaction in which they happen. Call :meth:`commit` after it."""
        for observer in self.observers:
            with attributed_to(observer):
                observer.written(session, events)

    def commit(self) -> None:
        """Tell the observers that a transaction with events has been committed."""
        for observer in self.observers:
            with failures_logged(observer):
                observer.committed()
