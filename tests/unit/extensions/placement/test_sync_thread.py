# SPDX-License-Identifier: Apache-2.0
import logging
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.placement import sync_thread
from tonnage.extensions.placement.allocation_writer import WriteProgress


class FakeWriter:
    """A fake writer that returns or raises the given results one after another, and repeats the last one."""

    def __init__(self, *results: WriteProgress | Exception) -> None:
        self.results = list(results)
        self.written = self.reconciled = 0
        self.seconds = self.reconcile_seconds = 0.0
        self.providers = SimpleNamespace(reconcile=self.reconcile)

    def reconcile(self, stopped: Callable[[], bool]) -> None:
        assert not stopped()
        self.reconciled += 1
        self.seconds += self.reconcile_seconds

    def write_all(self, stopped: Callable[[], bool]) -> WriteProgress:
        assert not stopped()
        self.written += 1
        found = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(found, Exception):
            raise found
        return found


def sync_thread_of(
    writer: FakeWriter, *, turn: bool = True, clock: Callable[[], float] = time.monotonic
) -> sync_thread.SyncThread:
    given: Any = writer
    return sync_thread.SyncThread(given, SimpleNamespace(has_turn=lambda work: turn), clock)


def test_the_pause_is_a_multiple_of_the_search_time() -> None:
    writer = FakeWriter(WriteProgress(0, 0, 0.01), WriteProgress(700, 700, 2.0), WriteProgress(0, 0, 1000.0))
    thread = sync_thread_of(writer)
    assert [thread.run_once(), thread.run_once(), thread.run_once()] == [
        sync_thread.MIN_PAUSE,
        2.0 * sync_thread.PAUSE_FACTOR,
        sync_thread.MAX_PAUSE,
    ]
    assert (writer.written, writer.reconciled) == (3, 1)


def test_the_pause_between_updates_of_providers_is_a_multiple_of_their_time() -> None:
    writer = FakeWriter(WriteProgress(0, 0, 0.0))
    writer.reconcile_seconds, thread = 100.0, sync_thread_of(writer, clock=lambda: writer.seconds)
    for seconds, reconciled in ((0, 1), (60, 1), (1839, 1), (1, 2)):
        writer.seconds += seconds
        thread.run_once()
        assert writer.reconciled == reconciled


def test_a_scheduler_without_the_turn_writes_nothing() -> None:
    writer = FakeWriter(WriteProgress(0, 0, 0.0))
    assert sync_thread_of(writer, turn=False).run_once() == sync_thread.MIN_PAUSE
    assert (writer.written, writer.reconciled) == (0, 0)


def test_an_unavailable_placement_is_logged_once_and_its_return_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    away = errors.Unavailable("nobody there")
    writer = FakeWriter(away, away, WriteProgress(0, 0, 0.0))
    thread = sync_thread_of(writer)
    assert [thread.run_once(), thread.run_once(), thread.run_once()] == [
        sync_thread.RETRY_PAUSE,
        sync_thread.RETRY_PAUSE,
        sync_thread.MIN_PAUSE,
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "Allocations are written later: nobody there",
        "Allocations are written to OpenStack Placement again",
    ]
    assert writer.reconciled == 3


def test_the_thread_stops_on_request() -> None:
    writer = FakeWriter(RuntimeError("whatever"))
    thread = sync_thread_of(writer)
    thread.start()
    thread.stop()
