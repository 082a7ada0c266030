# SPDX-License-Identifier: Apache-2.0
"""The poll of Cinder's rows."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.cinder.scheduler.row_poll import RowPoll


class Site:
    """A ledger and Cinder's database, with the calls that they got."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.open: set[str] = set()
        self.problem: Exception | None = None
        self.now = 0.0

    def open_volumes(self) -> set[str]:
        return self.open

    def claimed_volumes(self) -> set[str]:
        return {"claimed"}

    def claims(self, volume_ids: Collection[str]) -> list[str]:
        return sorted(volume_ids)

    def read(self, volume_ids: Collection[str] | None = None) -> Sequence[Any]:
        if self.problem is not None:
            raise self.problem
        self.calls.append(("read", None if volume_ids is None else sorted(volume_ids)))
        return []

    def snapshots_in_hand(self) -> Collection[str]:
        return ["snapshot"]

    def settle(self, claims: Any, rows: Any, snapshots: Any) -> None:
        self.calls.append(("settle", (claims, snapshots)))

    def purge(self) -> None:
        self.calls.append(("purge", None))

    def overdue(self, claims: Any, rows: Any) -> list[Any]:
        return []


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def poll(site: Any) -> RowPoll:
    return RowPoll(site, site, site, 60.0, lambda: site.now)


FULL = [("read", None), ("settle", (["claimed"], ["snapshot"])), ("purge", None)]


def test_all_rows_are_read_at_first_and_after_each_interval(poll: RowPoll, site: Site) -> None:
    poll.poll()
    assert site.calls == FULL
    site.now = 59.0
    poll.poll()
    assert site.calls == FULL
    site.now = 60.0
    poll.poll()
    assert site.calls == FULL * 2


def test_between_them_the_rows_of_open_volumes_are_read(poll: RowPoll, site: Site) -> None:
    poll.poll()
    site.calls.clear()
    site.open = {"b", "a"}
    poll.poll()
    assert site.calls == [("read", ["a", "b"]), ("settle", (["a", "b"], ["snapshot"]))]


def test_a_poll_of_all_rows_that_failed_is_repeated_at_once(poll: RowPoll, site: Site) -> None:
    site.problem = errors.Unavailable("no database")
    with pytest.raises(errors.Unavailable, match="no database"):
        poll.poll()
    site.problem = None
    poll.poll()
    assert site.calls == FULL
