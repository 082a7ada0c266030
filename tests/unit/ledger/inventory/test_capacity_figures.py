# SPDX-License-Identifier: Apache-2.0
"""Figures of pools for metrics, their sums, and counts of the ledger's rows."""

import dataclasses
import datetime
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ledger.catalog.catalogues import volume_type
from tests.unit.ledger.records import Records
from tonnage.ledger import models
from tonnage.ledger.inventory import capacity_figures
from tonnage.ledger.inventory.capacity_figures import BackendSums, PoolFigures

#: The figures of a pool that the sums do not read.
USUAL = dict.fromkeys(PoolFigures._fields)
CAPACITIES = st.integers(0, 10**6)


def figures(name: str = "host@b#p", storage: str | None = None, **values: float | None) -> PoolFigures:
    """Return the figures of a pool of 100 GiB, of which 60 are free and 10 in flight."""
    numbers = {"total_gb": 100.0, "free_gb": 60.0, "allocated_gb": 30, "in_flight_gb": 10}
    return PoolFigures(**{**USUAL, "name": name, "storage": storage, **numbers, **values})  # type: ignore[arg-type]


def heard(records: Records, backend: str, seconds: int = 0, **values: float) -> None:
    """Let the last report of a backend be that many seconds old."""
    records.rows(
        "UPDATE backends SET report_age = :delay, last_report_at = strftime('%Y-%m-%d %H:%M:%f', 'now', :age) "
        "WHERE name = :name",
        age=f"-{seconds} seconds",
        delay=values.get("report_age", 0.0),
        name=backend,
    )


def test_the_figures_of_a_pool_are_its_columns_and_those_of_its_backend(records: Records) -> None:
    records.pool("host@b#q", present=False)
    records.pool("host@b#p", in_flight_gb=5, shared_in_flight_gb=2, thin_limit_gb=180.0, provisioned_capacity_gb=None)
    records.pool("host@a#p")
    heard(records, "host@b", 10, report_age=5.0)
    first, second = records.run(capacity_figures.pools)
    assert (first.name, second.name, second.backend, second.zone) == ("host@a#p", "host@b#p", "host@b", "nova")
    assert (second.in_flight_gb, second.virtual_limit_gb, second.provisioned_gb) == (7, 180.0, None)
    assert second.silence == pytest.approx(10, abs=5)
    assert second.age == pytest.approx(15, abs=5)
    assert (first.silence, first.age, first.collected_at) == (None, None, None)
    assert records.run(capacity_figures.pools, backend="host@b") == [
        second._replace(age=pytest.approx(15, abs=5), silence=pytest.approx(10, abs=5))
    ]
    assert records.run(capacity_figures.number_of_pools) == 2
    assert records.run(capacity_figures.number_of_pools, backend="host@b") == 1


def test_a_pool_that_the_last_report_lacked_has_the_time_of_its_kept_figures(records: Records) -> None:
    kept_since = datetime.datetime.fromisoformat("2026-01-01")
    records.pool("host@b#p", figures_at=kept_since, unheard_at=kept_since)
    records.rows("UPDATE backends SET last_report_at = '2026-01-01 00:00:00.000'")
    [pool] = records.run(capacity_figures.pools)
    assert pool.collected_at == kept_since


def test_the_rest_of_a_storage_is_its_free_capacity_less_all_claims(records: Records) -> None:
    physical = {"in_flight_physical_gb": 3, "shared_in_flight_physical_gb": 4, "storage_id": "array"}
    records.pool("host@b#part", storage_free_gb=50.0, **physical)
    records.pool("host@b#whole", **physical)
    part, whole = records.run(capacity_figures.pools)
    assert (part.in_flight_physical_gb, part.storage_left_gb) == (3, 43.0)
    assert (whole.in_flight_physical_gb, whole.storage_left_gb) == (7, None)


@pytest.mark.parametrize(("silence", "is_up"), [(None, False), (0.0, True), (60.0, True), (60.1, False)])
def test_a_backend_is_up_until_it_is_silent_for_too_long(silence: float | None, is_up: bool) -> None:
    assert capacity_figures.is_up(silence, 60) is is_up
    assert figures(silence=silence).up(60) is is_up


def test_sums_of_backends_are_unknown_with_an_unknown_figure_and_only_of_those_that_are_up(records: Records) -> None:
    records.pool("host@b#p", in_flight_gb=5)
    records.pool("host@b#q", free_capacity_gb=None, shared_in_flight_gb=2)
    records.pool("host@down#p")
    records.pool("host@new#p")
    heard(records, "host@b")
    heard(records, "host@down", 1000)
    assert records.run(capacity_figures.backend_sums, 60) == [BackendSums("host@b", 2, 200.0, None, 0.0, 0.0, 7.0, 0.0)]
    assert records.run(capacity_figures.backend_sums, 60, backend="host@down") == []


def test_thin_pools_are_those_whose_report_says_so(records: Records) -> None:
    for name, stats in (
        ("host@b#yes", {"thin_provisioning_support": True}),
        ("host@b#text", {"thin_provisioning_support": "true"}),
        ("host@b#no", {"thin_provisioning_support": False}),
        ("host@b#silent", {}),
    ):
        records.pool(name, stats=stats)
    assert records.run(capacity_figures.thin_pools) == {"host@b#yes", "host@b#text"}


def test_a_name_that_is_not_reported_is_empty(records: Records) -> None:
    records.pool("host@b#p", stats={"volume_backend_name": "fast", "vendor_name": None})
    records.pool("host@b#q", stats={"vendor_name": "ACME"}, present=False)
    assert records.run(capacity_figures.reported_names) == {"host@b#p": ("fast", "")}


def test_counts_are_those_of_the_whole_ledger(records: Records) -> None:
    pool = records.pool()
    volume_id = records.claimed_volume(pool, 3, volume_type_id=volume_type(records))
    records.volume(pool, size_gb=4)
    records.volume(size_gb=5, status="error")
    for created_at in (datetime.datetime.fromisoformat("2026-01-02"), datetime.datetime.fromisoformat("2026-01-01")):
        records.claim(volume_id, pool, state="pending", created_at=created_at)
    records.discrepancy(pool, "stranger", "orphan")
    records.add(models.Finding(backend_id=records.backend(), pool="p", breach="free", text="text"))
    assert dataclasses.asdict(records.run(capacity_figures.counts)) == {
        "claims": [("create", "pending", 2, datetime.datetime.fromisoformat("2026-01-01"))],
        "volumes": {"available": 2, "error": 1},
        "discrepancies": {"orphan": 1},
        "findings": {"free": 1},
        "allocated_by_type": {"": 4, "gold": 3},
    }


def test_pools_that_share_a_storage_count_once() -> None:
    pools = [figures(), figures(storage="array"), figures(storage="array", free_gb=50.0, in_flight_gb=12)]
    assert dataclasses.astuple(capacity_figures.sums(pools)) == (200.0, 120.0, 90, 22, True)


def test_parts_of_a_storage_are_added_up_to_its_free_capacity() -> None:
    parts = [figures(storage="array", storage_free_gb=free) for free in (90.0, 80.0)]
    assert dataclasses.astuple(capacity_figures.sums(parts)) == (200.0, 90.0, 60, 20, True)
    parts = [figures(storage="array", storage_free_gb=500.0) for _ in range(2)]
    assert capacity_figures.sums(parts).free_gb == 120.0


@pytest.mark.parametrize("unknown", [None, math.inf])
@pytest.mark.parametrize("storage", [None, "array"])
def test_a_sum_with_an_unknown_figure_is_unknown(unknown: float | None, storage: str | None) -> None:
    pools = [figures(storage=storage), figures(storage=storage, total_gb=unknown, free_gb=unknown)]
    totals = capacity_figures.sums(pools)
    assert (totals.total_gb, totals.free_gb, totals.allocated_gb) == (None, None, 60)


@settings(max_examples=30)
@given(st.lists(st.tuples(CAPACITIES, CAPACITIES, st.sampled_from([None, "a", "b"])), max_size=8))
def test_sums_do_not_depend_on_the_order_of_pools(rows: list[tuple[int, int, str | None]]) -> None:
    pools = [figures(storage=storage, total_gb=total, free_gb=free) for total, free, storage in rows]
    totals = capacity_figures.sums(pools)
    assert capacity_figures.sums(reversed(pools)) == totals
    assert totals.total_gb is not None
    assert totals.total_gb <= sum(total for total, _, _ in rows)
