# SPDX-License-Identifier: Apache-2.0
"""The cache of ledger rows, by a subclass that keeps whole rows and notes the names that it is told."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from tonnage.ledger.inventory.backends import BackendRow, PoolMark, PoolRow
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.scheduler.cache.ledger_cache import LedgerCache

BACKEND = "h@b"
ROW = BackendRow(
    id=1,
    name=BACKEND,
    availability_zone="nova",
    enabled=True,
    disabled_reason=None,
    draining=False,
    epoch=1,
    report_seq=5,
    report_covers=5,
    silence=None,
    report_age=0.0,
    last_report_at=None,
    nonce="",
)


class Rows(LedgerCache[BackendRow, PoolRow]):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []
        self.hidden: list[str] = []

    def apply_pools(self, rows: Iterable[PoolRow]) -> None:
        for row in rows:
            self.entries[row.name] = row
            self._names[row.id] = row.name

    def _put_backend(self, row: BackendRow, now: float, absence: float) -> None:
        self._backends[row.name] = row

    def _pools_of(self, backend: BackendRow) -> list[str]:
        return [row.name for row in self.entries.values() if row.backend_id == backend.id]

    def _with_counters(self, pool: PoolRow, counters: Counters) -> PoolRow:
        return pool._replace(counters=counters)

    def _show_counters(self, names: Sequence[str]) -> None:
        self.shown += names

    def _hide_pools(self, names: Sequence[str]) -> None:
        self.hidden += names


def pool(number: int, backend_id: int = 1, generation: int = 1) -> PoolRow:
    return PoolRow(
        id=number,
        backend_id=backend_id,
        name=f"{BACKEND}#p{number}",
        generation=generation,
        counters=Counters(),
        ratio=1.0,
        thin_limit_gb=None,
        stats={},
        figures_age=None,
    )


def mark(row: PoolRow, generation: int = 1, covers: int = 4, counters: Counters | None = None) -> PoolMark:
    return PoolMark(
        row.id, row.backend_id, row.name, generation, (1, covers), row.counters if counters is None else counters, None
    )


@pytest.fixture
def cache() -> Rows:
    cache = Rows()
    cache.apply_rows(ROW, [mark(pool(1)), mark(pool(2))], [pool(1), pool(2)], 0.0)
    return cache


@pytest.mark.parametrize(
    "row",
    [
        replace(ROW, id=2),
        replace(ROW, epoch=2),
        replace(ROW, report_seq=6),
        replace(ROW, enabled=False),
        replace(ROW, draining=True),
        replace(ROW, availability_zone="other"),
        replace(ROW, name="h@unknown"),
    ],
)
def test_a_backend_is_outdated_after_a_report_a_hello_or_a_change_by_an_operator(cache: Rows, row: BackendRow) -> None:
    assert cache.is_outdated(row)
    assert not cache.is_outdated(replace(ROW, silence=3.0, disabled_reason="none"))


def test_figures_are_current_if_neither_generation_nor_coverage_has_changed(cache: Rows) -> None:
    assert cache.has_figures(mark(pool(1)), ROW)
    assert not cache.has_figures(mark(pool(1), generation=2), ROW)
    assert not cache.has_figures(mark(pool(1), covers=5), ROW)
    assert not cache.has_figures(mark(pool(3)), ROW)
    assert not cache.has_figures(mark(pool(1)), replace(ROW, id=2))


def test_counters_of_current_pools_are_taken_from_their_marks_and_other_pools_are_forgotten(cache: Rows) -> None:
    row = replace(ROW, report_seq=6)
    changed = mark(pool(1), counters=Counters(in_flight=3))
    assert cache.apply_rows(row, [changed, mark(pool(4))], [pool(3)], 1.0) == [changed]
    assert cache.entries.keys() == {pool(1).name, pool(3).name}
    assert cache.counters([1, 2, 3]) == {1: Counters(in_flight=3), 3: Counters()}
    assert cache.names([1, 2, 3]) == [pool(1).name, pool(3).name]
    assert cache.shown == [pool(1).name]
    assert cache.hidden == [pool(2).name]


def test_counters_that_are_the_same_are_not_shown_again(cache: Rows) -> None:
    cache.set_counters({1: Counters(), 2: Counters(in_flight=1), 7: Counters(in_flight=1)})
    assert cache.shown == [pool(2).name]


def test_a_backend_that_was_removed_and_comes_back_loses_its_pools(cache: Rows) -> None:
    again = replace(ROW, id=2)
    cache.apply_rows(again, [], [pool(3, backend_id=2)], 1.0)
    assert cache.entries.keys() == {pool(3).name}
    assert list(cache.backends()) == [again]
    assert cache.backend(BACKEND) is again


def test_a_backend_that_is_not_in_the_ledger_is_forgotten(cache: Rows) -> None:
    assert not cache.forget_missing([ROW])
    assert cache.forget_missing([replace(ROW, id=2)])
    assert cache.backend(BACKEND) is None
    assert not cache.entries
    assert cache.names([1, 2]) == []
