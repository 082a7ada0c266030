# SPDX-License-Identifier: Apache-2.0
"""Reports in the ledger: which are accepted, what they write, and which claims they contain."""

import datetime
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.ledger.records import Records
from tonnage.ledger.inventory import reports
from tonnage.ledger.inventory.reports import PoolFigures, Report


def figures(name: str = "host@b#p", pool_id: int | None = None, **values: Any) -> PoolFigures:
    return PoolFigures(
        **{
            "id": pool_id,
            "name": name,
            "total_gb": 100.0,
            "free_gb": 60.0,
            "provisioned_gb": 40.0,
            "ratio": 2.0,
            "thin_limit_gb": 200.0,
            "physical_limit_gb": 60.0,
            "storage_id": None,
            "storage_free_gb": None,
            "changes_decisions": False,
            "stats": {"pool_name": "p"},
        }
        | values
    )


def report(records: Records, *pools: PoolFigures, backend: str = "host@b", **values: Any) -> Report:
    return Report(
        **{"epoch": 1, "seq": 1, "base": 0, "covers": 10, "rules": 0, "figures": pools}
        | {"backend_id": records.backend(backend)}
        | values
    )


@pytest.mark.parametrize(
    "late", [{"epoch": 0}, {"epoch": 2}, {"base": 1}, {"seq": 0}, {"rules": 1}, {"backend_id": 77}]
)
def test_a_report_that_does_not_follow_the_last_one_changes_nothing(records: Records, late: dict[str, int]) -> None:
    current = report(records, figures())
    assert records.run(reports.apply, [replace(current, **late)]) == [None]
    assert records.rows("SELECT COUNT(*) FROM pools") == [(0,)]
    assert records.rows("SELECT report_seq, last_report_at FROM backends") == [(0, None)]


def test_a_report_covers_at_least_what_the_last_one_covered(records: Records) -> None:
    records.backend(report_covers=11)
    assert records.run(reports.apply, [report(records, figures())]) == [None]


def test_a_new_pool_gets_a_row_with_its_figures(records: Records) -> None:
    [applied] = records.run(reports.apply, [report(records, figures())])
    assert applied is not None
    assert applied.generations == {applied.ids["host@b#p"]: 0}
    columns = "total_capacity_gb, free_capacity_gb, provisioned_capacity_gb, ratio, thin_limit_gb, physical_limit_gb"
    assert records.rows(f"SELECT {columns} FROM pools") == [(100, 60, 40, 2, 200, 60)]
    assert records.rows("SELECT covers_epoch, covers_tick FROM pools") == [(1, 10)]
    assert records.rows("SELECT report_seq, report_covers FROM backends") == [(1, 10)]


def test_only_other_changes_than_capacities_outdate_decisions(records: Records) -> None:
    pool_id = records.pool(generation=5)
    for seq, changes in ((1, False), (2, True)):
        message = report(records, figures(pool_id=pool_id, changes_decisions=changes), seq=seq, base=seq - 1)
        [applied] = records.run(reports.apply, [message])
        assert applied is not None
        assert applied.generations == {pool_id: 5 + changes}


def test_a_vanished_pool_is_absent_and_outdates_decisions(records: Records) -> None:
    pool_id = records.pool(generation=5)
    records.run(reports.apply, [report(records, vanished=[pool_id])])
    assert records.rows("SELECT present, generation FROM pools") == [(False, 6)]


@pytest.mark.parametrize(
    ("end", "contained"), [((1, 9), True), ((1, 10), False), ((0, 99), True), ((None, None), False)]
)
def test_a_report_contains_claims_that_ended_before_its_tick(
    records: Records, end: tuple[int | None, int | None], contained: bool
) -> None:
    pool_id = records.pool()
    records.claim(records.volume(pool_id), pool_id, contained=False, end_epoch=end[0], end_tick=end[1])
    records.recount()
    # The pool's figures are unchanged, so the report does not repeat them.
    [applied] = records.run(reports.apply, [report(records)])
    assert applied is not None
    assert records.rows("SELECT contained FROM claims") == [(contained,)]
    assert applied.counters[pool_id].in_flight == (0 if contained else 3)
    assert records.rows("SELECT covers_tick FROM pools") == [(10,)]


def test_a_released_claim_is_deleted_once_a_report_contains_it(records: Records) -> None:
    pool_id = records.pool()
    records.claim("gone", pool_id, state="released", contained=False, end_epoch=1, end_tick=9)
    records.run(reports.apply, [report(records)])
    assert records.rows("SELECT COUNT(*) FROM claims") == [(0,)]


def test_an_unusable_pool_keeps_its_figures_claims_and_their_age(records: Records) -> None:
    pool_id = records.pool(free_capacity_gb=33.0)
    records.claim(records.volume(pool_id), pool_id, contained=False, end_epoch=1, end_tick=9)
    records.run(reports.apply, [report(records, age=4.0)])
    records.rows("UPDATE claims SET contained = 0")
    [(before,)] = records.rows("SELECT last_report_at FROM backends")
    records.run(reports.apply, [report(records, seq=2, base=1, covers=12, unusable=[pool_id])])
    assert records.rows("SELECT free_capacity_gb FROM pools") == [(33.0,)]
    assert records.rows("SELECT contained FROM claims") == [(False,)]
    [(kept, unheard, last)] = records.rows(
        "SELECT p.figures_at, p.unheard_at, b.last_report_at FROM pools p, backends b"
    )
    collected = datetime.datetime.fromisoformat(before) - datetime.timedelta(seconds=4)
    assert datetime.datetime.fromisoformat(kept) == collected
    assert unheard == last
    records.run(reports.apply, [report(records, seq=3, base=2, covers=13, unusable=[pool_id])])
    assert records.rows("SELECT figures_at FROM pools") == [(kept,)]


def test_each_of_several_reports_is_applied_alone(records: Records) -> None:
    messages = [
        report(records, figures("h1@b#p"), backend="h1@b"),
        report(records, figures("h2@b#p"), backend="h2@b", epoch=2),
        report(records, figures("h3@b#p"), backend="h3@b"),
    ]
    first, late, third = records.run(reports.apply, messages)
    assert (first is None, late, third is None) == (False, None, False)
    assert records.rows("SELECT name FROM pools ORDER BY name") == [("h1@b#p",), ("h3@b#p",)]


def test_pools_that_join_a_storage_count_the_claims_of_each_other(records: Records) -> None:
    first, second = (records.pool(f"{host}@b#p") for host in ("h1", "h2"))
    records.claim(records.volume(first), first, size_gb=5)
    records.recount()
    for pool_id, backend in ((first, "h1@b"), (second, "h2@b")):
        on_array = figures(f"{backend}#p", pool_id, storage_id="array", changes_decisions=True)
        message = report(records, on_array, backend=backend, storages=["array"], stamps={"array": 1})
        records.run(reports.apply, [message])
    assert records.rows("SELECT shared_allocated_gb FROM pools ORDER BY id") == [(0,), (5,)]
    alone = figures("h2@b#p", second, changes_decisions=True)
    records.run(reports.apply, [report(records, alone, backend="h2@b", seq=2, base=1)])
    assert records.rows("SELECT shared_allocated_gb FROM pools ORDER BY id") == [(0,), (0,)]


def test_storages_are_shared_by_pools_of_different_backends(records: Records) -> None:
    records.pool("h1@b#p0", storage_id="own")
    records.pool("h1@b#p1", storage_id="own")
    records.pool("h1@b#p2", storage_id="z")
    records.pool("h1@b#p3", storage_id="array")
    for name in ("z", "array"):
        records.pool(f"h2@b#{name}", storage_id=name)
    assert records.run(reports.shared_storages, records.backend("h1@b")) == ["array", "z"]
    assert records.run(reports.shared_storages, records.backend("h3@b")) == []


def test_each_look_at_a_storage_gets_the_next_stamp(records: Records) -> None:
    assert records.run(reports.next_stamps, ["a", "b"]) == {"a": 1, "b": 1}
    assert records.run(reports.next_stamps, ["b", "c"]) == {"b": 2, "c": 1}
