# SPDX-License-Identifier: Apache-2.0
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler.reports.deferred_reports import DeferredReports

NAME = "h@b"


def report(seq: int, epoch: int = 1) -> BackendReport:
    return BackendReport(backend=NAME, epoch=epoch, seq=seq, covers=0, age=0.0, pools=[])


def test_the_newest_is_the_newest_in_whatever_order_they_came() -> None:
    kept = DeferredReports()
    for number, each in enumerate([report(2), report(1, epoch=2), report(1)]):
        kept.put(each, float(number))
    assert [(each.epoch, each.seq) for each in kept.newest()] == [(2, 1)]
    assert kept.find(NAME, 1, 2) == report(2)
    assert kept.find(NAME, 2, 2) is None


def test_how_long_one_waits_is_told_by_the_first_that_is_left() -> None:
    kept = DeferredReports()
    assert kept.since(NAME) is None
    for seq in range(1, 100):
        kept.put(report(seq), float(seq))
    assert kept.since(NAME) == 1.0
    kept.drop(NAME, 1, 97)
    assert kept.since(NAME) == 98.0
    kept.drop(NAME, 1, 99)
    assert kept.since(NAME) is None
    assert not list(kept.newest())


def test_not_all_are_kept() -> None:
    kept = DeferredReports()
    for seq in range(1, 100):
        kept.put(report(seq), float(seq))
    there = [seq for seq in range(1, 100) if kept.find(NAME, 1, seq) is not None]
    assert there == [1, *range(100 - DeferredReports.MOST + 1, 100)]
