# SPDX-License-Identifier: Apache-2.0
"""Ticks."""

from concurrent import futures

from tonnage.agent.operations import Epoch


def test_ticks_are_given_once_and_reports_take_them_too() -> None:
    epoch = Epoch(3)
    assert epoch.number == 3
    assert [epoch.tick(), epoch.begin_report(), epoch.tick(), epoch.begin_report()] == [1, (1, 2), 3, (2, 4)]


def test_many_threads_never_get_the_same_tick_and_later_reports_cover_more() -> None:
    epoch = Epoch(1)

    def take(_: int) -> tuple[list[int], list[tuple[int, int]]]:
        return [epoch.tick() for _ in range(200)], [epoch.begin_report() for _ in range(200)]

    with futures.ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(8)))
    ticks = [tick for alone, _ in taken for tick in alone]
    reports = sorted(report for _, made in taken for report in made)
    covers = [cover for _, cover in reports]
    assert covers == sorted(covers)
    assert sorted(ticks + covers) == list(range(1, 3201))
