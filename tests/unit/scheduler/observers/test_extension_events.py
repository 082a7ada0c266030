# SPDX-License-Identifier: Apache-2.0
"""Events of extensions, and their observers."""

from collections.abc import Sequence
from typing import Any

import pytest

from tonnage.scheduler.observers.extension_events import EventObserver, ExtensionEvent, ExtensionEvents

EVENT = ExtensionEvent(event_type="example.begun", payload={}, title="It begins", text="")


class Recorder(EventObserver):
    """An observer that records its calls, and may fail."""

    def __init__(self, *, fails: bool = False) -> None:
        self.calls: list[Any] = []
        self._fails = fails

    def written(self, session: Any, events: Sequence[ExtensionEvent]) -> None:
        self.calls.append((session, events))
        if self._fails:
            raise LookupError("no row")

    def committed(self) -> None:
        self.calls.append("committed")
        if self._fails:
            raise LookupError("no thread")


def events(*observers: EventObserver) -> ExtensionEvents:
    made = ExtensionEvents()
    made.observers += observers
    return made


def test_observers_write_with_the_transaction_and_act_after_it() -> None:
    first, second = Recorder(), Recorder()
    passed_on = events(first, second, EventObserver())
    session: Any = object()
    passed_on.write(session, EVENT)
    passed_on.commit()
    assert first.calls == second.calls == [(session, (EVENT,)), "committed"]


def test_an_error_rolls_the_transaction_back_and_names_the_extension(caplog: pytest.LogCaptureFixture) -> None:
    failing, other = Recorder(fails=True), Recorder()
    failing.extension = "announcements"
    session: Any = object()
    with pytest.raises(LookupError) as raised:
        events(failing, other).write(session, EVENT)
    assert raised.value.__notes__ == [EventObserver.NOTE.format("announcements")]
    events(failing, other).commit()
    assert other.calls == ["committed"], "after the commit the others go on"
    assert "A hook of the extension 'announcements' failed after a commit" in caplog.text
